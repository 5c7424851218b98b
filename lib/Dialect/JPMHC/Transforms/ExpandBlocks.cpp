// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_EXPANDBLOCKS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static LogicalResult expand(HyperConnectionOp op) {
  int64_t n = op.getX().getType().getDimSize(1);
  if (ShapedType::isDynamic(n))
    return op.emitOpError("expected a static number of streams, got ")
           << op.getX().getType();
  IRRewriter rewriter(op);
  Location loc = op.getLoc();
  Value x = op.getX();
  Value z =
      StreamLogitsOp::create(rewriter, loc, x, op.getWeight(), op.getGain(),
                             op.getShift(), op.getNormAttr(), op.getEpsAttr());
  auto maps = StreamMapsOp::create(
      rewriter, loc, z, op.getAlpha(), op.getBias(), op.getManifoldAttr(),
      op.getReadWriteAttr(), rewriter.getI64IntegerAttr(n), op.getTauAttr(),
      op.getPostScaleAttr());
  Value input = StreamReadOp::create(rewriter, loc, x, maps.getRead());
  Block &body = op.getBody().front();
  auto yield = cast<YieldOp>(body.getTerminator());
  rewriter.inlineBlockBefore(&body, op, input);
  rewriter.setInsertionPoint(op);
  rewriter.replaceOpWithNewOp<StreamWriteOp>(
      op, x.getType(), x, maps.getMixer(), maps.getWrite(),
      yield.getValues().front(), op.getScaleAttr());
  rewriter.eraseOp(yield);
  return success();
}

namespace {
struct ExpandBlocksPass : jpmhc::impl::ExpandBlocksBase<ExpandBlocksPass> {
  void runOnOperation() override {
    SmallVector<HyperConnectionOp> blocks;
    getOperation()->walk([&](HyperConnectionOp op) { blocks.push_back(op); });
    for (HyperConnectionOp op : blocks)
      if (failed(expand(op)))
        return signalPassFailure();
  }
};
} // namespace
