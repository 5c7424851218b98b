// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"

using namespace mlir;
using namespace jpmhc;

/// A per-channel operand must have as many elements as a row of x.
static LogicalResult verifyPerChannel(Operation *op, StringRef name,
                                      Value perChannel, Value x) {
  auto type = typeOf(x);
  if (type.getRank() < 1)
    return op->emitOpError("expected x of rank 1 or more, got rank 0");
  if (!perChannel)
    return success();
  int64_t expected = type.getShape().back(),
          got = typeOf(perChannel).getDimSize(0);
  if (failed(verifyCompatibleShape({expected}, {got})))
    return op->emitOpError("expected ")
           << name << " of " << expected << " elements, got " << got;
  return success();
}

static LogicalResult verifyEps(Operation *op, const APFloat &eps) {
  if (eps.isFinite() && (eps.isZero() || !eps.isNegative()))
    return success();
  return op->emitOpError("expected a finite eps >= 0, got ")
         << eps.convertToDouble();
}

LogicalResult RMSNormOp::verify() {
  if (failed(verifyEps(*this, getEps())))
    return failure();
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
  if (failed(verifyEps(*this, getEps())))
    return failure();
  if (getX().getType() != getDy().getType())
    return emitOpError("expected dy of type ")
           << getX().getType() << ", got " << getDy().getType();
  return verifyPerChannel(*this, "gain", getGain(), getX());
}

LogicalResult LayerNormOp::verify() {
  if (failed(verifyEps(*this, getEps())) ||
      failed(verifyPerChannel(*this, "gain", getGain(), getX())))
    return failure();
  return verifyPerChannel(*this, "shift", getShift(), getX());
}

LogicalResult LayerNormOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                    const llvm::BitVector &needed,
                                    MutableArrayRef<Value> gradients) {
  auto [gainIndex, gainCount] = getODSOperandIndexAndLength(1);
  auto [shiftIndex, shiftCount] = getODSOperandIndexAndLength(2);
  Type gainType = gainCount && needed[gainIndex] ? getGain().getType() : Type(),
       shiftType =
           shiftCount && needed[shiftIndex] ? getShift().getType() : Type();
  auto vjp = LayerNormVjpOp::create(builder, getLoc(), getX().getType(),
                                    gainType, shiftType, getX(), cotangents[0],
                                    getGain(), getEpsAttr());
  gradients[0] = vjp.getDx();
  if (gainType)
    gradients[gainIndex] = vjp.getDgain();
  if (shiftType)
    gradients[shiftIndex] = vjp.getDshift();
  return success();
}

LogicalResult LayerNormVjpOp::verify() {
  if (failed(verifyEps(*this, getEps())))
    return failure();
  if (getX().getType() != getDy().getType())
    return emitOpError("expected dy of type ")
           << getX().getType() << ", got " << getDy().getType();
  if (getDgain() && !getGain())
    return emitOpError("expected a gain with dgain, got none");
  if (failed(verifyPerChannel(*this, "gain", getGain(), getX())) ||
      failed(verifyPerChannel(*this, "dgain", getDgain(), getX())))
    return failure();
  return verifyPerChannel(*this, "dshift", getDshift(), getX());
}
