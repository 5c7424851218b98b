// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Kernels/KernelBuilder.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace jpmhc;

/// Products are calculated in the order they are written, since another order
/// overflows elsewhere, and may be contracted to fused multiply-adds. NaN and
/// Inf keep their meaning, so neither `nnan`, `ninf` nor, but for `reciprocal`,
/// `arcp` (rsqrt(0) would become NaN) is ever set.
static constexpr arith::FastMathFlags kFastMath =
    arith::FastMathFlags::contract | arith::FastMathFlags::nsz;

/// Sums may be reordered besides (vector lanes).
static constexpr arith::FastMathFlags kFastSum =
    kFastMath | arith::FastMathFlags::reassoc;

static bool isFloat(Val v) {
  return isa<FloatType>(getElementTypeOrSelf(v.type()));
}

static Val like(Val model, double number) {
  KernelBuilder &k = model.builder();
  if (isa<IndexType>(model.type()))
    return k.index(static_cast<int64_t>(number));
  Type element = getElementTypeOrSelf(model.type());
  TypedAttr attr =
      isa<FloatType>(element)
          ? TypedAttr(FloatAttr::get(element, number))
          : IntegerAttr::get(element, APInt(element.getIntOrFloatBitWidth(),
                                            static_cast<int64_t>(number),
                                            /*isSigned=*/false,
                                            /*implicitTrunc=*/true));
  Value scalar = arith::ConstantOp::create(k.builder, k.loc, attr);
  if (auto vector = dyn_cast<VectorType>(model.type()))
    return k.wrap(
        vector::BroadcastOp::create(k.builder, k.loc, vector, scalar));
  return k.wrap(scalar);
}

/// Broadcasts a scalar operand to the other's vector.
static void unify(Val &a, Val &b) {
  KernelBuilder &k = a.builder();
  auto splatTo = [&](Val v, Type vector) {
    auto type = VectorType::get(cast<VectorType>(vector).getShape(), v.type());
    return k.wrap(vector::BroadcastOp::create(k.builder, k.loc, type, v));
  };
  if (isa<VectorType>(a.type()) && !isa<VectorType>(b.type()))
    b = splatTo(b, a.type());
  else if (!isa<VectorType>(a.type()) && isa<VectorType>(b.type()))
    a = splatTo(a, b.type());
}

template <typename FloatOp, typename IndexOp> static Val binary(Val a, Val b) {
  unify(a, b);
  KernelBuilder &k = a.builder();
  constexpr bool isSum =
      llvm::is_one_of<FloatOp, arith::AddFOp, arith::SubFOp>::value;
  if (isFloat(a))
    return k.wrap(
        FloatOp::create(k.builder, k.loc, a, b, isSum ? kFastSum : kFastMath));
  return k.wrap(IndexOp::create(k.builder, k.loc, a, b));
}

template <typename MathOp> static Val unary(Val a) {
  KernelBuilder &k = a.builder();
  return k.wrap(MathOp::create(k.builder, k.loc, a, kFastMath));
}

static Val compare(Val a, Val b, arith::CmpFPredicate floats,
                   arith::CmpIPredicate integers) {
  unify(a, b);
  KernelBuilder &k = a.builder();
  if (isFloat(a))
    return k.wrap(arith::CmpFOp::create(k.builder, k.loc, floats, a, b));
  return k.wrap(arith::CmpIOp::create(k.builder, k.loc, integers, a, b));
}

