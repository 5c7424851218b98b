// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reverse-mode rules of upstream ops: a closed list (at the end of the file).
// Notation: g is the cotangent of the result y; bf16 and f16 are extended to
// f32 and rounded once.
#include "ReverseSweep.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace jpmhc;

namespace {

/// What a rule is given, and where it puts its gradients.
struct Rule {
  OpBuilder &builder;
  Location loc;
  ValueRange cotangents;
  const llvm::BitVector &needed;
  MutableArrayRef<Value> gradients;

  Value g() const { return cotangents[0]; }
  bool needs(unsigned operand) const { return needed[operand]; }
  void set(unsigned operand, Value gradient) const {
    gradients[operand] = gradient;
  }
};

/// An f32 value (or f64), scalar or tensor, with the usual operators.
class Number {
public:
  Number(const Rule &rule, Value v) : rule(&rule) {
    Type element = getElementTypeOrSelf(v.getType());
    value = element.getIntOrFloatBitWidth() < 32
                ? convertElements(rule.builder, rule.loc, v,
                                  rule.builder.getF32Type())
                : v;
  }

  template <typename Op> Number unary() const {
    return {*rule, Op::create(rule->builder, rule->loc, value)};
  }
  template <typename Op> Number binary(Number other) const {
    return {*rule, Op::create(rule->builder, rule->loc, value, other.value)};
  }
  Number like(double c) const {
    return {*rule, constantLike(rule->builder, rule->loc, value, c)};
  }
  Value compare(arith::CmpFPredicate predicate, Number other) const {
    return arith::CmpFOp::create(rule->builder, rule->loc, predicate, value,
                                 other.value);
  }
  /// this where the condition holds, else `other`.
  Number where(Value condition, Number other) const {
    return {*rule, arith::SelectOp::create(rule->builder, rule->loc, condition,
                                           value, other.value)};
  }

