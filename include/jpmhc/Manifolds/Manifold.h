// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The registry of manifolds: everything the compiler knows of a mixer is said
// once, in the manifold's own file.
#ifndef JPMHC_MANIFOLDS_MANIFOLD_H
#define JPMHC_MANIFOLDS_MANIFOLD_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"

namespace jpmhc {

class ManifoldRegistry {
public:
  /// Checks a name and its parameters against the registry; emits `expected X,
  /// got Y`.
  static llvm::LogicalResult
  verify(llvm::function_ref<mlir::InFlightDiagnostic()> emitError,
         llvm::StringRef name, mlir::DictionaryAttr parameters);
};

} // namespace jpmhc

#endif // JPMHC_MANIFOLDS_MANIFOLD_H
