// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace jpmhc;

// ---- steps with two moments: operands p, g, m, v; results p, m, v

static int64_t momentOperand(int64_t result) {
  return result == 0 ? 0 : result + 1;
}

static LogicalResult verifyDecay(Operation *op, APFloat decay) {
  if (decay.isFinite() && !decay.isNegative())
    return success();
  return op->emitOpError("expected a finite weight_decay >= 0, got ")
         << decay.convertToDouble();
}

/// A learning rate that is a constant.
static LogicalResult verifyRate(Operation *op, Value lr) {
  FloatAttr known;
  if (!matchPattern(lr, m_Constant(&known)))
    return success();
  APFloat value = known.getValue();
  if (value.isFinite() && (value.isZero() || !value.isNegative()))
    return success();
  return op->emitOpError("expected a finite lr >= 0, got ")
         << value.convertToDouble();
}

/// A number of a step that is a constant.
static LogicalResult verifyStep(Operation *op, Value step) {
  std::optional<int64_t> known = getConstantIntValue(step);
  if (!known || *known >= 1)
    return success();
  return op->emitOpError("expected a step of 1 or more, got ") << *known;
}

template <typename Op> static LogicalResult verifyMoments(Op op) {
  auto shape = typeOf(op.getP()).getShape();
  auto expect = [&](StringRef name, Value value) -> LogicalResult {
    auto type = typeOf(value);
    if (succeeded(verifyCompatibleShape(shape, type.getShape())))
      return success();
    return op.emitOpError("expected ") << name << " of shape [" << shape
                                       << "], got [" << type.getShape() << "]";
  };
  auto rate = [&](StringRef name, APFloat beta) -> LogicalResult {
    double value = beta.convertToDouble();
    if (value >= 0 && value < 1)
      return success();
    return op.emitOpError("expected ") << name << " in [0, 1), got " << value;
  };
  return success(succeeded(expect("g", op.getG())) &&
                 succeeded(expect("m", op.getM())) &&
                 succeeded(expect("v", op.getV())) &&
                 succeeded(verifyRate(op, op.getLr())) &&
                 succeeded(verifyStep(op, op.getStep())) &&
                 succeeded(rate("beta1", op.getBeta1())) &&
                 succeeded(rate("beta2", op.getBeta2())) &&
                 succeeded(verifyDecay(op, op.getWeightDecay())));
}

int64_t AdamWOp::getInPlaceOperand(int64_t result) {
  return momentOperand(result);
}

LogicalResult AdamWOp::verify() {
  if (failed(verifyMoments(*this)))
    return failure();
  if (!getEps().isFinite() || getEps().isNegative())
    return emitOpError("expected a finite eps >= 0, got ")
           << getEps().convertToDouble();
  return success();
}

int64_t AdamAtan2Op::getInPlaceOperand(int64_t result) {
  return momentOperand(result);
}

LogicalResult AdamAtan2Op::verify() { return verifyMoments(*this); }

// ---- sign_sgd_rows

int64_t SignSGDRowsOp::getInPlaceOperand(int64_t) { return 0; }

LogicalResult SignSGDRowsOp::verify() {
  auto table = typeOf(getTable()), ids = typeOf(getIds()),
       grad = typeOf(getGrad());
  if (table.getRank() != 2)
    return emitOpError("expected a table of shape [V, D], got rank ")
           << table.getRank();
  if (ids.getRank() != 1)
    return emitOpError("expected ids of shape [K], got rank ") << ids.getRank();
  int64_t shape[] = {ids.getDimSize(0), table.getDimSize(1)};
  if (failed(verifyCompatibleShape(shape, grad.getShape())))
    return emitOpError("expected grad of type ")
           << RankedTensorType::get(shape, grad.getElementType()) << ", got "
           << grad;
  if (failed(verifyRate(*this, getLr())) ||
      failed(verifyConstantIds(*this, "ids", getIds(), table.getDimSize(0))))
    return failure();
  return verifyDecay(*this, getWeightDecay());
}