  const Rule *rule;
  Value value;
};

Number operator+(Number a, Number b) { return a.binary<arith::AddFOp>(b); }
Number operator-(Number a, Number b) { return a.binary<arith::SubFOp>(b); }
Number operator*(Number a, Number b) { return a.binary<arith::MulFOp>(b); }
Number operator/(Number a, Number b) { return a.binary<arith::DivFOp>(b); }
Number operator-(Number a) { return a.unary<arith::NegFOp>(); }
Number operator+(Number a, double c) { return a + a.like(c); }
Number operator-(Number a, double c) { return a - a.like(c); }
Number operator*(Number a, double c) { return a * a.like(c); }
Number operator-(double c, Number a) { return a.like(c) - a; }

/// Rounds a gradient to the type of the operand.
void set(const Rule &rule, Operation *op, unsigned operand, Number gradient) {
  rule.set(operand, convertElements(rule.builder, rule.loc, gradient.value,
                                    getElementTypeOrSelf(
                                        op->getOperand(operand).getType())));
}

// ---- element-wise functions of one value: dx = g · f'(x) ----

constexpr double kLn2 = 0.69314718055994530942;
constexpr double kLn10 = 2.30258509299404568402;
constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

/// dx from x, y and g.
Number unary(arith::NegFOp, Number x, Number y, Number g) { return -g; }
Number unary(math::ExpOp, Number x, Number y, Number g) { return g * y; }
Number unary(math::Exp2Op, Number x, Number y, Number g) {
  return g * y * kLn2;
}
Number unary(math::ExpM1Op, Number x, Number y, Number g) {
  return g * (y + 1);
}
Number unary(math::LogOp, Number x, Number y, Number g) { return g / x; }
Number unary(math::Log2Op, Number x, Number y, Number g) {
  return g / (x * kLn2);
}
Number unary(math::Log10Op, Number x, Number y, Number g) {
  return g / (x * kLn10);
}
Number unary(math::Log1pOp, Number x, Number y, Number g) {
  return g / (x + 1);
}
Number unary(math::SqrtOp, Number x, Number y, Number g) { return g * 0.5 / y; }
Number unary(math::RsqrtOp, Number x, Number y, Number g) {
  return g * -0.5 * y * y * y;
}
Number unary(math::TanhOp, Number x, Number y, Number g) {
  return g * (1 - y * y);
}
Number unary(math::SinOp, Number x, Number y, Number g) {
  return g * x.unary<math::CosOp>();
}
Number unary(math::CosOp, Number x, Number y, Number g) {
  return -(g * x.unary<math::SinOp>());
}
Number unary(math::TanOp, Number x, Number y, Number g) {
  return g * (y * y + 1);
}
Number unary(math::AtanOp, Number x, Number y, Number g) {
  return g / (x * x + 1);
}
Number unary(math::SinhOp, Number x, Number y, Number g) {
  return g * x.unary<math::CoshOp>();
}
Number unary(math::CoshOp, Number x, Number y, Number g) {
  return g * x.unary<math::SinhOp>();
}
Number unary(math::ErfOp, Number x, Number y, Number g) {
  return g * (-(x * x)).unary<math::ExpOp>() * kTwoOverSqrtPi;
}
/// Zero at zero.
Number unary(math::AbsFOp, Number x, Number y, Number g) {
  Number zero = x.like(0);
  return g.where(x.compare(arith::CmpFPredicate::UGT, zero),
                 (-g).where(x.compare(arith::CmpFPredicate::OLT, zero), zero));
}

template <typename Op>
auto vjp(Op op, const Rule &r)
    -> decltype(unary(op, std::declval<Number>(), std::declval<Number>(),
                      std::declval<Number>()),
                success()) {
  Number x(r, op->getOperand(0)), y(r, op->getResult(0)), g(r, r.g());
  set(r, op, 0, unary(op, x, y, g));
  return success();
}

// ---- element-wise functions of several values ----

LogicalResult vjp(arith::AddFOp op, const Rule &r) {
  r.set(0, r.g());
  r.set(1, r.g());
  return success();
}
LogicalResult vjp(arith::SubFOp op, const Rule &r) {
  r.set(0, r.g());
  if (r.needs(1))
    r.set(1, arith::NegFOp::create(r.builder, r.loc, r.g()));
  return success();
}
LogicalResult vjp(arith::MulFOp op, const Rule &r) {
  Number g(r, r.g());
  for (unsigned i : {0, 1})
    if (r.needs(i))
      set(r, op, i, g * Number(r, op->getOperand(1 - i)));
  return success();
}
LogicalResult vjp(arith::DivFOp op, const Rule &r) {
  Number quotient = Number(r, r.g()) / Number(r, op.getRhs());
  if (r.needs(0))
    set(r, op, 0, quotient);
  if (r.needs(1))
    set(r, op, 1, -(quotient * Number(r, op.getResult())));
  return success();
}

/// The cotangent goes to the operand that won; equal operands share it in
/// halves. A NaN lets it pass to both.
LogicalResult extremum(Operation *op, const Rule &r,
                       arith::CmpFPredicate wins) {
  Number g(r, r.g()), half = g * 0.5;
  for (unsigned i : {0, 1}) {
    if (!r.needs(i))
      continue;
    Number mine(r, op->getOperand(i)), other(r, op->getOperand(1 - i));
    Number shared =
        half.where(mine.compare(arith::CmpFPredicate::OEQ, other), g.like(0));
    set(r, op, i, g.where(mine.compare(wins, other), shared));
  }
  return success();
}
LogicalResult vjp(arith::MaximumFOp op, const Rule &r) {
  return extremum(op, r, arith::CmpFPredicate::UGT);
}
LogicalResult vjp(arith::MinimumFOp op, const Rule &r) {
  return extremum(op, r, arith::CmpFPredicate::ULT);
}

LogicalResult vjp(arith::SelectOp op, const Rule &r) {
  Value zero = zeroLike(r.builder, r.loc, r.g());
  auto select = [&](Value a, Value b) {
    return arith::SelectOp::create(r.builder, r.loc, op.getCondition(), a, b);
  };
  if (r.needs(1))
    r.set(1, select(r.g(), zero));
  if (r.needs(2))
    r.set(2, select(zero, r.g()));
  return success();
}

LogicalResult convert(Operation *op, const Rule &r) {
  r.set(0, convertElements(r.builder, r.loc, r.g(),
                           getElementTypeOrSelf(op->getOperand(0).getType())));
  return success();
}
LogicalResult vjp(arith::ExtFOp op, const Rule &r) { return convert(op, r); }
LogicalResult vjp(arith::TruncFOp op, const Rule &r) { return convert(op, r); }

LogicalResult vjp(math::FmaOp op, const Rule &r) {
  Number g(r, r.g());
  for (unsigned i : {0, 1})
    if (r.needs(i))
      set(r, op, i, g * Number(r, op->getOperand(1 - i)));
  r.set(2, r.g());
  return success();
}

/// d/da a^b = b a^(b-1), 0 where b = 0; d/db a^b = a^b ln a, 0 where a or a^b
/// is 0.
LogicalResult vjp(math::PowFOp op, const Rule &r) {
  Number a(r, op.getLhs()), b(r, op.getRhs()), y(r, op.getResult()),
      g(r, r.g());
  auto equalsZero = [](Number v) {
    return v.compare(arith::CmpFPredicate::OEQ, v.like(0));
  };
  if (r.needs(0))
    set(r, op, 0,
        a.like(0).where(equalsZero(b), g * b * a.binary<math::PowFOp>(b - 1)));
  if (r.needs(1)) {
    Number zero = a.like(0), slope = g * y * a.unary<math::LogOp>();
    set(r, op, 1, zero.where(equalsZero(a), zero.where(equalsZero(y), slope)));
  }
  return success();
}

/// d atan2(a, b) = (b da − a db) / (a² + b²).
LogicalResult vjp(math::Atan2Op op, const Rule &r) {
  Number a(r, op.getLhs()), b(r, op.getRhs());
  Number scaled = Number(r, r.g()) / (a * a + b * b);
  if (r.needs(0))
    set(r, op, 0, scaled * b);
  if (r.needs(1))
    set(r, op, 1, -(scaled * a));
  return success();
}

/// Piecewise constant: no gradient.
template <typename Op> LogicalResult flat(Op, const Rule &) {
  return success();
}
LogicalResult vjp(math::FloorOp op, const Rule &r) { return flat(op, r); }
LogicalResult vjp(math::CeilOp op, const Rule &r) { return flat(op, r); }
LogicalResult vjp(math::RoundOp op, const Rule &r) { return flat(op, r); }
LogicalResult vjp(math::RoundEvenOp op, const Rule &r) { return flat(op, r); }
LogicalResult vjp(math::TruncOp op, const Rule &r) { return flat(op, r); }

// ---- sums and repetitions ----

RankedTensorType tensorOf(Value v) {
  return cast<RankedTensorType>(v.getType());
}

Value emptyLike(const Rule &r, Value like, Type element) {
  return tensor::EmptyOp::create(
      r.builder, r.loc, tensor::getMixedSizes(r.builder, r.loc, like), element);
}

/// Σ over `axes`, accumulated in f32.
Value sum(const Rule &r, Value v, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return v;
  Type element = getElementTypeOrSelf(v.getType());
  Value wide = Number(r, v).value;
  Type wideElement = getElementTypeOrSelf(wide.getType());
  SmallVector<OpFoldResult> sizes;
  for (auto [axis, size] :
       llvm::enumerate(tensor::getMixedSizes(r.builder, r.loc, v)))
    if (!llvm::is_contained(axes, static_cast<int64_t>(axis)))
      sizes.push_back(size);
  Value zero = arith::ConstantOp::create(
      r.builder, r.loc, r.builder.getFloatAttr(wideElement, 0));
  Value empty = tensor::EmptyOp::create(r.builder, r.loc, sizes, wideElement);
  Value init =
      linalg::FillOp::create(r.builder, r.loc, zero, empty).getResult(0);
  auto reduce = linalg::ReduceOp::create(
      r.builder, r.loc, ValueRange{wide}, ValueRange{init}, axes,
      [](OpBuilder &b, Location loc, ValueRange args) {
        Value total = arith::AddFOp::create(b, loc, args[1], args[0]);
        linalg::YieldOp::create(b, loc, total);
      });
  return convertElements(r.builder, r.loc, reduce.getResult(0), element);
}

/// Σ of all elements as a scalar.
Value sumAll(const Rule &r, Value v) {
  Value total =
      sum(r, v, llvm::to_vector(llvm::seq<int64_t>(0, tensorOf(v).getRank())));
  return tensor::ExtractOp::create(r.builder, r.loc, total, ValueRange{});
}

/// `v` repeated along `axes` of the shape of `like`.
Value broadcast(const Rule &r, Value v, Value like, ArrayRef<int64_t> axes) {
  Value empty = emptyLike(r, like, getElementTypeOrSelf(v.getType()));
  return linalg::BroadcastOp::create(r.builder, r.loc, v, empty, axes)
      ->getResult(0);
}

LogicalResult vjp(linalg::BroadcastOp op, const Rule &r) {
  r.set(0, sum(r, r.g(), op.getDimensions()));
  return success();
}
LogicalResult vjp(linalg::FillOp op, const Rule &r) {
  if (r.needs(0))
    r.set(0, sumAll(r, r.g()));
  return success();
}
LogicalResult vjp(tensor::SplatOp op, const Rule &r) {
  r.set(0, sumAll(r, r.g()));
  return success();
}

LogicalResult vjp(linalg::TransposeOp op, const Rule &r) {
  Value empty = emptyLike(r, op.getInput(), tensorOf(r.g()).getElementType());
  SmallVector<int64_t> inverse = invertPermutationVector(op.getPermutation());
  if (r.needs(0))
    r.set(0,
          linalg::TransposeOp::create(r.builder, r.loc, r.g(), empty, inverse)
              ->getResult(0));
  return success();
}

/// The op that combines an element with the result so far, if the body is
/// nothing else.
Operation *getCombiner(linalg::ReduceOp op) {
  Block *body = op.getBody();
  Operation *combiner = &body->front();
  bool simple = body->getNumArguments() == 2 && llvm::hasNItems(*body, 2) &&
                combiner->getNumOperands() == 2 &&
                combiner->getNumResults() == 1 &&
                body->getTerminator()->getOperand(0) == combiner->getResult(0);
  if (!simple || !llvm::all_of(body->getArguments(),
                               [](BlockArgument a) { return a.hasOneUse(); }))
    return nullptr;
  return combiner;
}

/// The cotangent of a maximum is shared equally by all elements (the initial
/// value too) that attain it.
void extremum(linalg::ReduceOp op, const Rule &r) {
  Value x = op.getInputs()[0], init = op.getInits()[0], y = op->getResult(0);
  ArrayRef<int64_t> axes = op.getDimensions();
  auto attained = [&](Value v, Value extreme) {
    Number a(r, v), b(r, extreme);
    return a.like(1).where(a.compare(arith::CmpFPredicate::UEQ, b), a.like(0));
  };
  Number mask = attained(x, broadcast(r, y, x, axes));
  Number initMask = attained(init, y);
  Number count = Number(r, sum(r, mask.value, axes)) + initMask;
  Number share = Number(r, r.g()) / count;
  Number zero = mask.like(0);
  if (r.needs(0)) {
    Number spread(r, broadcast(r, share.value, x, axes));
    set(r, op, 0,
        spread.where(mask.compare(arith::CmpFPredicate::ONE, zero), zero));
  }
  if (r.needs(1))
    set(r, op, 1, share * initMask);
}

LogicalResult vjp(linalg::ReduceOp op, const Rule &r) {
  Operation *combiner = getCombiner(op);
  if (combiner && isa<arith::AddFOp>(combiner)) {
    if (r.needs(0))
      r.set(0, broadcast(r, r.g(), op.getInputs()[0], op.getDimensions()));
    r.set(1, r.g());
    return success();
  }
  if (combiner && isa<arith::MaximumFOp, arith::MinimumFOp>(combiner)) {
    extremum(op, r);
    return success();
  }
  auto error = op->emitError("expected a reduction by a single arith.addf, "
                             "arith.maximumf or arith.minimumf, got ");
  if (combiner)
    return error << "'" << combiner->getName() << "'";
  return error << "another body";
}

// ---- products ----

/// An extension from the type of `other` is left away: the product extends its
/// operands itself, and a library may have a product of narrow types.
Value stripExtension(Value v, Value other) {
  auto extension = v.getDefiningOp<arith::ExtFOp>();
  return extension && getElementTypeOrSelf(extension.getIn().getType()) ==
                          getElementTypeOrSelf(other.getType())
             ? extension.getIn()
             : v;
}

/// C = init + A B: Ā = C̄ B, B̄ = A C̄ over the same iteration space.
LogicalResult vjp(linalg::ContractOp op, const Rule &r) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  for (unsigned i : {0, 1}) {
    if (!r.needs(i))
      continue;
    Value operand = op->getOperand(i), other = op->getOperand(1 - i);
    Type accumulate = getElementTypeOrSelf(Number(r, r.g()).value.getType());
    Value init = zeroLike(r.builder, r.loc, operand, accumulate);
    Value g = stripExtension(r.g(), other);
    ArrayAttr newMaps =
        r.builder.getAffineMapArrayAttr({maps[2], maps[1 - i], maps[i]});
    Value product = linalg::ContractOp::create(
                        r.builder, r.loc, TypeRange{init.getType()},
                        ValueRange{g, other}, ValueRange{init}, newMaps)
                        ->getResult(0);
    r.set(i, convertElements(r.builder, r.loc, product,
                             tensorOf(operand).getElementType()));
  }
  r.set(2, r.g());
  return success();
}