namespace jpmhc {
Val operator+(Val a, Val b) {
  return binary<arith::AddFOp, arith::AddIOp>(a, b);
}
Val operator-(Val a, Val b) {
  return binary<arith::SubFOp, arith::SubIOp>(a, b);
}
Val operator*(Val a, Val b) {
  return binary<arith::MulFOp, arith::MulIOp>(a, b);
}
Val operator/(Val a, Val b) {
  return binary<arith::DivFOp, arith::DivUIOp>(a, b);
}
Val operator%(Val a, Val b) {
  return binary<arith::RemFOp, arith::RemUIOp>(a, b);
}
Val operator-(Val a) { return unary<arith::NegFOp>(a); }
Val operator+(Val a, double b) { return a + like(a, b); }
Val operator-(Val a, double b) { return a - like(a, b); }
Val operator*(Val a, double b) { return a * like(a, b); }
Val operator/(Val a, double b) { return a / like(a, b); }
Val operator+(double a, Val b) { return like(b, a) + b; }
Val operator-(double a, Val b) { return like(b, a) - b; }
Val operator*(double a, Val b) { return like(b, a) * b; }
Val operator/(double a, Val b) { return like(b, a) / b; }
Val operator<(Val a, Val b) {
  return compare(a, b, arith::CmpFPredicate::OLT, arith::CmpIPredicate::ult);
}
Val operator<=(Val a, Val b) {
  return compare(a, b, arith::CmpFPredicate::OLE, arith::CmpIPredicate::ule);
}
Val operator>(Val a, Val b) {
  return compare(a, b, arith::CmpFPredicate::OGT, arith::CmpIPredicate::ugt);
}
Val operator>=(Val a, Val b) {
  return compare(a, b, arith::CmpFPredicate::OGE, arith::CmpIPredicate::uge);
}
Val equal(Val a, Val b) {
  return compare(a, b, arith::CmpFPredicate::OEQ, arith::CmpIPredicate::eq);
}
Val operator&&(Val a, Val b) {
  return a.builder().wrap(
      arith::AndIOp::create(a.builder().builder, a.builder().loc, a, b));
}
Val operator||(Val a, Val b) {
  return a.builder().wrap(
      arith::OrIOp::create(a.builder().builder, a.builder().loc, a, b));
}
Val operator^(Val a, Val b) {
  return a.builder().wrap(
      arith::XOrIOp::create(a.builder().builder, a.builder().loc, a, b));
}
Val operator>>(Val a, int64_t bits) {
  return a.builder().wrap(arith::ShRUIOp::create(
      a.builder().builder, a.builder().loc, a, like(a, bits)));
}
Val inverse(Val condition) {
  KernelBuilder &k = condition.builder();
  Value yes = arith::ConstantIntOp::create(k.builder, k.loc, 1, 1);
  return k.wrap(arith::XOrIOp::create(k.builder, k.loc, condition, yes));
}
Val select(Val condition, Val a, Val b) {
  unify(a, b);
  KernelBuilder &k = a.builder();
  return k.wrap(arith::SelectOp::create(k.builder, k.loc, condition, a, b));
}
Val min(Val a, Val b) {
  return binary<arith::MinimumFOp, arith::MinUIOp>(a, b);
}
Val max(Val a, Val b) {
  return binary<arith::MaximumFOp, arith::MaxUIOp>(a, b);
}
Val exp(Val a) { return unary<math::ExpOp>(a); }
Val log(Val a) { return unary<math::LogOp>(a); }
Val expm1(Val a) { return unary<math::ExpM1Op>(a); }
Val log1p(Val a) { return unary<math::Log1pOp>(a); }
Val reciprocal(Val a) {
  KernelBuilder &k = a.builder();
  return k.wrap(arith::DivFOp::create(k.builder, k.loc, like(a, 1), a,
                                      kFastMath | arith::FastMathFlags::arcp));
}
Val sqrt(Val a) { return unary<math::SqrtOp>(a); }
Val rsqrt(Val a) { return 1.0 / sqrt(a); }
Val tanh(Val a) { return unary<math::TanhOp>(a); }
Val abs(Val a) { return unary<math::AbsFOp>(a); }
Val sigmoid(Val a) { return 1.0 / (1.0 + exp(-a)); }
} // namespace jpmhc

// ---- constants and sizes
// -------------------------------------------------------------------------------------------

Val KernelBuilder::index(int64_t value) {
  return wrap(arith::ConstantIndexOp::create(builder, loc, value));
}

Val KernelBuilder::f32(double value) {
  return wrap(arith::ConstantOp::create(
      builder, loc, builder.getF32FloatAttr(static_cast<float>(value))));
}

Type KernelBuilder::laneType() {
  return lanes() == 1 ? Type(builder.getF32Type())
                      : VectorType::get({lanes()}, builder.getF32Type());
}

Val KernelBuilder::splat(double value) {
  if (lanes() == 1)
    return f32(value);
  return wrap(
      vector::BroadcastOp::create(builder, loc, laneType(), f32(value)));
}

Val KernelBuilder::dim(Value memref, int64_t i) {
  auto type = cast<MemRefType>(memref.getType());
  i = i < 0 ? i + type.getRank() : i;
  if (!type.isDynamicDim(i))
    return index(type.getDimSize(i));
  return wrap(memref::DimOp::create(builder, loc, memref, i));
}

