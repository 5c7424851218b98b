// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// H = V (VᵀV)⁻¹ Vᵀ = Q Qᵀ with V = Q R, by Gram-Schmidt with every column
// orthogonalised twice: a projector to rounding even where VᵀV is close to
// singular.
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
class Grassmann : public Manifold {
public:
  StringRef name() const override { return "grassmann"; }
  StringRef doc() const override {
    return "Orthogonal projectors of rank r: H = V (VᵀV)⁻¹ Vᵀ of the raw "
           "numbers V (n×r, of full column rank). Never the identity.";
  }
  std::vector<ManifoldParameter> parameters() const override {
    return {ManifoldParameter::integer("rank", "r; half of n when left out", 1,
                                       ManifoldRegistry::kMaxStreams,
                                       std::nullopt)};
  }
  LogicalResult verifyStreams(EmitError emitError, int64_t n,
                              const ManifoldParameters &p) const override {
    if (n < 2)
      return emitError() << "expected 2 or more streams for grassmann, got "
                         << n;
    if (rank(n, p) > n)
      return emitError() << "expected rank of grassmann to be at most " << n
                         << " for " << n << " streams, got " << rank(n, p);
    return success();
  }
  int64_t rawSize(int64_t n, const ManifoldParameters &p) const override {
    return n * rank(n, p);
  }

  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &p,
                   const SmallMatrix &raw) const override {
    Factors f = factor(m, n, rank(n, p), raw);
    return projector(m, f);
  }

  // With X = Q R⁻ᵀ: V̄ = (I − H)(H̄ + H̄ᵀ) X.
  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &p,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    int64_t r = rank(n, p);
    Factors f = factor(m, n, r, raw);
    SmallMatrix pulled = m.matrix(n, r, [&](Pos i, Pos j) {
      return m.sum(n, [&](Pos k) { return (dH(i, k) + dH(k, i)) * f.q(k, j); });
    });
    SmallMatrix within = m.matrix(r, r, [&](Pos i, Pos j) {
      return m.sum(n, [&](Pos k) { return f.q(k, i) * pulled(k, j); });
    });
    SmallMatrix dV = m.matrix(n, r, [&](Pos i, Pos j) {
      return pulled(i, j) -
             m.sum(r, [&](Pos k) { return f.q(i, k) * within(k, j); });
    });
    m.forEach(r, [&](Pos done) { // dV R⁻ᵀ, last column first
      Pos j = Pos(r - 1) - done;
      Val inverse = 1.0 / f.r(j, j);
      m.forEach(n, [&](Pos i) {
        Val later =
            m.sum(j + 1, r, [&](Pos k) { return dV(i, k) * f.r(j, k); });
        dV.set(i, j, (dV(i, j) - later) * inverse);
      });
    });
    return std::move(dV).shaped(n * r, 1);
  }

  ManifoldCost cost(int64_t n, const ManifoldParameters &p) const override {
    int64_t r = rank(n, p);
    return {4 * n * r * r + 2 * n * n * r, 0};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &p) const override {
    int64_t r = rank(n, p);
    std::vector<double> bias(n * r);
    for (int64_t i = 0; i < r; ++i)
      bias[i * r + i] = 1;
    return bias;
  }
  bool startsAsIdentity() const override { return false; }

private:
  struct Factors {
    SmallMatrix q, r;
  };

  static int64_t rank(int64_t n, const ManifoldParameters &p) {
    return p.has("rank") ? p.integer("rank") : n / 2;
  }

  static Factors factor(SmallMath &m, int64_t n, int64_t rank,
                        const SmallMatrix &raw) {
    SmallMatrix q =
        m.matrix(n, rank, [&](Pos i, Pos j) { return raw(i * rank + j); });
    SmallMatrix r = m.matrix(rank, rank, [&](Pos, Pos) { return m.number(0); });
    m.forEach(rank, [&](Pos j) {
      for (int pass = 0; pass < 2; ++pass)
        m.forEach(0, j, [&](Pos k) {
          Val along = m.sum(n, [&](Pos i) { return q(i, k) * q(i, j); });
          r.add(k, j, along);
          m.forEach(n, [&](Pos i) { q.add(i, j, -(along * q(i, k))); });
        });
      Val length = sqrt(m.sum(n, [&](Pos i) { return q(i, j) * q(i, j); }));
      r.set(j, j, length);
      Val inverse = 1.0 / length;
      m.forEach(n, [&](Pos i) { q.set(i, j, q(i, j) * inverse); });
    });
    return {std::move(q), std::move(r)};
  }

  static SmallMatrix projector(SmallMath &m, const Factors &f) {
    int64_t n = f.q.rows();
    return m.matrix(n, n, [&](Pos i, Pos j) {
      return m.sum(f.q.cols(), [&](Pos k) { return f.q(i, k) * f.q(j, k); });
    });
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createGrassmann() {
  return std::make_unique<Grassmann>();
}
} // namespace jpmhc