// ---- shapes and slices ----

LogicalResult vjp(tensor::CollapseShapeOp op, const Rule &r) {
  r.set(0, tensor::ExpandShapeOp::create(
               r.builder, r.loc, op.getSrcType(), r.g(),
               op.getReassociationIndices(),
               tensor::getMixedSizes(r.builder, r.loc, op.getSrc())));
  return success();
}
LogicalResult vjp(tensor::ExpandShapeOp op, const Rule &r) {
  r.set(0,
        tensor::CollapseShapeOp::create(r.builder, r.loc, op.getSrcType(),
                                        r.g(), op.getReassociationIndices()));
  return success();
}
LogicalResult vjp(tensor::CastOp op, const Rule &r) {
  r.set(0, tensor::CastOp::create(r.builder, r.loc, op.getSource().getType(),
                                  r.g()));
  return success();
}
LogicalResult vjp(tensor::ExtractSliceOp op, const Rule &r) {
  Value zeros = zeroLike(r.builder, r.loc, op.getSource());
  r.set(0, tensor::InsertSliceOp::create(
               r.builder, r.loc, r.g(), zeros, op.getMixedOffsets(),
               op.getMixedSizes(), op.getMixedStrides()));
  return success();
}
LogicalResult vjp(tensor::InsertSliceOp op, const Rule &r) {
  if (r.needs(0))
    r.set(0,
          tensor::ExtractSliceOp::create(
              r.builder, r.loc, op.getSourceType(), r.g(), op.getMixedOffsets(),
              op.getMixedSizes(), op.getMixedStrides()));
  if (r.needs(1)) {
    Value zeros = zeroLike(r.builder, r.loc, op.getSource());
    r.set(1, tensor::InsertSliceOp::create(
                 r.builder, r.loc, zeros, r.g(), op.getMixedOffsets(),
                 op.getMixedSizes(), op.getMixedStrides()));
  }
  return success();
}
LogicalResult vjp(tensor::ConcatOp op, const Rule &r) {
  OpBuilder &b = r.builder;
  int64_t dim = op.getDim();
  int64_t rank = op.getRank();
  SmallVector<OpFoldResult> offsets(rank, b.getIndexAttr(0)),
      strides(rank, b.getIndexAttr(1));
  for (auto [i, part] : llvm::enumerate(op.getInputs())) {
    SmallVector<OpFoldResult> sizes = tensor::getMixedSizes(b, r.loc, part);
    if (r.needs(i))
      r.set(i, tensor::ExtractSliceOp::create(b, r.loc, tensorOf(part), r.g(),
                                              offsets, sizes, strides));
    AffineExpr x, y;
    bindDims(b.getContext(), x, y);
    offsets[dim] = affine::makeComposedFoldedAffineApply(
        b, r.loc, x + y, {offsets[dim], sizes[dim]});
  }
  return success();
}
LogicalResult vjp(tensor::EmptyOp op, const Rule &r) { return success(); }

