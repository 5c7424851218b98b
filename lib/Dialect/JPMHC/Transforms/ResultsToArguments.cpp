// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_RESULTSTOARGUMENTS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// Keeps which argument each result is, and checks that every in-place argument
/// is one.
static LogicalResult recordAliases(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  SmallVector<int64_t> aliases;
  for (Value result : terminator->getOperands()) {
    while (auto cast = result.getDefiningOp<memref::CastOp>())
      result = cast.getSource();
    auto argument = dyn_cast<BlockArgument>(result);
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
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration() && failed(recordAliases(function)))
        return signalPassFailure();
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
