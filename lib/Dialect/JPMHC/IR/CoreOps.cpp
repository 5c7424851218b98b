// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace jpmhc;

static bool isFloat(Type type) {
  return isa<FloatType>(getElementTypeOrSelf(type));
}

static LogicalResult verifyTypes(Operation *op, StringRef what, TypeRange got,
                                 TypeRange expected) {
  if (got.size() != expected.size())
    return op->emitOpError("expected ")
           << expected.size() << " " << what << "s, got " << got.size();
  for (auto [i, types] : llvm::enumerate(llvm::zip(got, expected)))
    if (std::get<0>(types) != std::get<1>(types))
      return op->emitOpError("expected ")
             << what << " " << i << " of type " << std::get<1>(types)
             << ", got " << std::get<0>(types);
  return success();
}

/// Result types of the op: those of the callee, then those of the
/// differentiated inputs.
static FailureOr<SmallVector<Type>> getOutputTypes(VjpOp op,
                                                   FunctionType callee) {
  SmallVector<Type> types(callee.getResults());
  llvm::SmallSet<int64_t, 8> seen;
  for (int64_t position : op.getWrt()) {
    if (position < 0 || position >= callee.getNumInputs())
      return op.emitOpError("expected positions of wrt in [0, ")
             << callee.getNumInputs() << "), got " << position;
    if (!seen.insert(position).second)
      return op.emitOpError("expected different positions of wrt, got ")
             << position << " twice";
    Type type = callee.getInput(position);
    if (!isFloat(type))
      return op.emitOpError("expected input ")
             << position << " of wrt to be floating-point, got " << type;
    types.push_back(type);
  }
  return types;
}

LogicalResult VjpOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function =
      symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getCalleeAttr());
  if (!function)
    return emitOpError("expected the name of a function, got ")
           << getCalleeAttr();
  if (function.isExternal())
    return emitOpError("expected a function with a body, got ")
           << getCalleeAttr();
  FunctionType type = function.getFunctionType();
  if (failed(verifyTypes(*this, "input", getInputs().getTypes(),
                         type.getInputs())))
    return failure();
  size_t seeds = getCotangents().size();
  if (seeds > type.getNumResults())
    return emitOpError("expected at most ")
           << type.getNumResults() << " cotangents, got " << seeds;
  for (auto [i, result] : llvm::enumerate(type.getResults().take_front(seeds)))
    if (!isFloat(result))
      return emitOpError("expected result ")
             << i << " with a cotangent to be floating-point, got " << result;
  if (failed(verifyTypes(*this, "cotangent", getCotangents().getTypes(),
                         type.getResults().take_front(seeds))))
    return failure();
  FailureOr<SmallVector<Type>> outputs = getOutputTypes(*this, type);
  if (failed(outputs))
    return failure();
  return verifyTypes(*this, "result", getOutputs().getTypes(), *outputs);
}

LogicalResult StopGradientOp::buildVjp(OpBuilder &builder,
                                       ValueRange cotangents,
                                       const llvm::BitVector &needed,
                                       MutableArrayRef<Value> gradients) {
  return success();
}
