// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace jpmhc;

// ---- shapes

/// [B, H, T] f32 for q [B, T, H, d].
static RankedTensorType lseTypeOf(Value q) {
  RankedTensorType type = typeOf(q);
  return RankedTensorType::get(
      {type.getDimSize(0), type.getDimSize(2), type.getDimSize(1)},
      Float32Type::get(type.getContext()));
}

static bool compatible(TypeRange a, TypeRange b) {
  return a.size() == b.size() && llvm::all_of(llvm::zip(a, b), [](auto pair) {
           auto [x, y] = pair;
           return getElementTypeOrSelf(x) == getElementTypeOrSelf(y) &&
                  succeeded(verifyCompatibleShape(x, y));
         });
}

LogicalResult AttentionOp::inferReturnTypes(MLIRContext *,
                                            std::optional<Location> loc,
                                            Adaptor adaptor,
                                            SmallVectorImpl<Type> &types) {
  auto q = dyn_cast<RankedTensorType>(adaptor.getQ().getType());
  if (!q || q.getRank() != 4)
    return emitOptionalError(loc, "expected q of shape [B, T, H, d], got ",
                             adaptor.getQ().getType());
  types.assign({adaptor.getQ().getType(), lseTypeOf(adaptor.getQ())});
  return success();
}

bool AttentionOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return compatible(l, r);
}

LogicalResult AttentionVjpOp::inferReturnTypes(MLIRContext *,
                                               std::optional<Location>,
                                               Adaptor adaptor,
                                               SmallVectorImpl<Type> &types) {
  types.assign({adaptor.getQ().getType(), adaptor.getK().getType(),
                adaptor.getV().getType()});
  return success();
}

bool AttentionVjpOp::isCompatibleReturnTypes(TypeRange l, TypeRange r) {
  return compatible(l, r);
}

// ---- verifiers

static LogicalResult verifySameType(Operation *op, StringRef name, Value value,
                                    RankedTensorType expected) {
  if (compatible(value.getType(), expected))
    return success();
  return op->emitOpError("expected ")
         << name << " of type " << expected << ", got " << value.getType();
}

/// k [B, T, G, d] beside q [B, T, H, d].
static LogicalResult verifyKeys(Operation *op, RankedTensorType q,
                                RankedTensorType k) {
  static constexpr std::pair<int64_t, StringLiteral> kShared[] = {
      {0, "batch size"},
      {1, "number of tokens (cross-attention is not served)"},
      {3, "head size"}};
  for (auto [i, name] : kShared)
    if (failed(verifyCompatibleShape({q.getDimSize(i)}, {k.getDimSize(i)})))
      return op->emitOpError("expected q and k of the same ")
             << name << ", got " << q.getDimSize(i) << " and "
             << k.getDimSize(i);
  for (int64_t i : {2, 3})
    for (RankedTensorType type : {q, k})
      if (type.getDimSize(i) == 0)
        return op->emitOpError("expected at least one ")
               << (i == 2 ? "head" : "channel a head") << ", got " << type;
  int64_t heads = q.getDimSize(2), groups = k.getDimSize(2);
  if (!ShapedType::isDynamic(heads) && !ShapedType::isDynamic(groups) &&
      heads % groups != 0)
    return op->emitOpError("expected a number of query heads that is a "
                           "multiple of the key heads, got ")
           << heads << " and " << groups;
  if (q.getElementType() != k.getElementType())
    return op->emitOpError("expected q and k of the same element type, got ")
           << q.getElementType() << " and " << k.getElementType();
  return success();
}

template <typename Op> static LogicalResult verifyAttention(Op op) {
  RankedTensorType q = typeOf(op.getQ()), k = typeOf(op.getK());
  if (failed(verifyKeys(op, q, k)) ||
      failed(verifySameType(op, "v", op.getV(), k)))
    return failure();
  int64_t window = op.getWindowAttr().getInt();
  if (window < 0)
    return op.emitOpError("expected a window of 1 or more, or 0 for none, got ")
           << window;
  if (!op.getSegmentIds())
    return success();
  RankedTensorType ids = typeOf(op.getSegmentIds());
  if (failed(verifyCompatibleShape(ids.getShape(), q.getShape().take_front(2))))
    return op.emitOpError("expected segment ids of shape [")
           << q.getShape().take_front(2) << "], got [" << ids.getShape() << "]";
  return success();
}

LogicalResult AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult AttentionVjpOp::verify() {
  RankedTensorType q = typeOf(getQ());
  if (failed(verifyAttention(*this)) ||
      failed(verifySameType(*this, "out", getOut(), q)) ||
      failed(verifySameType(*this, "lse", getLse(), lseTypeOf(getQ()))))
    return failure();
  return verifySameType(*this, "dout", getDout(), q);
}

// ---- simplification

/// A window of all tokens hides nothing; a single token has no later one.
LogicalResult AttentionOp::canonicalize(AttentionOp op,
                                        PatternRewriter &rewriter) {
  int64_t tokens = typeOf(op.getQ()).getDimSize(1);
  if (ShapedType::isDynamic(tokens))
    return rewriter.notifyMatchFailure(op, "number of tokens is not known");
  int64_t window = op.getWindowAttr().getInt();
  bool wide = window != 0 && window >= tokens;
  bool single = op.getCausal() && tokens <= 1;
  if (!wide && !single)
    return rewriter.notifyMatchFailure(op, "every mask hides something");
  rewriter.modifyOpInPlace(op, [&] {
    if (wide)
      op.setWindow(0);
    if (single)
      op.setCausal(false);
  });
  return success();
}

// ---- reverse mode

LogicalResult AttentionOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                    const llvm::BitVector &needed,
                                    MutableArrayRef<Value> gradients) {
  if (cotangents[1])
    return emitOpError("expected no gradient with respect to the log-sum-exp, "
                       "which has no reverse-mode rule");
  if (!cotangents[0])
    return success();
  auto vjp = AttentionVjpOp::create(
      builder, getLoc(), getQ(), getK(), getV(), getOut(), getLse(),
      cotangents[0], getSegmentIds(), getCausalAttr(), getWindowAttr());
  for (unsigned i = 0; i < 3; ++i)
    gradients[i] = vjp->getResult(i);
  return success();
}
