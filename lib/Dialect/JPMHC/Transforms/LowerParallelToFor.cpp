// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_LOWERPARALLELTOFOR
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

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
    // Of several dimensions are none that this compiler makes; upstream's
    // conversion lowers those.
    for (scf::ParallelOp loop : loops)
      if (loop.getNumLoops() == 1)
        lowerParallelToFor(loop);
    if (!getOperation().isDeclaration())
      hoistScratch(getOperation());
  }
};
} // namespace