Val KernelBuilder::elements(Value memref, int64_t begin, int64_t end) {
  int64_t rank = cast<MemRefType>(memref.getType()).getRank();
  begin = begin < 0 ? begin + rank : begin;
  end = end < 0 ? end + rank : end;
  Val product = index(1);
  for (int64_t i = begin; i < end; ++i)
    product = i == begin ? dim(memref, i) : product * dim(memref, i);
  return product;
}

Val KernelBuilder::toFloat(Val value) {
  return toFloat(value, builder.getF32Type());
}

Val KernelBuilder::toFloat(Val value, FloatType type) {
  if (isFloat(value))
    return convert(value, type);
  Value integer = value;
  if (isa<IndexType>(value.type()))
    integer =
        arith::IndexCastOp::create(builder, loc, builder.getI64Type(), integer);
  return wrap(arith::SIToFPOp::create(builder, loc, type, integer));
}

Val KernelBuilder::toIndex(Val integer) {
  return wrap(arith::IndexCastOp::create(builder, loc, builder.getIndexType(),
                                         integer));
}

Val KernelBuilder::toInteger(Val value, IntegerType type) {
  if (isa<IndexType>(value.type()))
    return wrap(arith::IndexCastOp::create(builder, loc, type, value));
  if (value.type().getIntOrFloatBitWidth() == type.getWidth())
    return value;
  return wrap(arith::TruncIOp::create(builder, loc, type, value));
}

Val KernelBuilder::toInt(Val value) {
  return toInteger(value, builder.getI32Type());
}

Val KernelBuilder::toDouble(Val value) {
  return toFloat(value, builder.getF64Type());
}

Val KernelBuilder::f64(double value) {
  return wrap(
      arith::ConstantOp::create(builder, loc, builder.getF64FloatAttr(value)));
}

Val KernelBuilder::launchArgument(Value scalar) {
  return wrap(LaunchArgumentOp::create(builder, loc, scalar));
}

// ---- loops
// -----------------------------------------------------------------------------------------------------------

void KernelBuilder::rows(Val n, Body body) {
  scf::ParallelOp::create(
      builder, loc, ValueRange{index(0)}, ValueRange{n}, ValueRange{index(1)},
      [&](OpBuilder &inner, Location, ValueRange ivs) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        body(wrap(ivs[0]));
      });
}

void KernelBuilder::preparation(Val n, Body body) {
  rows(n, body);
  auto loop = cast<scf::ParallelOp>(*std::prev(builder.getInsertionPoint()));
  loop->setAttr(kPreparesAttrName, builder.getUnitAttr());
}

void KernelBuilder::columns(Val n, Body body) { rows(n, body); }

void KernelBuilder::rowChunks(Val n, int64_t partials,
                              function_ref<void(Val, Val, Val)> body) {
  Val count = index(partials);
  Val tiles =
      (n + (double(partials * lanes()) - 1)) / index(partials * lanes());
  Val size = tiles * index(lanes());
  rows(count, [&](Val chunk) {
    Val lower = min(chunk * size, n);
    body(chunk, lower, min(lower + size, n));
  });
  auto loop = cast<scf::ParallelOp>(*std::prev(builder.getInsertionPoint()));
  if (std::optional<int64_t> known = getConstantIntValue(Value(n)))
    loop->setAttr("jpmhc.chunks", builder.getI64IntegerAttr(*known));
}

void KernelBuilder::rowTiles(Val n, int64_t step, Body body) {
  scf::ParallelOp::create(
      builder, loc, ValueRange{index(0)}, ValueRange{n},
      ValueRange{index(step)}, [&](OpBuilder &inner, Location, ValueRange ivs) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        body(wrap(ivs[0]));
      });
}

void KernelBuilder::blocks(Val n, int64_t size,
                           function_ref<void(Val, Val, Val)> body) {
  rows((n + (size - 1.0)) / index(size), [&](Val block) {
    Val first = block * index(size);
    body(block, first, min(index(size), n - first));
  });
}

