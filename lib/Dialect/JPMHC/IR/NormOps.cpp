// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"

using namespace mlir;
using namespace jpmhc;

/// A per-channel operand must have as many elements as a row of x.
static LogicalResult verifyPerChannel(Operation *op, StringRef name,
                                      Value perChannel, Value x) {
  auto type = cast<RankedTensorType>(x.getType());
  if (type.getRank() < 1)
    return op->emitOpError("expected x of rank 1 or more, got rank 0");
  if (!perChannel)
    return success();
  int64_t expected = type.getShape().back(),
          got = cast<RankedTensorType>(perChannel.getType()).getDimSize(0);
  if (failed(verifyCompatibleShape({expected}, {got})))
    return op->emitOpError("expected ")
           << name << " of " << expected << " elements, got " << got;
  return success();
}

LogicalResult RMSNormOp::verify() {
  return verifyPerChannel(*this, "gain", getGain(), getX());
}

LogicalResult RMSNormOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                  const llvm::BitVector &needed,
                                  MutableArrayRef<Value> gradients) {
  Type gainType = getGain() ? getGain().getType() : Type();
  auto vjp =
      RMSNormVjpOp::create(builder, getLoc(), getX().getType(), gainType,
                           getX(), cotangents[0], getGain(), getEpsAttr());
  gradients[0] = vjp.getDx();
  if (getGain())
    gradients[1] = vjp.getDgain();
  return success();
}

LogicalResult RMSNormVjpOp::verify() {
  if (getX().getType() != getDy().getType())
    return emitOpError("expected dy of type ")
           << getX().getType() << ", got " << getDy().getType();
  return verifyPerChannel(*this, "gain", getGain(), getX());
}
