// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

/// Product of sizes; dynamic if one of them is.
static int64_t product(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) || ShapedType::isDynamic(b)
             ? ShapedType::kDynamic
             : a * b;
}

/// A tensor must have a certain shape; absent ones are right.
static LogicalResult expectShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape) {
  if (!value ||
      succeeded(verifyCompatibleShape(shape, typeOf(value).getShape())))
    return success();
  auto expected = RankedTensorType::get(shape, typeOf(value).getElementType());
  return op->emitOpError("expected ")
         << name << " of type " << expected << ", got " << value.getType();
}

static LogicalResult expectType(Operation *op, StringRef name, Value value,
                                Value like) {
  if (value.getType() == like.getType())
    return success();
  return op->emitOpError("expected ") << name << " of type " << like.getType()
                                      << ", got " << value.getType();
}

/// Types of those optional operands that are there.
static SmallVector<Type> presentTypes(Value first, Value second) {
  SmallVector<Type> types;
  for (Value parameter : {first, second})
    if (parameter)
      types.push_back(parameter.getType());
  return types;
}

/// One gradient for each optional operand that is there, of its type.
static LogicalResult expectParameterGradients(Operation *op,
                                              ResultRange gradients,
                                              Value first, Value second) {
  SmallVector<Type> expected = presentTypes(first, second);
  if (TypeRange(gradients) == TypeRange(expected))
    return success();
  return op->emitOpError("expected dparameters of types (")
         << expected << "), got (" << gradients.getTypes() << ")";
}

static LogicalResult expectPositive(Operation *op, StringRef name,
                                    llvm::APFloat value) {
  double number = value.convertToDouble();
  if (number > 0 && std::isfinite(number))
    return success();
  return op->emitOpError("expected a finite ")
         << name << " > 0, got " << number;
}

/// Sizes of the groups pre, post and res of a token's logits.
static int64_t groupSize(ReadWriteKind kind, int64_t n) {
  return kind == ReadWriteKind::softmax ? n * n : n;
}

int64_t jpmhc::streamLogitsSize(ManifoldAttr manifold, ReadWriteKind kind,
                                int64_t n) {
  return 2 * groupSize(kind, n) +
         manifold.getManifold().rawSize(n, manifold.getValues());
}

/// Streams of an op's types must suit the manifold; dynamic ones are not
/// checked.
static LogicalResult verifyStreams(Operation *op, ManifoldAttr manifold,
                                   int64_t n) {
  if (ShapedType::isDynamic(n))
    return success();
  return ManifoldRegistry::verifyStreams([&] { return op->emitOpError(); },
                                         manifold.getName(),
                                         manifold.getValues(), n);
}

static Value zeros(OpBuilder &builder, Location loc, Value like) {
  RankedTensorType type = typeOf(like);
  SmallVector<Value> sizes;
  for (int64_t i = 0; i < type.getRank(); ++i)
    if (type.isDynamicDim(i))
      sizes.push_back(tensor::DimOp::create(builder, loc, like, i));
  Value empty = tensor::EmptyOp::create(builder, loc, type, sizes);
  Value zero = arith::ConstantOp::create(
      builder, loc, builder.getZeroAttr(type.getElementType()));
  return linalg::FillOp::create(builder, loc, zero, empty).getResult(0);
}

/// Gradients of optional operands follow the others in order.
static void assignGradients(MutableArrayRef<Value> gradients,
                            ValueRange results) {
  for (auto [i, result] : llvm::enumerate(results))
    gradients[i] = result;
}

// ---- hyper_connection

LogicalResult HyperConnectionOp::verify() {
  RankedTensorType x = typeOf(getX());
  int64_t n = x.getDimSize(1), d = product(n, x.getDimSize(2));
  if (failed(verifyStreams(*this, getManifold(), n)))
    return failure();
  int64_t m = ShapedType::isDynamic(n)
                  ? ShapedType::kDynamic
                  : streamLogitsSize(getManifold(), getReadWrite(), n);
  if (failed(expectShape(*this, "weight", getWeight(), {m, d})) ||
      failed(expectShape(*this, "alpha", getAlpha(), {3})) ||
      failed(expectShape(*this, "bias", getBias(), {m})) ||
      failed(expectShape(*this, "gain", getGain(), {d})) ||
      failed(expectShape(*this, "shift", getShift(), {d})) ||
      failed(expectPositive(*this, "eps", getEps())) ||
      failed(expectPositive(*this, "tau", getTau())))
    return failure();
  return success();
}