// ---- single elements ----

LogicalResult vjp(tensor::ExtractOp op, const Rule &r) {
  Value zeros = zeroLike(r.builder, r.loc, op.getTensor());
  r.set(0, tensor::InsertOp::create(r.builder, r.loc, r.g(), zeros,
                                    op.getIndices()));
  return success();
}
LogicalResult vjp(tensor::InsertOp op, const Rule &r) {
  if (r.needs(0))
    r.set(0,
          tensor::ExtractOp::create(r.builder, r.loc, r.g(), op.getIndices()));
  if (r.needs(1)) {
    Value zero = zeroLike(r.builder, r.loc, op.getScalar());
    r.set(1, tensor::InsertOp::create(r.builder, r.loc, zero, r.g(),
                                      op.getIndices()));
  }
  return success();
}
LogicalResult vjp(tensor::FromElementsOp op, const Rule &r) {
  RankedTensorType type = op.getType();
  for (unsigned i : r.needed.set_bits()) {
    SmallVector<Value> indices(type.getRank());
    int64_t linear = i;
    for (int64_t d = type.getRank() - 1; d >= 0; --d) {
      int64_t size = type.getDimSize(d);
      indices[d] =
          arith::ConstantIndexOp::create(r.builder, r.loc, linear % size);
      linear /= size;
    }
    r.set(i, tensor::ExtractOp::create(r.builder, r.loc, r.g(), indices));
  }
  return success();
}