SmallVector<Val> KernelBuilder::reduceColumns(Val n, ArrayRef<Reduction> kinds,
                                              ReduceBody body) {
  SmallVector<Value> init;
  for (Reduction kind : kinds)
    init.push_back(f32(kind == Reduction::sum
                           ? 0.0
                           : -std::numeric_limits<double>::infinity()));
  auto combine = [&](Reduction kind, Val a, Val b) {
    return kind == Reduction::sum ? a + b : max(a, b);
  };
  auto loop =
      scf::ParallelOp::create(builder, loc, ValueRange{index(0)}, ValueRange{n},
                              ValueRange{index(1)}, init, nullptr);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(loop.getBody());
  SmallVector<Value> terms;
  for (Val term : body(wrap(loop.getInductionVars()[0])))
    terms.push_back(term);
  auto reduce = scf::ReduceOp::create(builder, loc, terms);
  for (auto [kind, region] : llvm::zip(kinds, reduce.getReductions())) {
    builder.setInsertionPointToStart(&region.front());
    Val result =
        combine(kind, wrap(region.getArgument(0)), wrap(region.getArgument(1)));
    scf::ReduceReturnOp::create(builder, loc, result);
  }
  return llvm::map_to_vector(loop.getResults(),
                             [&](Value v) { return wrap(v); });
}

Val KernelBuilder::sum(Val n, function_ref<Val(Val)> body) {
  return reduceColumns(n, {Reduction::sum},
                       [&](Val i) { return SmallVector<Val>{body(i)}; })[0];
}

Val KernelBuilder::maximum(Val n, function_ref<Val(Val)> body) {
  return reduceColumns(n, {Reduction::max},
                       [&](Val i) { return SmallVector<Val>{body(i)}; })[0];
}

Val KernelBuilder::sumInOrder(Val init, Val n, function_ref<Val(Val)> body) {
  return loop(index(0), n, index(1), {init}, [&](Val i, ArrayRef<Val> total) {
    return SmallVector<Val>{wrap(
        arith::AddFOp::create(builder, loc, total[0], body(i), kFastMath))};
  })[0];
}

SmallVector<Val> KernelBuilder::loop(Val lower, Val upper, Val step,
                                     ArrayRef<Val> init, LoopBody body) {
  SmallVector<Value> carried(init.begin(), init.end());
  auto loop = scf::ForOp::create(
      builder, loc, lower, upper, step, carried,
      [&](OpBuilder &inner, Location, Value iv, ValueRange args) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        SmallVector<Val> in =
            llvm::map_to_vector(args, [&](Value v) { return wrap(v); });
        SmallVector<Value> out;
        for (Val v : body(wrap(iv), in))
          out.push_back(v);
        scf::YieldOp::create(builder, loc, out);
      });
  return llvm::map_to_vector(loop.getResults(),
                             [&](Value v) { return wrap(v); });
}

void KernelBuilder::loop(Val lower, Val upper, Body body) {
  loop(lower, upper, index(1), {}, [&](Val iv, ArrayRef<Val>) {
    body(iv);
    return SmallVector<Val>{};
  });
}