LogicalResult HyperConnectionOp::verifyRegions() {
  RankedTensorType x = typeOf(getX());
  auto row = RankedTensorType::get({x.getDimSize(0), x.getDimSize(2)},
                                   x.getElementType());
  Block &block = getBody().front();
  if (block.getArgumentTypes() != TypeRange(row))
    return emitOpError("expected a region with one argument of type ")
           << row << ", got (" << block.getArgumentTypes() << ")";
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield)
    return emitOpError("expected a region that ends with jpmhc.yield, got ")
           << block.getTerminator()->getName();
  if (yield.getOperandTypes() != TypeRange(row))
    return yield.emitOpError("expected one value of type ")
           << row << ", got (" << yield.getOperandTypes() << ")";
  return success();
}

// ---- stream_logits

LogicalResult StreamLogitsOp::inferReturnTypes(MLIRContext *context,
                                               std::optional<Location> location,
                                               Adaptor in,
                                               SmallVectorImpl<Type> &types) {
  auto x = dyn_cast<RankedTensorType>(in.getX().getType());
  auto weight = dyn_cast<RankedTensorType>(in.getWeight().getType());
  if (!x || x.getRank() != 3 || !weight || weight.getRank() != 2)
    return emitOptionalError(
        location, "expected x of rank 3 and weight of rank 2, got ",
        in.getX().getType(), " and ", in.getWeight().getType());
  types.push_back(RankedTensorType::get({x.getDimSize(0), weight.getDimSize(0)},
                                        Float32Type::get(context)));
  return success();
}

template <typename Op> static LogicalResult verifyLogits(Op op) {
  RankedTensorType x = typeOf(op.getX());
  int64_t d = product(x.getDimSize(1), x.getDimSize(2));
  if (failed(expectShape(op, "weight", op.getWeight(),
                         {typeOf(op.getWeight()).getDimSize(0), d})) ||
      failed(expectShape(op, "gain", op.getGain(), {d})) ||
      failed(expectShape(op, "shift", op.getShift(), {d})))
    return failure();
  return expectPositive(op, "eps", op.getEps());
}

LogicalResult StreamLogitsOp::verify() { return verifyLogits(*this); }

LogicalResult StreamLogitsOp::buildVjp(OpBuilder &builder,
                                       ValueRange cotangents,
                                       const llvm::BitVector &,
                                       MutableArrayRef<Value> gradients) {
  auto vjp = StreamLogitsVjpOp::create(
      builder, getLoc(), getX().getType(), getWeight().getType(),
      presentTypes(getGain(), getShift()), getX(), getWeight(), cotangents[0],
      getGain(), getShift(), getNormAttr(), getEpsAttr());
  assignGradients(gradients, vjp.getResults());
  return success();
}

LogicalResult StreamLogitsVjpOp::verify() {
  if (failed(verifyLogits(*this)) ||
      failed(expectShape(
          *this, "dz", getDz(),
          {typeOf(getX()).getDimSize(0), typeOf(getWeight()).getDimSize(0)})) ||
      failed(expectType(*this, "dx", getDx(), getX())) ||
      failed(expectType(*this, "dweight", getDweight(), getWeight())))
    return failure();
  return expectParameterGradients(*this, getDparameters(), getGain(),
                                  getShift());
}

// ---- stream_maps

LogicalResult StreamMapsOp::inferReturnTypes(MLIRContext *context,
                                             std::optional<Location> location,
                                             Adaptor in,
                                             SmallVectorImpl<Type> &types) {
  auto z = dyn_cast<RankedTensorType>(in.getZ().getType());
  if (!z || z.getRank() != 2)
    return emitOptionalError(location, "expected z of shape [N, m], got ",
                             in.getZ().getType());
  int64_t rows = z.getDimSize(0), n = in.getStreams();
  Type f32 = Float32Type::get(context);
  types.push_back(RankedTensorType::get({rows, n}, f32));
  types.push_back(RankedTensorType::get({rows, n}, f32));
  types.push_back(RankedTensorType::get({rows, n, n}, f32));
  return success();
}

template <typename Op> static LogicalResult verifyMaps(Op op) {
  int64_t n = op.getStreams();
  if (failed(verifyStreams(op, op.getManifold(), n)))
    return failure();
  int64_t m = streamLogitsSize(op.getManifold(), op.getReadWrite(), n);
  if (failed(expectShape(op, "z", op.getZ(), {ShapedType::kDynamic, m})) ||
      failed(expectShape(op, "alpha", op.getAlpha(), {3})) ||
      failed(expectShape(op, "bias", op.getBias(), {m})))
    return failure();
  return expectPositive(op, "tau", op.getTau());
}

