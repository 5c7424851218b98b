// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace jpmhc;

// ---- filters ----

/// The checks that all filters of `x` along tokens share.
static LogicalResult verifyFilter(Operation *op, Value x, Value width,
                                  Value segments) {
  auto type = typeOf(x);
  if (type.getRank() < 2)
    return op->emitOpError("expected a tensor of rank 2 or more (tokens, "
                           "channels), got ")
           << type;
  if (std::optional<int64_t> b = getConstantIntValue(width); b && *b < 1)
    return op->emitOpError("expected a width of 1 or more, got ") << *b;
  if (!segments)
    return success();
  auto ids = typeOf(segments);
  if (failed(
          verifyCompatibleShape(type.getShape().drop_back(), ids.getShape())))
    return op->emitOpError("expected segments of shape ")
           << type.getShape().drop_back() << ", got " << ids.getShape();
  return success();
}

/// Whether a filter of this width returns its input.
static bool isIdentity(Attribute width) {
  auto b = dyn_cast_if_present<IntegerAttr>(width);
  return b && b.getValue().isOne();
}

namespace {
/// A width of more than T tokens is the same as T, in every pass.
template <typename Op> struct ClampWidth : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op->getOperand(0).getType());
    int64_t tokens = type.getShape().take_back(2)[0];
    std::optional<int64_t> width = getConstantIntValue(op.getWidth());
    if (!width || ShapedType::isDynamic(tokens))
      return rewriter.notifyMatchFailure(op, "width or tokens not known");
    int64_t most = std::max<int64_t>(tokens, 1);
    if (*width <= most)
      return rewriter.notifyMatchFailure(op, "no wider than the sequence");
    Value clamped = arith::ConstantIndexOp::create(rewriter, op.getLoc(), most);
    rewriter.modifyOpInPlace(op, [&] { op.getWidthMutable().assign(clamped); });
    return success();
  }
};
} // namespace

LogicalResult TriboxOp::verify() {
  return verifyFilter(*this, getX(), getWidth(), getSegments());
}

OpFoldResult TriboxOp::fold(FoldAdaptor adaptor) {
  return isIdentity(adaptor.getWidth()) ? getX() : Value();
}

void TriboxOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                           MLIRContext *context) {
  patterns.add<ClampWidth<TriboxOp>>(context);
}

LogicalResult TriboxOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                 const llvm::BitVector &needed,
                                 MutableArrayRef<Value> gradients) {
  if (needed[0])
    gradients[0] = TriboxTransposeOp::create(
        builder, getLoc(), getX().getType(), cotangents[0], getWidth(),
        getSegments(), getPassesAttr());
  return success();
}

LogicalResult TriboxTransposeOp::verify() {
  return verifyFilter(*this, getDy(), getWidth(), getSegments());
}

OpFoldResult TriboxTransposeOp::fold(FoldAdaptor adaptor) {
  return isIdentity(adaptor.getWidth()) ? getDy() : Value();
}

void TriboxTransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                    MLIRContext *context) {
  patterns.add<ClampWidth<TriboxTransposeOp>>(context);
}

LogicalResult TriboxTransposeOp::buildVjp(OpBuilder &builder,
                                          ValueRange cotangents,
                                          const llvm::BitVector &needed,
                                          MutableArrayRef<Value> gradients) {
  if (needed[0])
    gradients[0] =
        TriboxOp::create(builder, getLoc(), getDy().getType(), cotangents[0],
                         getWidth(), getSegments(), getPassesAttr());
  return success();
}

LogicalResult SidePathOp::verify() {
  return verifyFilter(*this, getX(), getWidth(), getSegments());
}

void SidePathOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                             MLIRContext *context) {
  patterns.add<ClampWidth<SidePathOp>>(context);
}

LogicalResult SidePathOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                   const llvm::BitVector &needed,
                                   MutableArrayRef<Value> gradients) {
  gradients[1] = cotangents[0];
  if (!needed[0] && !needed[2])
    return success();
  auto vjp = SidePathVjpOp::create(
      builder, getLoc(), getX().getType(), getGate().getType(), getX(),
      cotangents[0], getGate(), getWidth(), getSegments(), getPassesAttr());
  gradients[0] = vjp.getDx();
  gradients[2] = vjp.getDgate();
  return success();
}

LogicalResult SidePathVjpOp::verify() {
  return verifyFilter(*this, getX(), getWidth(), getSegments());
}

void SidePathVjpOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                                MLIRContext *context) {
  patterns.add<ClampWidth<SidePathVjpOp>>(context);
}

// ---- the gate ----

/// The checks that the gate and its reverse-mode rule share.
template <typename Op> static LogicalResult verifyGate(Op op) {
  auto hidden = cast<RankedTensorType>(op.getW1().getType()).getShape();
  std::pair<StringRef, Value> others[] = {{"b1", op.getB1()},
                                          {"w2", op.getW2()}};
  for (auto [name, value] : others) {
    auto got = typeOf(value).getShape();
    if (failed(verifyCompatibleShape(hidden, got)))
      return op.emitOpError("expected ") << name << " of " << hidden[0]
                                         << " elements as w1, got " << got[0];
  }
  std::pair<StringRef, Value> sizes[] = {{"width", op.getWidth()},
                                         {"context", op.getContext()}};
  for (auto [name, value] : sizes)
    if (std::optional<int64_t> v = getConstantIntValue(value); v && *v < 1)
      return op.emitOpError("expected a ")
             << name << " of 1 or more, got " << *v;
  return success();
}

LogicalResult CoverageGateOp::verify() { return verifyGate(*this); }

LogicalResult CoverageGateOp::buildVjp(OpBuilder &builder,
                                       ValueRange cotangents,
                                       const llvm::BitVector &needed,
                                       MutableArrayRef<Value> gradients) {
  SmallVector<Value> operands(getOperands());
  operands.push_back(cotangents[0]);
  auto vjp = CoverageGateVjpOp::create(
      builder, getLoc(),
      TypeRange{getW1().getType(), getB1().getType(), getW2().getType(),
                getB2().getType(), getBeta().getType()},
      operands);
  llvm::copy(vjp.getResults(), gradients.begin() + 2);
  return success();
}

LogicalResult CoverageGateVjpOp::verify() { return verifyGate(*this); }
