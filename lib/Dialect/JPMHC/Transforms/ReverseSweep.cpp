// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ReverseSweep.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Transforms/RegionUtils.h"

using namespace mlir;
using namespace jpmhc;

// ---- values ----

bool jpmhc::isFloatLike(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type)) &&
         isa<FloatType, RankedTensorType>(type);
}

static Value scalarConstant(OpBuilder &builder, Location loc, Type type,
                            double value) {
  return arith::ConstantOp::create(builder, loc,
                                   builder.getFloatAttr(type, value));
}

Value jpmhc::constantLike(OpBuilder &builder, Location loc, Value like,
                          double value) {
  Type element = getElementTypeOrSelf(like.getType());
  auto type = dyn_cast<RankedTensorType>(like.getType());
  if (!type)
    return scalarConstant(builder, loc, element, value);
  if (type.hasStaticShape())
    return arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(RankedTensorType::get(type.getShape(), element),
                               builder.getFloatAttr(element, value)));
  Value scalar = scalarConstant(builder, loc, element, value);
  Value empty = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, like), element);
  return linalg::FillOp::create(builder, loc, scalar, empty).getResult(0);
}

Value jpmhc::zeroLike(OpBuilder &builder, Location loc, Value like,
                      Type element) {
  if (!element)
    element = getElementTypeOrSelf(like.getType());
  Value zero = scalarConstant(builder, loc, element, 0);
  if (!isa<RankedTensorType>(like.getType()))
    return zero;
  Value empty = tensor::EmptyOp::create(
      builder, loc, tensor::getMixedSizes(builder, loc, like), element);
  return linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
}

Value jpmhc::convertElements(OpBuilder &builder, Location loc, Value value,
                             Type element) {
  Type from = getElementTypeOrSelf(value.getType());
  if (from == element)
    return value;
  Type type = element;
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    type = tensor.clone(element);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return arith::ExtFOp::create(builder, loc, type, value);
  return arith::TruncFOp::create(builder, loc, type, value);
}

SmallVector<Value> jpmhc::getUsedValues(Operation *op) {
  SmallVector<Value> used(op->getOperands());
  llvm::SetVector<Value> captured;
  getUsedValuesDefinedAbove(op->getRegions(), captured);
  used.append(captured.begin(), captured.end());
  return used;
}

void jpmhc::eraseDeadOps(Block &block) {
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(block)))
    if (isOpTriviallyDead(&op) || (isa<func::CallOp>(op) && op.use_empty()))
      op.erase();
}

// ---- the sweep ----

ReverseSweep::ReverseSweep(ArrayRef<Operation *> ops, ValueRange wrt)
    : ops(ops) {
  varied.insert(wrt.begin(), wrt.end());
  for (Operation *op : ops) {
    if (isa<StopGradientOp>(op) ||
        llvm::none_of(getUsedValues(op),
                      [&](Value v) { return varied.contains(v); }))
      continue;
    for (Value result : op->getResults())
      if (isFloatLike(result.getType()))
        varied.insert(result);
  }
}

void ReverseSweep::add(Value value, Value cotangent) {
  if (varied.contains(value))
    contributions[value].push_back(cotangent);
}

Value ReverseSweep::getCotangent(OpBuilder &builder, Value value) {
  auto it = contributions.find(value);
  if (it == contributions.end())
    return Value();
  ArrayRef<Value> parts = it->second;
  if (parts.size() == 1)
    return parts[0];
  Location loc = value.getLoc();
  Type element = getElementTypeOrSelf(value.getType());
  Type wide =
      element.getIntOrFloatBitWidth() < 32 ? builder.getF32Type() : element;
  Value sum = convertElements(builder, loc, parts[0], wide);
  for (Value part : parts.drop_front())
    sum = arith::AddFOp::create(builder, loc, sum,
                                convertElements(builder, loc, part, wide));
  sum = convertElements(builder, loc, sum, element);
  it->second.assign({sum});
  return sum;
}

LogicalResult ReverseSweep::run(OpBuilder &builder, CallRule callRule) {
  for (Operation *op : llvm::reverse(ops))
    if (failed(visit(op, builder, callRule)))
      return failure();
  return success();
}

LogicalResult ReverseSweep::visit(Operation *op, OpBuilder &builder,
                                  CallRule callRule) {
  SmallVector<Value> cotangents;
  for (Value result : op->getResults())
    cotangents.push_back(getCotangent(builder, result));
  if (llvm::none_of(cotangents, [](Value v) { return bool(v); }))
    return success();
  // A result has a cotangent only if it is varied, so something below is too.
  llvm::BitVector needed(op->getNumOperands());
  for (OpOperand &operand : op->getOpOperands())
    needed[operand.getOperandNumber()] = varied.contains(operand.get());
  SmallVector<Value> used = getUsedValues(op);
  for (Value captured : ArrayRef(used).drop_front(needed.size()))
    if (varied.contains(captured))
      return op->emitOpError("expected its regions to capture no value with a "
                             "gradient, got one of type ")
             << captured.getType();

  SmallVector<Value> gradients(op->getNumOperands());
  if (auto call = dyn_cast<func::CallOp>(op)) {
    if (failed(callRule(call, builder, cotangents, needed, gradients)))
      return failure();
  } else if (auto rule = dyn_cast<DifferentiableOpInterface>(op)) {
    if (failed(rule.buildVjp(builder, cotangents, needed, gradients)))
      return failure();
  } else {
    return op->emitError("expected a differentiable op, got '")
           << op->getName() << "'";
  }
  for (unsigned i : needed.set_bits())
    if (gradients[i])
      add(op->getOperand(i), gradients[i]);
  return success();
}