// ---- linalg.generic: the rule of its body ----

/// Differentiates a generic that maps (parallel iterators only; its outputs may
/// be read) or that sums a term into each output. The gradient of an operand is
/// a generic over the same iteration space with the body's forward and reverse
/// arithmetic; iterators that the operand does not have are summed over.
class GenericRule {
public:
  GenericRule(linalg::GenericOp op, const Rule &r) : op(op), r(r) {}

  LogicalResult run() {
    isMap = op.getNumLoops() == op.getNumParallelLoops();
    if (failed(findTerms()))
      return failure();
    for (OpOperand &operand : op->getOpOperands()) {
      unsigned i = operand.getOperandNumber();
      if (!r.needs(i))
        continue;
      if (op.isDpsInit(&operand) && !isMap)
        r.set(i, r.cotangents[i - op.getNumDpsInputs()]);
      else if (failed(gradient(operand)))
        return failure();
    }
    return success();
  }

private:
  LogicalResult findTerms() {
    auto yield = cast<linalg::YieldOp>(op.getBody()->getTerminator());
    for (auto [value, init] :
         llvm::zip(yield.getValues(), op.getRegionOutputArgs())) {
      if (isMap) {
        terms.push_back(value);
        continue;
      }
      auto add = value.getDefiningOp<arith::AddFOp>();
      if (!add || !init.hasOneUse() || *init.user_begin() != add)
        return op->emitError("expected a linalg.generic that sums into its "
                             "outputs with a single arith.addf");
      terms.push_back(add.getLhs() == init ? add.getRhs() : add.getLhs());
    }
    return success();
  }

