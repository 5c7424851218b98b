// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"

using namespace mlir;
using namespace jpmhc;

/// Blocks of four words are counted in 32 bits.
static LogicalResult verifyElements(Operation *op, Value tensor) {
  auto type = typeOf(tensor);
  constexpr int64_t limit = int64_t(1) << 34;
  int64_t elements = 1;
  if (type.hasStaticShape())
    for (int64_t d : type.getShape())
      elements = d == 0 ? 0 : elements > limit / d ? limit + 1 : elements * d;
  if (elements > limit)
    return op->emitOpError("expected at most ")
           << limit << " elements, got " << type;
  return success();
}

LogicalResult RandomBitsOp::verify() { return verifyElements(*this, getY()); }

LogicalResult RandomUniformOp::verify() {
  return verifyElements(*this, getY());
}

LogicalResult RandomNormalOp::verify() { return verifyElements(*this, getY()); }

LogicalResult DropoutOp::verify() {
  double rate = getRate().convertToDouble();
  if (!(rate >= 0 && rate < 1))
    return emitOpError("expected a rate in [0, 1), got ") << rate;
  return verifyElements(*this, getX());
}

OpFoldResult DropoutOp::fold(FoldAdaptor) {
  return getRate().isZero() ? getX() : OpFoldResult();
}

LogicalResult DropoutOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                  const llvm::BitVector &,
                                  MutableArrayRef<Value> gradients) {
  gradients[0] =
      DropoutOp::create(builder, getLoc(), getX().getType(), cotangents[0],
                        getSeed(), getStep(), getSite(), getRateAttr());
  return success();
}
