// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"

using namespace mlir;
using namespace jpmhc;

static LogicalResult verifyClasses(Operation *op, Value logits, Value target,
                                   int64_t ignored) {
  auto logitsType = typeOf(logits);
  auto targetType = typeOf(target);
  if (logitsType.getRank() != 2)
    return op->emitOpError("expected logits of shape [N, V], got rank ")
           << logitsType.getRank();
  if (targetType.getRank() != 1)
    return op->emitOpError("expected a target of shape [N], got rank ")
           << targetType.getRank();
  int64_t rows = logitsType.getDimSize(0), targets = targetType.getDimSize(0);
  if (failed(verifyCompatibleShape({rows}, {targets})))
    return op->emitOpError("expected a target of ")
           << rows << " elements, got " << targets;
  return verifyConstantIds(op, "targets", target, logitsType.getDimSize(1),
                           ignored);
}

LogicalResult SoftmaxCrossEntropyOp::verify() {
  return verifyClasses(*this, getLogits(), getTarget(), getIgnoreIndex());
}

LogicalResult
SoftmaxCrossEntropyOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                const llvm::BitVector &,
                                MutableArrayRef<Value> gradients) {
  gradients[0] = SoftmaxCrossEntropyVjpOp::create(
      builder, getLoc(), getLogits().getType(), getLogits(), getTarget(),
      cotangents[0], getIgnoreIndexAttr());
  return success();
}

LogicalResult SoftmaxCrossEntropyVjpOp::verify() {
  return verifyClasses(*this, getLogits(), getTarget(), getIgnoreIndex());
}

LogicalResult StablemaxCrossEntropyOp::verify() {
  return verifyClasses(*this, getLogits(), getTarget(), getIgnoreIndex());
}

LogicalResult
StablemaxCrossEntropyOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                  const llvm::BitVector &,
                                  MutableArrayRef<Value> gradients) {
  gradients[0] = StablemaxCrossEntropyVjpOp::create(
      builder, getLoc(), getLogits().getType(), getLogits(), getTarget(),
      cotangents[0], getIgnoreIndexAttr());
  return success();
}

LogicalResult StablemaxCrossEntropyVjpOp::verify() {
  return verifyClasses(*this, getLogits(), getTarget(), getIgnoreIndex());
}
