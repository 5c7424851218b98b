// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace jpmhc {
#define GEN_PASS_DEF_LOWERPARALLELTOFOR
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

Value jpmhc::inlineReduction(OpBuilder &builder, Region &reduction,
                             Value carried, Value term) {
  IRMapping mapping;
  mapping.map(reduction.getArgument(0), carried);
  mapping.map(reduction.getArgument(1), term);
  for (Operation &op : reduction.front().without_terminator())
    builder.clone(op, mapping);
  return mapping.lookupOrDefault(
      reduction.front().getTerminator()->getOperand(0));
}

ValueRange jpmhc::lowerParallelToFor(scf::ParallelOp loop) {
  OpBuilder builder(loop);
  auto sequential = scf::ForOp::create(
      builder, loop.getLoc(), loop.getLowerBound()[0], loop.getUpperBound()[0],
      loop.getStep()[0], loop.getInitVals());
  Block *body = sequential.getBody();
  if (!body->empty())
    body->back()
        .erase(); // the yield that the builder adds when nothing is carried
  auto reduce = cast<scf::ReduceOp>(loop.getBody()->getTerminator());
  loop.getInductionVars()[0].replaceAllUsesWith(sequential.getInductionVar());
  body->getOperations().splice(body->end(), loop.getBody()->getOperations(),
                               loop.getBody()->begin(), reduce->getIterator());
  builder.setInsertionPointToEnd(body);
  SmallVector<Value> carried;
  for (auto [region, term, in] :
       llvm::zip(reduce.getReductions(), reduce.getOperands(),
                 sequential.getRegionIterArgs()))
    carried.push_back(inlineReduction(builder, region, in, term));
  scf::YieldOp::create(builder, loop.getLoc(), carried);
  loop.replaceAllUsesWith(sequential.getResults());
  loop.erase();
  return sequential.getResults();
}

/// Scratch of a row is reserved once a call, not once a row: inside a loop it
/// would grow the stack.
static void hoistScratch(func::FuncOp kernel) {
  SmallVector<memref::AllocaOp> buffers;
  kernel.walk([&](memref::AllocaOp op) {
    if (op.getType().hasStaticShape() &&
        op->getBlock() != &kernel.getBody().front())
      buffers.push_back(op);
  });
  for (memref::AllocaOp op : buffers)
    op->moveBefore(&kernel.getBody().front(), kernel.getBody().front().begin());
}

namespace {
struct LowerParallelToForPass
    : jpmhc::impl::LowerParallelToForBase<LowerParallelToForPass> {
  void runOnOperation() override {
    SmallVector<scf::ParallelOp> loops;
    getOperation().walk([&](scf::ParallelOp loop) { loops.push_back(loop); });
    for (scf::ParallelOp loop : loops)
      if (loop.getNumLoops() == 1)
        lowerParallelToFor(loop);
    if (!getOperation().isDeclaration())
      hoistScratch(getOperation());
  }
};
} // namespace