  LogicalResult gradient(OpOperand &operand) {
    BlockArgument argument = op.getMatchingBlockArgument(&operand);
    if (argument.use_empty())
      return success();
    AffineMap map = op.getMatchingIndexingMap(&operand);
    if (!map.isProjectedPermutation())
      return op->emitError("expected indexing maps of different plain "
                           "dimensions, got ")
             << AffineMapAttr::get(map);
    SmallVector<Value> inputs = op.getDpsInputs();
    SmallVector<AffineMap> maps(op.getIndexingMapsArray());
    maps.resize(inputs.size());
    for (auto [i, init] : llvm::enumerate(op.getDpsInits())) {
      if (isMap)
        addInput(inputs, maps, init, i);
      if (r.cotangents[i])
        addInput(inputs, maps, r.cotangents[i], i);
    }
    Value like = operand.get();
    Type element = getElementTypeOrSelf(like.getType());
    Type wide =
        element.getIntOrFloatBitWidth() < 32 ? r.builder.getF32Type() : element;
    // A scalar operand's gradient is a tensor of rank 0 first.
    Value shape = isa<RankedTensorType>(like.getType())
                      ? like
                      : tensor::EmptyOp::create(r.builder, r.loc,
                                                ArrayRef<int64_t>{}, wide);
    maps.push_back(map);
    SmallVector<utils::IteratorType> iterators(map.getNumDims(),
                                               utils::IteratorType::reduction);
    for (AffineExpr e : map.getResults())
      iterators[cast<AffineDimExpr>(e).getPosition()] =
          utils::IteratorType::parallel;
    bool sums = map.getNumResults() < map.getNumDims();
    Value init = sums ? zeroLike(r.builder, r.loc, shape, wide)
                      : emptyLike(r, shape, wide);
    LogicalResult built = success();
    auto generic = linalg::GenericOp::create(
        r.builder, r.loc, TypeRange{init.getType()}, inputs, ValueRange{init},
        maps, iterators, [&](OpBuilder &b, Location loc, ValueRange arguments) {
          built = buildBody(b, loc, arguments, argument, sums);
        });
    if (failed(built))
      return failure();
    eraseDeadOps(*generic.getBody());
    Value result =
        convertElements(r.builder, r.loc, generic.getResult(0), element);
    if (!isa<RankedTensorType>(like.getType()))
      result =
          tensor::ExtractOp::create(r.builder, r.loc, result, ValueRange{});
    r.set(operand.getOperandNumber(), result);
    return success();
  }

