// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Shapes.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"

using namespace mlir;
using namespace jpmhc;

// ---- rope

LogicalResult RopeOp::verify() {
  auto type = typeOf(getX());
  if (type.getRank() != 4)
    return emitOpError("expected x of shape [B, T, H, d], got rank ")
           << type.getRank();
  int64_t size = type.getDimSize(3);
  if (!ShapedType::isDynamic(size) && size % 2 != 0)
    return emitOpError("expected an even head size, got ") << size;
  double theta = getTheta().convertToDouble();
  if (!(theta > 0) || std::isinf(theta))
    return emitOpError("expected a finite theta > 0, got ") << theta;
  return success();
}

/// Position 0 does not turn.
OpFoldResult RopeOp::fold(FoldAdaptor) {
  return typeOf(getX()).getDimSize(1) == 1 ? getX() : OpFoldResult();
}

/// The adjoint of a rotation is the rotation back.
LogicalResult RopeOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                               const llvm::BitVector &,
                               MutableArrayRef<Value> gradients) {
  gradients[0] = RopeOp::create(
      builder, getLoc(), getX().getType(), cotangents[0], getThetaAttr(),
      getInverse() ? UnitAttr() : builder.getUnitAttr());
  return success();
}

// ---- embedding

/// [ids..., D] for ids and a table [V, D].
static SmallVector<int64_t> gatheredShape(RankedTensorType ids,
                                          RankedTensorType table) {
  SmallVector<int64_t> shape(ids.getShape());
  shape.push_back(table.getShape().back());
  return shape;
}

static LogicalResult verifyGather(Operation *op, RankedTensorType table,
                                  RankedTensorType ids, StringRef name,
                                  RankedTensorType rows) {
  if (table.getRank() != 2)
    return op->emitOpError("expected a table of shape [V, D], got rank ")
           << table.getRank();
  SmallVector<int64_t> shape = gatheredShape(ids, table);
  if (failed(verifyCompatibleShape(shape, rows.getShape())))
    return op->emitOpError("expected ")
           << name << " of type "
           << RankedTensorType::get(shape, table.getElementType()) << ", got "
           << rows;
  if (rows.getElementType() != table.getElementType())
    return op->emitOpError("expected ")
           << name << " of element type " << table.getElementType() << ", got "
           << rows.getElementType();
  return success();
}

LogicalResult
EmbeddingOp::inferReturnTypes(MLIRContext *, std::optional<Location> location,
                              ValueRange operands, DictionaryAttr attributes,
                              OpaqueProperties properties, RegionRange regions,
                              SmallVectorImpl<Type> &inferred) {
  Adaptor in(operands, attributes, properties, regions);
  auto table = dyn_cast<RankedTensorType>(in.getTable().getType());
  auto ids = dyn_cast<RankedTensorType>(in.getIds().getType());
  if (!table || !ids || table.getRank() != 2)
    return emitOptionalError(
        location, "expected a table of shape [V, D] and a tensor of ids, got ",
        in.getTable().getType(), " and ", in.getIds().getType());
  inferred.push_back(
      RankedTensorType::get(gatheredShape(ids, table), table.getElementType()));
  return success();
}

LogicalResult EmbeddingOp::verify() {
  RankedTensorType table = typeOf(getTable());
  if (failed(verifyGather(*this, table, typeOf(getIds()), "y", typeOf(getY()))))
    return failure();
  return verifyConstantIds(*this, "ids", getIds(), table.getDimSize(0));
}

LogicalResult EmbeddingOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                    const llvm::BitVector &,
                                    MutableArrayRef<Value> gradients) {
  gradients[0] = EmbeddingVjpOp::create(builder, getLoc(), getTable().getType(),
                                        cotangents[0], getIds());
  return success();
}

LogicalResult EmbeddingVjpOp::verify() {
  return verifyGather(*this, typeOf(getDtable()), typeOf(getIds()), "dy",
                      typeOf(getDy()));
}
