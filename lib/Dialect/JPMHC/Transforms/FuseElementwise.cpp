// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace jpmhc {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// A producer with several users is computed again in each of them up to this
/// many operations.
static constexpr size_t kRecomputeLimit = 8;

/// ... as long as the user has no more operations than this: a value is
/// computed once for each path that leads to it, and their number can double
/// with each step of a chain.
static constexpr size_t kUserLimit = 128;

static bool shouldFuse(OpOperand *operand) {
  auto producer = operand->get().getDefiningOp<linalg::GenericOp>();
  if (!producer)
    return false;
  if (producer->hasOneUse())
    return true;
  auto user = cast<linalg::GenericOp>(operand->getOwner());
  return producer.getNumLoops() == producer.getNumParallelLoops() &&
         producer.getBody()->getOperations().size() <= kRecomputeLimit &&
         user.getBody()->getOperations().size() <= kUserLimit;
}

static void generalize(func::FuncOp function) {
  SmallVector<linalg::LinalgOp> named;
  function.walk([&](linalg::LinalgOp op) {
    if (!isa<linalg::GenericOp, linalg::ContractOp, linalg::FillOp>(
            op.getOperation()) &&
        !linalg::isaContractionOpInterface(op))
      named.push_back(op);
  });
  IRRewriter rewriter(function.getContext());
  for (linalg::LinalgOp op : named) {
    rewriter.setInsertionPoint(op);
    (void)linalg::generalizeNamedOp(rewriter, op);
  }
}

/// Clones fills and empties for each use: shared ones make bufferization copy
/// zeros and live long.
static void privatize(func::FuncOp function) {
  function.walk([&](Operation *op) {
    // A fill of a buffer has no result.
    if (!isa<tensor::EmptyOp, linalg::FillOp>(op) || op->use_empty())
      return;
    OpBuilder builder(op);
    for (OpOperand &use :
         llvm::make_early_inc_range(llvm::drop_begin(op->getUses()))) {
      builder.setInsertionPoint(use.getOwner());
      use.set(builder.clone(*op)->getResult(0));
    }
  });
}

namespace {
struct FuseElementwisePass
    : jpmhc::impl::FuseElementwiseBase<FuseElementwisePass> {
  void runOnOperation() override {
    generalize(getOperation());
    RewritePatternSet patterns(&getContext());
    linalg::populateElementwiseOpsFusionPatterns(patterns, shouldFuse);
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      return signalPassFailure();
    privatize(getOperation());
    privatize(getOperation()); // a fill's own empty, shared by the clones
  }
};
} // namespace