void KernelBuilder::ifThen(Val condition, function_ref<void()> body) {
  auto op =
      scf::IfOp::create(builder, loc, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(op.thenBlock());
  body();
}

// ---- memory
// ------------------------------------------------------------------------------------------------------------

Val KernelBuilder::convert(Val value, Type element) {
  Type from = getElementTypeOrSelf(value.type());
  if (from == element || !isa<FloatType>(from) || !isa<FloatType>(element))
    return value;
  Type to = element;
  if (auto vector = dyn_cast<VectorType>(value.type()))
    to = VectorType::get(vector.getShape(), element);
  // From f64 to 16 bits by way of f32: no machine has the direct conversion.
  if (from.isF64() && element.getIntOrFloatBitWidth() < 32)
    return convert(convert(value, builder.getF32Type()), element);
  if (from.getIntOrFloatBitWidth() < element.getIntOrFloatBitWidth())
    return wrap(arith::ExtFOp::create(builder, loc, to, value,
                                      arith::FastMathFlagsAttr()));
  return wrap(arith::TruncFOp::create(builder, loc, to, value));
}

static SmallVector<Value> values(ArrayRef<Val> vals) {
  return SmallVector<Value>(vals.begin(), vals.end());
}

Val KernelBuilder::load(Value memref, ArrayRef<Val> indices) {
  Val loaded =
      wrap(memref::LoadOp::create(builder, loc, memref, values(indices)));
  Type element = getElementTypeOrSelf(loaded.type());
  if (isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32)
    return convert(loaded, builder.getF32Type());
  return loaded;
}

void KernelBuilder::store(Val value, Value memref, ArrayRef<Val> indices) {
  Type element =
      getElementTypeOrSelf(cast<MemRefType>(memref.getType()).getElementType());
  memref::StoreOp::create(builder, loc, convert(value, element), memref,
                          values(indices));
}

void KernelBuilder::accumulate(Val value, Value memref, ArrayRef<Val> indices) {
  store(load(memref, indices) + value, memref, indices);
}

Value KernelBuilder::scratch(ArrayRef<int64_t> shape, Type element) {
  auto type = MemRefType::get(shape, element ? element : builder.getF32Type());
  return memref::AllocaOp::create(builder, loc, type,
                                  builder.getI64IntegerAttr(64));
}

Value KernelBuilder::temporary(ArrayRef<int64_t> shape, Type element) {
  auto type = MemRefType::get(shape, element ? element : builder.getF32Type());
  return memref::AllocOp::create(builder, loc, type,
                                 builder.getI64IntegerAttr(64));
}

Value KernelBuilder::asRows(Value memref, unsigned trailing) {
  auto type = cast<MemRefType>(memref.getType());
  int64_t leading = type.getRank() - trailing;
  if (leading == 1)
    return memref;
  if (leading == 0) {
    SmallVector<ReassociationIndices> groups;
    SmallVector<int64_t> shape{1};
    llvm::append_range(shape, type.getShape());
    for (unsigned i = 0; i < trailing; ++i)
      groups.push_back(i == 0 ? ReassociationIndices{0, 1}
                              : ReassociationIndices{i + 1});
    return memref::ExpandShapeOp::create(builder, loc, shape, memref, groups);
  }
  SmallVector<ReassociationIndices> groups{
      llvm::to_vector<2>(llvm::seq<int64_t>(0, leading))};
  for (unsigned i = 0; i < trailing; ++i)
    groups.push_back({leading + i});
  if (!memref::CollapseShapeOp::isGuaranteedCollapsible(type, groups)) {
    Value copy = temporary(type.getShape(), type.getElementType());
    memref::CopyOp::create(builder, loc, memref, copy);
    memref = copy;
  }
  return memref::CollapseShapeOp::create(builder, loc, memref, groups);
}

// ---- tokens
// --------------------------------------------------------------------------------------------------------------

void KernelBuilder::tokens(Val n, function_ref<void(Tokens)> body) {
  Val step = index(lanes());
  auto loop = scf::ParallelOp::create(
      builder, loc, ValueRange{index(0)}, ValueRange{n}, ValueRange{step},
      [&](OpBuilder &inner, Location, ValueRange ivs) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        Val first = wrap(ivs[0]);
        body({first, lanes() == 1 ? index(1) : min(step, n - first)});
      });
  loop->setAttr("jpmhc.tokens", builder.getUnitAttr());
}

void KernelBuilder::tokenGroups(Val n, Body body) {
  rows(n, body);
  auto loop = cast<scf::ParallelOp>(*std::prev(builder.getInsertionPoint()));
  loop->setAttr("jpmhc.tokens", builder.getUnitAttr());
}

Val KernelBuilder::loadTokens(Tokens tokens, Value memref,
                              ArrayRef<Val> indices) {
  SmallVector<Val> position{tokens.first};
  llvm::append_range(position, indices);
  if (lanes() == 1)
    return load(memref, position);
  Val last = tokens.count - 1.0;
  SmallVector<Value> elements;
  for (int64_t lane = 0; lane < lanes(); ++lane) {
    position[0] = tokens.first + min(index(lane), last);
    elements.push_back(load(memref, position));
  }
  auto type = VectorType::get({lanes()}, elements[0].getType());
  return wrap(vector::FromElementsOp::create(builder, loc, type, elements));
}

void KernelBuilder::storeTokens(Tokens tokens, Val value, Value memref,
                                ArrayRef<Val> indices) {
  SmallVector<Val> position{tokens.first};
  llvm::append_range(position, indices);
  if (lanes() == 1)
    return store(value, memref, position);
  // Lanes past the end are written first, to the last token, so that the last
  // token's own lane overwrites them: no branch in the loop.
  Val last = tokens.count - 1.0;
  for (int64_t lane = lanes() - 1; lane >= 0; --lane) {
    position[0] = tokens.first + min(index(lane), last);
    store(wrap(vector::ExtractOp::create(builder, loc, value, lane)), memref,
          position);
  }
}

