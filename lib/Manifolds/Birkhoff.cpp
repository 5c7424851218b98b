// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sinkhorn's iteration in scaling form: with E = exp(u), H = diag(r) E diag(c)
// and a round is r = 1 / (E c), c = 1 / (Eᵀ r). The same map as subtracting
// log-sum-exps, with exponentials only at the start.
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
constexpr double kClamp = 10;

class Birkhoff : public Manifold {
public:
  StringRef name() const override { return "birkhoff"; }
  StringRef doc() const override {
    return "Doubly stochastic matrices by Sinkhorn's iteration: raw logits are "
           "clamped to ±10, then `rounds` times rows and columns of exp(raw) "
           "are normalised.";
  }
  std::vector<ManifoldParameter> parameters() const override {
    return {ManifoldParameter::integer(
                "rounds", "row and column normalisations", 1, 512, 20),
            ManifoldParameter::choice(
                "backward", "the exact gradient of the rounds that ran",
                {"exact"})};
  }
  int64_t rawSize(int64_t n, const ManifoldParameters &) const override {
    return n * n;
  }

  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &p,
                   const SmallMatrix &raw) const override {
    SmallMatrix e = exponentials(m, n, raw);
    SmallMatrix r = ones(m, n), c = ones(m, n);
    m.repeat(p.integer("rounds"), {&r, &c},
             [&](Pos) { normalise(m, n, e, r, c); });
    return m.matrix(n, n, [&](Pos i, Pos j) { return r(i) * e(i, j) * c(j); });
  }

  // Reverse through the rounds, from stored potentials. With ρ = log r,
  // γ = log c and bars for gradients, a round gives
  //   ρ̄ᵢ −= rᵢ Σⱼ Eᵢⱼ cⱼ γ̄ⱼ,  γ̄'ⱼ = −c'ⱼ Σᵢ Eᵢⱼ rᵢ ρ̄ᵢ   (c' before the round)
  // and the gradient of log E loses E ⊙ (r (c γ̄)ᵀ + (r ρ̄) c'ᵀ).
  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &p,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    int64_t rounds = p.integer("rounds");
    SmallMatrix e = exponentials(m, n, raw);
    SmallMatrix r = ones(m, n), c = ones(m, n);
    SmallMatrix allR = m.history(rounds, n), allC = m.history(rounds, n);
    m.repeat(rounds, {&r, &c}, [&](Pos round) {
      m.forEach(n, [&](Pos j) { allC.set(round, j, c(j)); });
      normalise(m, n, e, r, c);
      m.forEach(n, [&](Pos i) { allR.set(round, i, r(i)); });
    });

    SmallMatrix scaled =
        m.matrix(n, n, [&](Pos i, Pos j) { return dH(i, j) * r(i) * c(j); });
    SmallMatrix dR = m.vector(n, [&](Pos i) {
      return m.sum(n, [&](Pos j) { return scaled(i, j) * e(i, j); });
    });
    SmallMatrix dC = m.vector(n, [&](Pos j) {
      return m.sum(n, [&](Pos i) { return scaled(i, j) * e(i, j); });
    });
    m.repeat(rounds, {&scaled, &dR, &dC, &c}, [&](Pos step) {
      Pos round = Pos(rounds - 1) - step;
      SmallMatrix wC = m.vector(n, [&](Pos j) { return c(j) * dC(j); });
      SmallMatrix rr = m.vector(n, [&](Pos i) { return allR(round, i); });
      SmallMatrix wR = m.vector(n, [&](Pos i) {
        Val pulled = m.sum(n, [&](Pos j) { return e(i, j) * wC(j); });
        return rr(i) * (dR(i) - rr(i) * pulled);
      });
      SmallMatrix before = m.vector(n, [&](Pos j) { return allC(round, j); });
      m.forEach(n, n, [&](Pos i, Pos j) {
        scaled.set(i, j, scaled(i, j) - (rr(i) * wC(j) + wR(i) * before(j)));
      });
      m.forEach(n, [&](Pos j) {
        Val pulled = m.sum(n, [&](Pos i) { return e(i, j) * wR(i); });
        dC.set(j, -(before(j) * pulled));
        dR.set(j, m.number(0));
        c.set(j, before(j));
      });
    });
    return m.vector(n * n, [&](Pos k) {
      Val inside = raw(k) >= m.number(-kClamp) && raw(k) <= m.number(kClamp);
      return select(inside, scaled(k) * e(k), m.number(0));
    });
  }

  ManifoldCost cost(int64_t n, const ManifoldParameters &p) const override {
    return {p.integer("rounds") * (4 * n * n + 2 * n), n * n};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &) const override {
    std::vector<double> bias(n * n);
    for (int64_t i = 0; i < n; ++i)
      bias[i * n + i] = 4;
    return bias;
  }

private:
  static SmallMatrix ones(SmallMath &m, int64_t n) {
    return m.vector(n, [&](Pos) { return m.number(1); });
  }

  /// exp of the clamped logits less their row's largest: the first row
  /// normalisation takes the shift out again.
  static SmallMatrix exponentials(SmallMath &m, int64_t n,
                                  const SmallMatrix &raw) {
    SmallMatrix e = m.matrix(n, n, [&](Pos i, Pos j) {
      return min(max(raw(i * n + j), m.number(-kClamp)), m.number(kClamp));
    });
    m.forEach(n, [&](Pos i) {
      Val largest = m.maximum(n, [&](Pos j) { return e(i, j); });
      m.forEach(n, [&](Pos j) { e.set(i, j, exp(e(i, j) - largest)); });
    });
    return e;
  }

  /// The sums lie well within the normal numbers: logits are clamped.
  static void normalise(SmallMath &m, int64_t n, const SmallMatrix &e,
                        SmallMatrix &r, SmallMatrix &c) {
    m.forEach(n, [&](Pos i) {
      r.set(i, reciprocal(m.sum(n, [&](Pos j) { return e(i, j) * c(j); })));
    });
    m.forEach(n, [&](Pos j) {
      c.set(j, reciprocal(m.sum(n, [&](Pos i) { return e(i, j) * r(i); })));
    });
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createBirkhoff() {
  return std::make_unique<Birkhoff>();
}
} // namespace jpmhc
