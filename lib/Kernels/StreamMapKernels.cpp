// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a token's logits to its read vector, write vector and mixer.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
/// What forward and backward share: the groups of a token's logits and the
/// affine map on each.
class Maps {
public:
  template <typename Op>
  Maps(KernelBuilder &k, Op op, Value z, Value alpha, Value bias)
      : k(k), kind(op.getReadWrite()), n(op.getStreams()),
        tau(op.getTau().convertToDouble()),
        postScale(op.getPostScale().convertToDouble()),
        manifold(op.getManifold().getManifold()),
        parameters(op.getManifold().getValues()), z(z), alpha(alpha),
        bias(bias) {
    int64_t pair = kind == ReadWriteKind::softmax ? n * n : n;
    int64_t raw = manifold.rawSize(n, parameters);
    offsets[0] = 0;
    offsets[1] = pair;
    offsets[2] = 2 * pair;
    offsets[3] = 2 * pair + raw;
  }

  SmallMath math() const { return SmallMath(k, std::max(n * n, size(2))); }
  int64_t size(int64_t group) const {
    return offsets[group + 1] - offsets[group];
  }

  /// α z + b of one group.
  SmallMatrix logits(SmallMath &m, Tokens tokens, int64_t group) const {
    SmallMatrix values = m.load(tokens, z, size(group), 1, offsets[group]);
    Val factor = alpha ? k.load(alpha, {k.index(group)}) : Val();
    if (alpha || bias)
      m.forEach(size(group), [&](Pos e) {
        Val value = alpha ? values(e) * factor : values(e);
        if (bias)
          value = value + k.load(bias, {(e + offsets[group]).getIndex(k)});
        values.set(e, value);
      });
    return values;
  }

  /// Softmax of z / τ over rows (post: over columns) of an n×n group.
  SmallMatrix softmax(SmallMath &m, const SmallMatrix &z,
                      bool overColumns) const {
    auto at = [&](Pos line, Pos e) {
      return overColumns ? e * n + line : line * n + e;
    };
    SmallMatrix p = m.matrix(n, n);
    m.forEach(n, [&](Pos line) {
      Val largest = m.maximum(n, [&](Pos e) { return z(at(line, e)); });
      m.forEach(n, [&](Pos e) {
        p.set(at(line, e), exp((z(at(line, e)) - largest) * (1 / tau)));
      });
      Val inverse = 1.0 / m.sum(n, [&](Pos e) { return p(at(line, e)); });
      m.forEach(n,
                [&](Pos e) { p.set(at(line, e), p(at(line, e)) * inverse); });
    });
    return p;
  }

  /// Gradient of `softmax` for a gradient of its result.
  SmallMatrix softmaxVjp(SmallMath &m, const SmallMatrix &p, bool overColumns,
                         function_ref<Val(Pos i, Pos j)> dP) const {
    SmallMatrix g = m.vector(n * n);
    m.forEach(n, [&](Pos line) {
      auto row = [&](Pos e) { return overColumns ? e : line; };
      auto column = [&](Pos e) { return overColumns ? line : e; };
      Val mean = m.sum(n, [&](Pos e) {
        return p(row(e), column(e)) * dP(row(e), column(e));
      });
      m.forEach(n, [&](Pos e) {
        Val centred = dP(row(e), column(e)) - mean;
        g.set(row(e) * n + column(e),
              p(row(e), column(e)) * centred * (1 / tau));
      });
    });
    return g;
  }

  SmallMatrix read(SmallMath &m, const SmallMatrix &pre) const {
    if (kind == ReadWriteKind::sigmoid)
      return m.vector(n, [&](Pos j) { return sigmoid(pre(j)); });
    SmallMatrix p = softmax(m, pre, /*overColumns=*/false);
    return m.vector(n, [&](Pos j) {
      return m.sum(n, [&](Pos i) { return p(i, j); }) * (1.0 / n);
    });
  }

  SmallMatrix write(SmallMath &m, const SmallMatrix &post) const {
    if (kind == ReadWriteKind::sigmoid)
      return m.vector(n, [&](Pos j) { return sigmoid(post(j)) * postScale; });
    SmallMatrix p = softmax(m, post, /*overColumns=*/true);
    return m.vector(
        n, [&](Pos i) { return m.sum(n, [&](Pos j) { return p(i, j); }); });
  }

  SmallMatrix readVjp(SmallMath &m, const SmallMatrix &pre,
                      const SmallMatrix &dRead) const {
    if (kind == ReadWriteKind::sigmoid)
      return sigmoidVjp(m, pre, dRead, 1);
    SmallMatrix p = softmax(m, pre, /*overColumns=*/false);
    return softmaxVjp(m, p, /*overColumns=*/false,
                      [&](Pos, Pos j) { return dRead(j) * (1.0 / n); });
  }

  SmallMatrix writeVjp(SmallMath &m, const SmallMatrix &post,
                       const SmallMatrix &dWrite) const {
    if (kind == ReadWriteKind::sigmoid)
      return sigmoidVjp(m, post, dWrite, postScale);
    SmallMatrix p = softmax(m, post, /*overColumns=*/true);
    return softmaxVjp(m, p, /*overColumns=*/true,
                      [&](Pos i, Pos) { return dWrite(i); });
  }

