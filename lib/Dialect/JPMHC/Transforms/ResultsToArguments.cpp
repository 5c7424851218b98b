// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_RESULTSTOARGUMENTS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static Value withoutCasts(Value buffer) {
  while (auto cast = buffer.getDefiningOp<memref::CastOp>())
    buffer = cast.getSource();
  return buffer;
}

/// Gives a buffer that is returned twice a copy for each further result: every
/// result has an out-parameter of its own.
static void separateResults(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  llvm::SmallPtrSet<Value, 4> returned;
  for (OpOperand &operand : terminator->getOpOperands()) {
    Value buffer = withoutCasts(operand.get());
    auto type = dyn_cast<MemRefType>(operand.get().getType());
    if (!type || isa<BlockArgument>(buffer) || returned.insert(buffer).second)
      continue;
    Location loc = terminator->getLoc();
    SmallVector<Value> sizes;
    for (int64_t i = 0; i < type.getRank(); ++i)
      if (type.isDynamicDim(i))
        sizes.push_back(memref::DimOp::create(builder, loc, operand.get(), i));
    Value copy = memref::AllocOp::create(builder, loc, type, sizes);
    memref::CopyOp::create(builder, loc, operand.get(), copy);
    operand.set(copy);
  }
}

/// Keeps which argument each result is, and checks that every in-place argument
/// is one.
static LogicalResult recordAliases(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<int64_t> aliases;
  for (Value result : terminator->getOperands()) {
    auto argument = dyn_cast<BlockArgument>(withoutCasts(result));
    aliases.push_back(argument ? static_cast<int64_t>(argument.getArgNumber())
                               : -1);
  }
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, kInPlaceAttrName) &&
        !llvm::is_contained(aliases, i))
      return function.emitError("expected argument ")
             << i
             << " to be updated in place and returned, got a result in a "
                "buffer of its own";
  // From here on the aliases say it; the LLVM dialect would warn of the mark.
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    function.removeArgAttr(
        i, StringAttr::get(function.getContext(), kInPlaceAttrName));
  function->setAttr(kAliasesAttrName,
                    DenseI64ArrayAttr::get(function.getContext(), aliases));
  return success();
}

namespace {
struct ResultsToArgumentsPass
    : jpmhc::impl::ResultsToArgumentsBase<ResultsToArgumentsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      separateResults(function);
      if (failed(recordAliases(function)))
        return signalPassFailure();
    }
    bufferization::BufferResultsToOutParamsOpts options;
    options.hoistStaticAllocs = true;
    options.modifyPublicFunctions = true;
    if (failed(bufferization::dropEquivalentBufferResults(getOperation())) ||
        failed(bufferization::promoteBufferResultsToOutParams(getOperation(),
                                                              options)))
      signalPassFailure();
  }
};
} // namespace
