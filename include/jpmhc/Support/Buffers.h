// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of types, and buffers behind views.
#ifndef JPMHC_SUPPORT_BUFFERS_H
#define JPMHC_SUPPORT_BUFFERS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Interfaces/ViewLikeInterface.h"
#include "llvm/ADT/STLExtras.h"

namespace jpmhc {

/// Bytes of a number (an index has 64 bits), or of all elements of a vector,
/// tensor or buffer of static shape; 0 for a type that holds no numbers.
int64_t bytesOf(mlir::Type type);

/// The buffer that a chain of views looks at.
mlir::Value viewedBuffer(mlir::Value buffer);

/// Whether an op may have `Effect` (MemoryEffects::Read or Write) on the buffer
/// or on a view of it.
template <typename Effect> bool hasEffectOn(mlir::Value buffer) {
  return llvm::any_of(buffer.getUsers(), [&](mlir::Operation *user) {
    if (mlir::isa<mlir::ViewLikeOpInterface>(user))
      return llvm::any_of(user->getResults(), hasEffectOn<Effect>);
    auto effects = mlir::dyn_cast<mlir::MemoryEffectOpInterface>(user);
    return !effects ||
           effects.template getEffectOnValue<Effect>(buffer).has_value();
  });
}

} // namespace jpmhc

#endif // JPMHC_SUPPORT_BUFFERS_H
