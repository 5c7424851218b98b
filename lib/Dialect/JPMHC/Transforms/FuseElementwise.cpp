// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Dominance.h"
#include "mlir/Transforms/CSE.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace jpmhc {
#define GEN_PASS_DEF_FUSEELEMENTWISE
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// A producer with several users is computed again in each of them up to this
/// many operations.
static constexpr size_t kRecomputeLimit = 12;

/// ... as long as the user has no more operations than this.
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

/// Computes once what an op computes several times of the same input.
static void simplifyBody(linalg::GenericOp op, RewriterBase &rewriter) {
  for (OpOperand *input : op.getDpsInputOperands())
    for (OpOperand *earlier : op.getDpsInputOperands()) {
      if (earlier == input)
        break;
      if (earlier->get() == input->get() &&
          op.getMatchingIndexingMap(earlier) ==
              op.getMatchingIndexingMap(input))
        rewriter.replaceAllUsesWith(op.getMatchingBlockArgument(input),
                                    op.getMatchingBlockArgument(earlier));
    }
  DominanceInfo dominance(op);
  eliminateCommonSubExpressions(rewriter, dominance, op);
}

namespace {
/// Computes a producer within its user. What the user already computed, by
/// another path to the same value, is computed once: else the operations would
/// double with each step of a chain.
struct FuseProducer : OpRewritePattern<linalg::GenericOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(linalg::GenericOp user,
                                PatternRewriter &rewriter) const override {
    for (OpOperand &operand : user->getOpOperands()) {
      if (!linalg::areElementwiseOpsFusable(&operand) || !shouldFuse(&operand))
        continue;
      Operation *producer = operand.get().getDefiningOp();
      FailureOr<linalg::ElementwiseOpFusionResult> fused =
          linalg::fuseElementwiseOps(rewriter, &operand);
      if (failed(fused))
        return rewriter.notifyMatchFailure(user, "fusion failed");
      for (auto [old, replacement] : fused->replacements)
        rewriter.replaceUsesWithIf(
            old, replacement, [producer](OpOperand &use) {
              return use.get().getDefiningOp() != producer;
            });
      rewriter.eraseOp(user);
      simplifyBody(cast<linalg::GenericOp>(fused->fusedOp), rewriter);
      return success();
    }
    return failure();
  }
};
} // namespace

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
    patterns.add<FuseProducer>(&getContext());
    // Upstream's own fusion is left out; the rest tidies up.
    linalg::populateElementwiseOpsFusionPatterns(
        patterns, [](OpOperand *) { return false; });
    // From the top: a value of several users has become as long as it is before
    // one of them asks whether to compute it again.
    GreedyRewriteConfig config;
    config.setUseTopDownTraversal(true);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      return signalPassFailure();
    privatize(getOperation());
    privatize(getOperation()); // a fill's own empty, shared by the clones
  }
};
} // namespace