LogicalResult StreamMapsOp::verify() { return verifyMaps(*this); }

LogicalResult StreamMapsOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                     const llvm::BitVector &,
                                     MutableArrayRef<Value> gradients) {
  SmallVector<Value> given;
  for (auto [cotangent, result] : llvm::zip(cotangents, getResults()))
    given.push_back(cotangent ? cotangent : zeros(builder, getLoc(), result));
  auto vjp = StreamMapsVjpOp::create(
      builder, getLoc(), getZ().getType(), presentTypes(getAlpha(), getBias()),
      getZ(), given[0], given[1], given[2], getAlpha(), getBias(),
      getManifoldAttr(), getReadWriteAttr(), getStreamsAttr(), getTauAttr(),
      getPostScaleAttr());
  assignGradients(gradients, vjp.getResults());
  return success();
}

LogicalResult StreamMapsVjpOp::verify() {
  int64_t rows = typeOf(getZ()).getDimSize(0), n = getStreams();
  if (failed(verifyMaps(*this)) ||
      failed(expectShape(*this, "dread", getDread(), {rows, n})) ||
      failed(expectShape(*this, "dwrite", getDwrite(), {rows, n})) ||
      failed(expectShape(*this, "dmixer", getDmixer(), {rows, n, n})) ||
      failed(expectType(*this, "dz", getDz(), getZ())))
    return failure();
  return expectParameterGradients(*this, getDparameters(), getAlpha(),
                                  getBias());
}

// ---- stream_read

static RankedTensorType rowType(RankedTensorType x) {
  return RankedTensorType::get({x.getDimSize(0), x.getDimSize(2)},
                               x.getElementType());
}

LogicalResult StreamReadOp::inferReturnTypes(MLIRContext *,
                                             std::optional<Location> location,
                                             Adaptor in,
                                             SmallVectorImpl<Type> &types) {
  auto x = dyn_cast<RankedTensorType>(in.getX().getType());
  if (!x || x.getRank() != 3)
    return emitOptionalError(location, "expected x of shape [N, n, p], got ",
                             in.getX().getType());
  types.push_back(rowType(x));
  return success();
}

LogicalResult StreamReadOp::verify() {
  RankedTensorType x = typeOf(getX());
  return expectShape(*this, "read", getRead(),
                     {x.getDimSize(0), x.getDimSize(1)});
}

LogicalResult StreamReadOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                     const llvm::BitVector &,
                                     MutableArrayRef<Value> gradients) {
  auto vjp = StreamReadVjpOp::create(builder, getLoc(), getX().getType(),
                                     getRead().getType(), getX(), getRead(),
                                     cotangents[0]);
  assignGradients(gradients, vjp.getResults());
  return success();
}

LogicalResult StreamReadVjpOp::verify() {
  RankedTensorType x = typeOf(getX());
  if (failed(expectShape(*this, "read", getRead(),
                         {x.getDimSize(0), x.getDimSize(1)})))
    return failure();
  return expectShape(*this, "dx_in", getDxIn(),
                     {x.getDimSize(0), x.getDimSize(2)});
}

// ---- stream_write

template <typename Op> static LogicalResult verifyWrite(Op op) {
  RankedTensorType x = typeOf(op.getX());
  int64_t rows = x.getDimSize(0), n = x.getDimSize(1);
  if (failed(expectShape(op, "mixer", op.getMixer(), {rows, n, n})) ||
      failed(expectShape(op, "write", op.getWrite(), {rows, n})))
    return failure();
  return expectShape(op, "y", op.getY(), {rows, x.getDimSize(2)});
}

LogicalResult StreamWriteOp::verify() { return verifyWrite(*this); }

LogicalResult StreamWriteOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                      const llvm::BitVector &,
                                      MutableArrayRef<Value> gradients) {
  auto vjp = StreamWriteVjpOp::create(
      builder, getLoc(), getX().getType(), getMixer().getType(),
      getWrite().getType(), getY().getType(), getX(), getMixer(), getWrite(),
      getY(), cotangents[0], getScaleAttr());
  assignGradients(gradients, vjp.getResults());
  return success();
}

LogicalResult StreamWriteVjpOp::verify() { return verifyWrite(*this); }