  void addInput(SmallVector<Value> &inputs, SmallVector<AffineMap> &maps,
                Value value, unsigned output) {
    inputs.push_back(value);
    maps.push_back(op.getIndexingMapsArray()[op.getNumDpsInputs() + output]);
  }

  /// Forward arithmetic, then its rules from the cotangents of the terms.
  LogicalResult buildBody(OpBuilder &b, Location loc, ValueRange arguments,
                          BlockArgument wrt, bool sums) {
    IRMapping mapping;
    Block *body = op.getBody();
    unsigned next = op.getNumDpsInputs();
    for (unsigned i = 0; i < next; ++i)
      mapping.map(body->getArgument(i), arguments[i]);
    SmallVector<Value> seeds(terms.size());
    for (unsigned i = 0; i < terms.size(); ++i) {
      if (isMap)
        mapping.map(op.getRegionOutputArgs()[i], arguments[next++]);
      if (r.cotangents[i])
        seeds[i] = arguments[next++];
    }
    SmallVector<Operation *> forward;
    for (Operation &inner : body->without_terminator())
      if (llvm::all_of(inner.getOperands(), [&](Value v) {
            return v.getParentBlock() != body || mapping.contains(v);
          }))
        forward.push_back(b.clone(inner, mapping));
    Value mappedWrt = mapping.lookup(wrt);
    ReverseSweep sweep(forward, mappedWrt);
    for (auto [term, seed] : llvm::zip(terms, seeds))
      if (seed)
        sweep.add(mapping.lookupOrDefault(term), seed);
    auto noCalls = [](func::CallOp call, auto &&...) -> LogicalResult {
      return call.emitError("expected no call in a linalg.generic");
    };
    Type element = getElementTypeOrSelf(arguments.back().getType());
    bool ok = succeeded(sweep.run(b, noCalls));
    Value gradient = ok ? sweep.getCotangent(b, mappedWrt) : Value();
    if (gradient)
      gradient = convertElements(b, loc, gradient, element);
    else
      gradient = zeroLike(b, loc, arguments.back());
    if (sums)
      gradient = arith::AddFOp::create(b, loc, arguments.back(), gradient);
    linalg::YieldOp::create(b, loc, gradient);
    return success(ok);
  }

  linalg::GenericOp op;
  const Rule &r;
  bool isMap = false;
  SmallVector<Value> terms;
};

LogicalResult vjp(linalg::GenericOp op, const Rule &r) {
  return GenericRule(op, r).run();
}

// ---- the list ----

template <typename Op>
struct Model : DifferentiableOpInterface::ExternalModel<Model<Op>, Op> {
  LogicalResult buildVjp(Operation *op, OpBuilder &builder,
                         ValueRange cotangents, const llvm::BitVector &needed,
                         MutableArrayRef<Value> gradients) const {
    return vjp(cast<Op>(op),
               Rule{builder, op->getLoc(), cotangents, needed, gradients});
  }
};

template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<Model<Ops>>(*context), ...);
}

} // namespace

void jpmhc::registerUpstreamDerivatives(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    attach<arith::AddFOp, arith::DivFOp, arith::ExtFOp, arith::MaximumFOp,
           arith::MinimumFOp, arith::MulFOp, arith::NegFOp, arith::SelectOp,
           arith::SubFOp, arith::TruncFOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attach<math::AbsFOp, math::Atan2Op, math::AtanOp, math::CeilOp, math::CosOp,
           math::CoshOp, math::ErfOp, math::Exp2Op, math::ExpM1Op, math::ExpOp,
           math::FloorOp, math::FmaOp, math::Log10Op, math::Log1pOp,
           math::Log2Op, math::LogOp, math::PowFOp, math::RoundEvenOp,
           math::RoundOp, math::RsqrtOp, math::SinOp, math::SinhOp,
           math::SqrtOp, math::TanOp, math::TanhOp, math::TruncOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    attach<linalg::BroadcastOp, linalg::ContractOp, linalg::FillOp,
           linalg::GenericOp, linalg::ReduceOp, linalg::TransposeOp>(context);
  });
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    attach<tensor::CastOp, tensor::CollapseShapeOp, tensor::ConcatOp,
           tensor::EmptyOp, tensor::ExpandShapeOp, tensor::ExtractOp,
           tensor::ExtractSliceOp, tensor::FromElementsOp, tensor::InsertOp,
           tensor::InsertSliceOp, tensor::SplatOp>(context);
  });
}
