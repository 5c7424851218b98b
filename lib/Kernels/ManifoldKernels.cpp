// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

/// Sees [N, a, b] as [N, a·b].
static Value flattened(KernelBuilder &k, Value memref) {
  return memref::CollapseShapeOp::create(
      k.builder, k.loc, memref, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

void ProjectOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                           ValueRange outputs) {
  int64_t n = getStreams();
  const Manifold &manifold = getManifold().getManifold();
  ManifoldParameters parameters = getManifold().getValues();
  int64_t size = manifold.rawSize(n, parameters);
  Value raw = inputs[0], mixer = flattened(k, outputs[0]);
  k.tokens(k.dim(raw, 0), [&](Tokens tokens) {
    SmallMath m(k, std::max(n * n, size));
    SmallMatrix h =
        manifold.emit(m, n, parameters, m.load(tokens, raw, size, 1));
    m.store(tokens, h, mixer);
  });
}

void ProjectVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  int64_t n = getStreams();
  const Manifold &manifold = getManifold().getManifold();
  ManifoldParameters parameters = getManifold().getValues();
  int64_t size = manifold.rawSize(n, parameters);
  Value raw = inputs[0], dmixer = flattened(k, inputs[1]);
  k.tokens(k.dim(raw, 0), [&](Tokens tokens) {
    SmallMath m(k, std::max(n * n, size));
    SmallMatrix gradient =
        manifold.emitVjp(m, n, parameters, m.load(tokens, raw, size, 1),
                         m.load(tokens, dmixer, n, n));
    m.store(tokens, gradient, outputs[0]);
  });
}