  SmallMatrix sigmoidVjp(SmallMath &m, const SmallMatrix &z,
                         const SmallMatrix &d, double factor) const {
    return m.vector(n, [&](Pos j) {
      Val s = sigmoid(z(j));
      return d(j) * s * (1.0 - s) * factor;
    });
  }

  KernelBuilder &k;
  ReadWriteKind kind;
  int64_t n;
  double tau, postScale;
  const Manifold &manifold;
  ManifoldParameters parameters;
  Value z, alpha, bias;
  int64_t offsets[4];
};
} // namespace

/// Sees [N, n, n] as [N, n·n].
static Value flattened(KernelBuilder &k, Value memref) {
  return memref::CollapseShapeOp::create(
      k.builder, k.loc, memref, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

void StreamMapsOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  Adaptor in(inputs, *this);
  Maps maps(k, *this, in.getZ(), in.getAlpha(), in.getBias());
  Value mixer = flattened(k, outputs[2]);
  k.tokens(k.dim(maps.z, 0), [&](Tokens tokens) {
    SmallMath m = maps.math();
    m.store(tokens, maps.read(m, maps.logits(m, tokens, 0)), outputs[0]);
    m.store(tokens, maps.write(m, maps.logits(m, tokens, 1)), outputs[1]);
    m.store(tokens,
            maps.manifold.emit(m, maps.n, maps.parameters,
                               maps.logits(m, tokens, 2)),
            mixer);
  });
}

namespace {
/// Sums of the tokens' gradients over tokens: those of bias and alpha.
class MapsParameterGradient {
public:
  MapsParameterGradient(Maps &maps, Value g, Value dAlpha, Value dBias)
      : k(maps.k), maps(maps), g(g), dAlpha(dAlpha), dBias(dBias) {}

  void emit() {
    int64_t m = maps.offsets[3];
    Val size = k.index(m);
    sums = k.temporary({kPartials, m});
    weighted = dAlpha ? k.temporary({kPartials, m}) : Value();
    k.rowChunks(k.dim(g, 0), kPartials, [&](Val chunk, Val lower, Val upper) {
      k.columns(size, [&](Val e) {
        k.store(k.f32(0), sums, {chunk, e});
        if (weighted)
          k.store(k.f32(0), weighted, {chunk, e});
      });
      k.loop(lower, upper, [&](Val row) {
        k.columns(size, [&](Val e) {
          Val value = k.load(g, {row, e});
          k.accumulate(value, sums, {chunk, e});
          if (weighted)
            k.accumulate(value * k.load(maps.z, {row, e}), weighted,
                         {chunk, e});
        });
      });
    });
    if (dBias)
      k.rows(size, [&](Val e) { k.store(total(sums, e), dBias, {e}); });
    if (dAlpha)
      k.rows(k.index(1), [&](Val) {
        for (int64_t group = 0; group < 3; ++group) {
          Val lower = k.index(maps.offsets[group]);
          Val sum =
              k.loop(lower, k.index(maps.offsets[group + 1]), k.index(1),
                     {k.f32(0)}, [&](Val e, ArrayRef<Val> carried) {
                       return SmallVector<Val>{carried[0] + total(weighted, e)};
                     })[0];
          k.store(sum, dAlpha, {k.index(group)});
        }
      });
  }

private:
  Val total(Value parts, Val e) {
    return k.sumInOrder(k.f32(0), k.index(kPartials),
                        [&](Val p) { return k.load(parts, {p, e}); });
  }

  KernelBuilder &k;
  Maps &maps;
  Value g, dAlpha, dBias, sums, weighted;
};
} // namespace

void StreamMapsVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                 ValueRange outputs) {
  Adaptor in(inputs, *this);
  Maps maps(k, *this, in.getZ(), in.getAlpha(), in.getBias());
  Value dmixer = flattened(k, in.getDmixer()), dz = outputs[0];
  ValueRange rest = outputs.drop_front();
  Value dAlpha = maps.alpha ? rest.front() : Value();
  Value dBias = maps.bias ? rest.back() : Value();
  int64_t rows = cast<MemRefType>(dz.getType()).getDimSize(0);
  // Gradients after the affine map; the same as dz without alpha.
  Value g = maps.alpha ? k.temporary({rows, maps.offsets[3]}) : dz;
  k.tokens(k.dim(maps.z, 0), [&](Tokens tokens) {
    SmallMath m = maps.math();
    auto storeGroup = [&](int64_t group, SmallMatrix d) {
      m.store(tokens, d, g, maps.offsets[group]);
      if (!maps.alpha)
        return;
      Val factor = k.load(maps.alpha, {k.index(group)});
      m.forEach(maps.size(group), [&](Pos e) { d.set(e, d(e) * factor); });
      m.store(tokens, d, dz, maps.offsets[group]);
    };
    auto loaded = [&](Value d, int64_t size) {
      return m.load(tokens, d, size, 1);
    };
    storeGroup(0, maps.readVjp(m, maps.logits(m, tokens, 0),
                               loaded(in.getDread(), maps.n)));
    storeGroup(1, maps.writeVjp(m, maps.logits(m, tokens, 1),
                                loaded(in.getDwrite(), maps.n)));
    storeGroup(2, maps.manifold.emitVjp(
                      m, maps.n, maps.parameters, maps.logits(m, tokens, 2),
                      loaded(dmixer, maps.n * maps.n).shaped(maps.n, maps.n)));
  });
  if (dAlpha || dBias)
    MapsParameterGradient(maps, g, dAlpha, dBias).emit();
}
