// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Buffers.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

int64_t jpmhc::bytesOf(Type type) {
  if (auto shaped = dyn_cast<ShapedType>(type))
    return shaped.getNumElements() * bytesOf(shaped.getElementType());
  if (auto complex = dyn_cast<ComplexType>(type))
    return 2 * bytesOf(complex.getElementType());
  if (type.isIndex())
    return 8;
  return type.isIntOrFloat() ? llvm::divideCeil(type.getIntOrFloatBitWidth(), 8)
                             : 0;
}

Value jpmhc::viewedBuffer(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return buffer;
}