Val KernelBuilder::lanePositions(Val first) {
  Val start = toInt(first);
  if (lanes() == 1)
    return start;
  auto type = VectorType::get({lanes()}, builder.getI32Type());
  SmallVector<int32_t> numbers =
      llvm::to_vector(llvm::seq<int32_t>(0, lanes()));
  return start +
         wrap(arith::ConstantOp::create(
             builder, loc, DenseElementsAttr::get(type, ArrayRef(numbers))));
}

// ---- rows of tokens turned into columns

bool KernelBuilder::canTranspose(Value memref, int64_t size) const {
  // LLVM cannot select loads and stores of, say, nine bf16 at once.
  bool whole = cast<MemRefType>(memref.getType()).getElementType().isF32() ||
               size % lanes() == 0;
  return whole && lanes() > 1 && llvm::isPowerOf2_64(lanes());
}

/// Transposes a square of vectors by exchanging ever smaller blocks.
static void transposeSquare(KernelBuilder &k, MutableArrayRef<Val> rows) {
  int64_t n = rows.size();
  for (int64_t half = n / 2; half > 0; half /= 2) {
    SmallVector<int64_t> low, high; // positions in the pair (a, b)
    for (int64_t i = 0; i < n; ++i) {
      low.push_back((i & half) == 0 ? i : n + i - half);
      high.push_back((i & half) == 0 ? i + half : n + i);
    }
    for (int64_t i = 0; i < n; ++i) {
      if (i & half)
        continue;
      Val a = rows[i], b = rows[i + half];
      rows[i] = k.wrap(vector::ShuffleOp::create(k.builder, k.loc, a, b, low));
      rows[i + half] =
          k.wrap(vector::ShuffleOp::create(k.builder, k.loc, a, b, high));
    }
  }
}

void KernelBuilder::laneBlocks(int64_t size,
                               function_ref<void(Val, int64_t)> body) {
  int64_t whole = size / lanes() * lanes();
  if (whole > 0)
    loop(index(0), index(whole), index(lanes()), {},
         [&](Val first, ArrayRef<Val>) {
           body(first, lanes());
           return SmallVector<Val>{};
         });
  if (whole < size)
    body(index(whole), size - whole);
}

/// `lanes` contiguous elements as f32, of which the first `count` exist.
Val KernelBuilder::loadLanes(Value memref, ArrayRef<Val> indices,
                             int64_t count) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  auto type = VectorType::get({count}, element);
  Val loaded = convert(
      wrap(vector::LoadOp::create(builder, loc, type, memref, values(indices))),
      builder.getF32Type());
  if (count == lanes())
    return loaded;
  SmallVector<int64_t> positions; // the others repeat the last
  for (int64_t i = 0; i < lanes(); ++i)
    positions.push_back(std::min(i, count - 1));
  return wrap(
      vector::ShuffleOp::create(builder, loc, loaded, loaded, positions));
}

void KernelBuilder::storeLanes(Val value, Value memref, ArrayRef<Val> indices,
                               int64_t count) {
  if (count < lanes())
    value = wrap(vector::ShuffleOp::create(
        builder, loc, value, value,
        llvm::to_vector(llvm::seq<int64_t>(0, count))));
  Val stored =
      convert(value, cast<MemRefType>(memref.getType()).getElementType());
  vector::StoreOp::create(builder, loc, stored, memref, values(indices));
}

/// {first + lane (at most the last that exists), indices..., column}
static SmallVector<Val> tokenRow(Tokens tokens, int64_t lane,
                                 ArrayRef<Val> indices, Val column) {
  KernelBuilder &k = column.builder();
  SmallVector<Val> position{tokens.first +
                            min(k.index(lane), tokens.count - 1.0)};
  llvm::append_range(position, indices);
  position.push_back(column);
  return position;
}

void KernelBuilder::loadTransposed(Tokens tokens, Value memref,
                                   ArrayRef<Val> indices, double factor,
                                   Value columns) {
  int64_t size = cast<MemRefType>(columns.getType()).getDimSize(0);
  if (!canTranspose(memref, size)) {
    loop(index(0), index(size), [&](Val c) {
      SmallVector<Val> position(indices);
      position.push_back(c);
      store(loadTokens(tokens, memref, position) * factor, columns, {c});
    });
    return;
  }
  laneBlocks(size, [&](Val first, int64_t count) {
    SmallVector<Val> square;
    for (int64_t lane = 0; lane < lanes(); ++lane)
      square.push_back(
          loadLanes(memref, tokenRow(tokens, lane, indices, first), count));
    transposeSquare(*this, square);
    for (int64_t c = 0; c < count; ++c)
      store(square[c] * factor, columns, {first + static_cast<double>(c)});
  });
}

