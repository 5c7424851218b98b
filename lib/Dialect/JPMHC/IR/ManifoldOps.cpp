// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

/// The number of streams suits the manifold, and `raw` has as many numbers a
/// token as it takes.
static LogicalResult verifyRaw(Operation *op, ManifoldAttr attr, int64_t n,
                               RankedTensorType raw) {
  auto error = [&] { return op->emitOpError(); };
  ManifoldParameters parameters = attr.getValues();
  if (failed(ManifoldRegistry::verifyStreams(error, attr.getName(), parameters,
                                             n)))
    return failure();
  int64_t expected = attr.getManifold().rawSize(n, parameters);
  if (failed(verifyCompatibleShape({expected}, {raw.getDimSize(1)})))
    return error() << "expected raw of " << expected << " numbers a token for "
                   << attr.getName() << " with " << n << " streams, got "
                   << raw.getDimSize(1);
  return success();
}

static RankedTensorType mixerType(RankedTensorType raw, int64_t n) {
  return RankedTensorType::get({raw.getDimSize(0), n, n}, raw.getElementType());
}

LogicalResult ProjectOp::inferReturnTypes(MLIRContext *,
                                          std::optional<Location> location,
                                          Adaptor adaptor,
                                          SmallVectorImpl<Type> &types) {
  auto raw = dyn_cast<RankedTensorType>(adaptor.getRaw().getType());
  if (!raw || raw.getRank() != 2)
    return emitOptionalError(location, "expected raw of shape [N, K], got ",
                             adaptor.getRaw().getType());
  types.push_back(mixerType(raw, adaptor.getStreams()));
  return success();
}

LogicalResult ProjectOp::verify() {
  return verifyRaw(*this, getManifold(), getStreams(), getRaw().getType());
}

LogicalResult ProjectOp::buildVjp(OpBuilder &builder, ValueRange cotangents,
                                  const llvm::BitVector &,
                                  MutableArrayRef<Value> gradients) {
  gradients[0] =
      ProjectVjpOp::create(builder, getLoc(), getRaw().getType(), getRaw(),
                           cotangents[0], getManifoldAttr(), getStreamsAttr());
  return success();
}

LogicalResult ProjectVjpOp::verify() {
  if (failed(verifyRaw(*this, getManifold(), getStreams(), getRaw().getType())))
    return failure();
  RankedTensorType expected = mixerType(getRaw().getType(), getStreams());
  if (getDmixer().getType() != expected)
    return emitOpError("expected dmixer of type ")
           << expected << ", got " << getDmixer().getType();
  return success();
}