void KernelBuilder::storeTransposed(Tokens tokens, Value columns, Val factor,
                                    Value memref, ArrayRef<Val> indices) {
  int64_t size = cast<MemRefType>(columns.getType()).getDimSize(0);
  if (!canTranspose(memref, size)) {
    loop(index(0), index(size), [&](Val c) {
      SmallVector<Val> position(indices);
      position.push_back(c);
      storeTokens(tokens, load(columns, {c}) * factor, memref, position);
    });
    return;
  }
  laneBlocks(size, [&](Val first, int64_t count) {
    SmallVector<Val> square;
    for (int64_t c = 0; c < count; ++c)
      square.push_back(load(columns, {first + static_cast<double>(c)}) *
                       factor);
    square.resize(lanes(), square.back());
    transposeSquare(*this, square);
    // Last lane first, for the reason given in storeTokens.
    for (int64_t lane = lanes() - 1; lane >= 0; --lane)
      storeLanes(square[lane], memref, tokenRow(tokens, lane, indices, first),
                 count);
  });
}

SmallVector<Val> KernelBuilder::loadColumns(Tokens tokens, Value memref,
                                            int64_t offset, int64_t size) {
  SmallVector<Val> columns;
  if (!canTranspose(memref, size)) {
    for (int64_t c = 0; c < size; ++c)
      columns.push_back(loadTokens(tokens, memref, {index(offset + c)}));
    return columns;
  }
  for (int64_t done = 0; done < size; done += lanes()) {
    int64_t count = std::min(lanes(), size - done);
    SmallVector<Val> square;
    for (int64_t lane = 0; lane < lanes(); ++lane)
      square.push_back(loadLanes(
          memref, tokenRow(tokens, lane, {}, index(offset + done)), count));
    transposeSquare(*this, square);
    columns.append(square.begin(), square.begin() + count);
  }
  return columns;
}

void KernelBuilder::storeColumns(Tokens tokens, ArrayRef<Val> columns,
                                 Value memref, int64_t offset) {
  int64_t size = columns.size();
  if (!canTranspose(memref, size)) {
    for (int64_t c = 0; c < size; ++c)
      storeTokens(tokens, columns[c], memref, {index(offset + c)});
    return;
  }
  for (int64_t done = 0; done < size; done += lanes()) {
    int64_t count = std::min(lanes(), size - done);
    SmallVector<Val> square(columns.slice(done, count));
    square.resize(lanes(), square.back());
    transposeSquare(*this, square);
    // Last lane first, for the reason given in storeTokens.
    for (int64_t lane = lanes() - 1; lane >= 0; --lane)
      storeLanes(square[lane], memref,
                 tokenRow(tokens, lane, {}, index(offset + done)), count);
  }
}

Val KernelBuilder::lane(Val value, int64_t number) {
  if (lanes() == 1)
    return value;
  return wrap(vector::ExtractOp::create(builder, loc, value, number));
}

Val KernelBuilder::sumsOfLanes(ArrayRef<Val> vectors) {
  // Each step joins vectors in pairs and halves the distance of what is added:
  // lane i of what is left belongs to vector i at the end.
  SmallVector<Val> left(vectors);
  for (int64_t half = lanes() / 2; half > 0; half /= 2) {
    SmallVector<int64_t> low, high;
    for (int64_t i = 0; i < lanes(); ++i) {
      low.push_back((i & half) == 0 ? i : lanes() + i - half);
      high.push_back((i & half) == 0 ? i + half : lanes() + i);
    }
    for (int64_t i = 0; i < half; ++i) {
      Val a = left[i], b = left[i + half];
      left[i] = wrap(vector::ShuffleOp::create(builder, loc, a, b, low)) +
                wrap(vector::ShuffleOp::create(builder, loc, a, b, high));
    }
  }
  return left[0];
}

Val KernelBuilder::loadLanes(Value memref, ArrayRef<Val> indices) {
  if (lanes() == 1)
    return load(memref, indices);
  return wrap(vector::LoadOp::create(builder, loc, cast<VectorType>(laneType()),
                                     memref, values(indices)));
}

void KernelBuilder::storeLanes(Val value, Value memref, ArrayRef<Val> indices) {
  if (lanes() == 1)
    return store(value, memref, indices);
  if (!isa<VectorType>(value.type()))
    value = wrap(vector::BroadcastOp::create(builder, loc, laneType(), value));
  vector::StoreOp::create(builder, loc, value, memref, values(indices));
}

// ---- channels
// -----------------------------------------------------------------------------------------------------------

Type KernelBuilder::groupType(Type element) {
  return groupSize() == 1 ? element : VectorType::get({groupSize()}, element);
}

void KernelBuilder::channels(Val n, Val width,
                             function_ref<void(Val, Channels)> body) {
  Val size = index(groupSize());
  Val groups = (width + (groupSize() - 1.0)) / size;
  std::optional<int64_t> known = getConstantIntValue(Value(width));
  bool whole = known && *known % groupSize() == 0;
  auto loop = scf::ParallelOp::create(
      builder, loc, ValueRange{index(0)}, ValueRange{n * groups},
      ValueRange{index(1)}, [&](OpBuilder &inner, Location, ValueRange ivs) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPoint(inner.getInsertionBlock(),
                                  inner.getInsertionPoint());
        Val at = wrap(ivs[0]), group = at % groups, first = group * size;
        Val mask;
        if (!whole && groupSize() > 1)
          mask = existing(width - first);
        body(at / groups, {group, first, mask});
      });
  loop->setAttr("jpmhc.tokens", builder.getUnitAttr());
}

Val KernelBuilder::existing(Val count) {
  return wrap(
      vector::CreateMaskOp::create(builder, loc, groupType(builder.getI1Type()),
                                   ValueRange{min(index(groupSize()), count)}));
}

Val KernelBuilder::loadChannels(Channels channels, Value memref,
                                ArrayRef<Val> indices) {
  SmallVector<Val> position(indices);
  position.push_back(channels.first);
  if (!channels.mask)
    return loadGroup(memref, position);
  auto type = cast<VectorType>(
      groupType(cast<MemRefType>(memref.getType()).getElementType()));
  Value zero =
      arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type));
  Val loaded = wrap(vector::MaskedLoadOp::create(
      builder, loc, type, memref, values(position), channels.mask, zero));
  return convert(loaded, builder.getF32Type());
}

void KernelBuilder::storeChannels(Channels channels, Val value, Value memref,
                                  ArrayRef<Val> indices) {
  SmallVector<Val> position(indices);
  position.push_back(channels.first);
  if (!channels.mask)
    return storeGroup(value, memref, position);
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  vector::MaskedStoreOp::create(builder, loc, memref, values(position),
                                channels.mask, convert(value, element));
}

void KernelBuilder::prefetchChannels(Channels channels, Value memref,
                                     ArrayRef<Val> indices, bool isWrite) {
  if (groupSize() == 1)
    return;
  constexpr int64_t kLine = 64;
  int64_t bytes =
      cast<MemRefType>(memref.getType()).getElementTypeBitWidth() / 8;
  SmallVector<Val> position(indices);
  position.push_back(channels.first);
  for (int64_t i = 0; i < groupSize(); i += kLine / bytes) {
    position.back() = channels.first + static_cast<double>(i);
    memref::PrefetchOp::create(builder, loc, memref, values(position), isWrite,
                               /*localityHint=*/3, /*isDataCache=*/true);
  }
}

Val KernelBuilder::splatChannels(Val scalar) {
  Type type = groupType(scalar.type());
  if (type == scalar.type())
    return scalar;
  return wrap(vector::BroadcastOp::create(builder, loc, type, scalar));
}

Val KernelBuilder::loadGroup(Value memref, ArrayRef<Val> indices) {
  if (groupSize() == 1)
    return load(memref, indices);
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  Val loaded = wrap(vector::LoadOp::create(builder, loc,
                                           cast<VectorType>(groupType(element)),
                                           memref, values(indices)));
  return element.getIntOrFloatBitWidth() < 32
             ? convert(loaded, builder.getF32Type())
             : loaded;
}

void KernelBuilder::storeGroup(Val value, Value memref, ArrayRef<Val> indices) {
  if (groupSize() == 1)
    return store(value, memref, indices);
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  vector::StoreOp::create(builder, loc, convert(value, element), memref,
                          values(indices));
}

Val KernelBuilder::sumGroup(Val value) {
  if (groupSize() == 1)
    return value;
  return wrap(vector::ReductionOp::create(
      builder, loc, vector::CombiningKind::ADD, value, kFastSum));
}
