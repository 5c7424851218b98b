// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The Cayley transform of B = (α/2)(X − Xᵀ): Y = (I − B)⁻¹ (I + B), exact or by
// the iteration Y₀ = I + 2B, Y ← I + B (I + Y).
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
class Stiefel : public Manifold {
public:
  StringRef name() const override { return "stiefel"; }
  StringRef doc() const override {
    return "Orthogonal matrices by the Cayley transform of the skew part of "
           "the raw numbers: `steps` iterations (orthogonal to 1e-3 while the "
           "skew part's norm is under 2.5), or the exact transform.";
  }
  std::vector<ManifoldParameter> parameters() const override {
    return {ManifoldParameter::positive("cayley_alpha", "step of the transform",
                                        0.1),
            ManifoldParameter::integer("steps", "iterations unless exact", 0,
                                       64, 2),
            ManifoldParameter::flag(
                "exact", "closed form (n ≤ 4) or a solve instead of iterations",
                false)};
  }
  int64_t rawSize(int64_t n, const ManifoldParameters &) const override {
    return n * n;
  }

  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &p,
                   const SmallMatrix &raw) const override {
    SmallMatrix b = skew(m, n, p, raw);
    if (!p.flag("exact"))
      return iterate(m, n, b, p.integer("steps"), nullptr);
    return n <= 4 ? closedForm(m, n, b) : solved(m, n, b);
  }

  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &p,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    SmallMatrix dB = p.flag("exact") ? exactVjp(m, n, emit(m, n, p, raw), dH)
                                     : iterationVjp(m, n, skew(m, n, p, raw),
                                                    p.integer("steps"), dH);
    double half = p.number("cayley_alpha") / 2;
    return m
        .matrix(n, n,
                [&](Pos i, Pos j) { return (dB(i, j) - dB(j, i)) * half; })
        .shaped(n * n, 1);
  }

  ManifoldCost cost(int64_t n, const ManifoldParameters &p) const override {
    if (!p.flag("exact"))
      return {p.integer("steps") * (2 * n * n * n + 2 * n * n), 0};
    return {n <= 4 ? n * n * (2 * n + 14) // B² and what an entry is made of
                   : 8 * n * n * n / 3 + 4 * n * n, // elimination
            0};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &) const override {
    return std::vector<double>(n * n);
  }

private:
  static SmallMatrix skew(SmallMath &m, int64_t n, const ManifoldParameters &p,
                          const SmallMatrix &raw) {
    double half = p.number("cayley_alpha") / 2;
    return m.matrix(n, n, [&](Pos i, Pos j) {
      return (raw(i * n + j) - raw(j * n + i)) * half;
    });
  }

  /// `history`, if given, gets the iterate before each step.
  static SmallMatrix iterate(SmallMath &m, int64_t n, const SmallMatrix &b,
                             int64_t steps, SmallMatrix *history) {
    SmallMatrix y = m.matrix(
        n, n, [&](Pos i, Pos j) { return m.delta(i, j) + b(i, j) * 2.0; });
    m.repeat(steps, {&y}, [&](Pos step) {
      if (history)
        m.forEach(n * n, [&](Pos e) { history->set(step, e, y(e)); });
      SmallMatrix next = m.matrix(n, n, [&](Pos i, Pos j) {
        return m.delta(i, j) + b(i, j) +
               m.sum(n, [&](Pos k) { return b(i, k) * y(k, j); });
      });
      m.forEach(n * n, [&](Pos e) { y.set(e, next(e)); });
    });
    return y;
  }

  /// B̄ += Ȳ (I + Y)ᵀ and Ȳ ← Bᵀ Ȳ, step by step; B̄ += 2 Ȳ at the start.
  static SmallMatrix iterationVjp(SmallMath &m, int64_t n, const SmallMatrix &b,
                                  int64_t steps, const SmallMatrix &dH) {
    SmallMatrix history = m.history(steps, n * n);
    iterate(m, n, b, steps, &history);
    SmallMatrix dY = m.matrix(n, n, [&](Pos i, Pos j) { return dH(i, j); });
    SmallMatrix dB = m.matrix(n, n, [&](Pos, Pos) { return m.number(0); });
    m.repeat(steps, {&dY, &dB}, [&](Pos done) {
      Pos step = Pos(steps - 1) - done;
      m.forEach(n, n, [&](Pos i, Pos j) {
        dB.add(i, j, dY(i, j) + m.sum(n, [&](Pos k) {
          return dY(i, k) * history(step, j * n + k);
        }));
      });
      SmallMatrix next = m.matrix(n, n, [&](Pos i, Pos j) {
        return m.sum(n, [&](Pos k) { return b(k, i) * dY(k, j); });
      });
      m.forEach(n * n, [&](Pos e) { dY.set(e, next(e)); });
    });
    m.forEach(n, n, [&](Pos i, Pos j) { dB.add(i, j, dY(i, j) * 2.0); });
    return dB;
  }

  /// B̄ = ½ (I + Y)ᵀ Ȳ (I + Y)ᵀ.
  static SmallMatrix exactVjp(SmallMath &m, int64_t n, SmallMatrix y,
                              const SmallMatrix &dH) {
    m.forEach(n, [&](Pos i) { y.add(i, i, m.number(1)); });
    SmallMatrix right = m.matrix(n, n, [&](Pos i, Pos j) {
      return m.sum(n, [&](Pos k) { return dH(i, k) * y(j, k); });
    });
    return m.matrix(n, n, [&](Pos i, Pos j) {
      return m.sum(n, [&](Pos k) { return y(k, i) * right(k, j); }) * 0.5;
    });
  }

  /// With a = Σ b², p the Pfaffian and B* the dual of B (both zero for n < 4):
  /// Y = ((1 + a − p²) I + 2 (B + p B*) + 2 B²) / (1 + a + p²). Everything is
  /// divided by powers of s = max(1, max |b|), so that nothing overflows.
  static SmallMatrix closedForm(SmallMath &m, int64_t n, SmallMatrix &b) {
    Val s = m.maximum(n * n, [&](Pos e) { return abs(b(e)); });
    Val t = 1.0 / max(s, m.number(1)), tt = t * t;
    m.forEach(n * n, [&](Pos e) { b.set(e, b(e) * t); });
    Val a = m.sum(n * n, [&](Pos e) { return b(e) * b(e); }) * 0.5;
    Val p = n < 4 ? m.number(0)
                  : b(0, 1) * b(2, 3) - b(0, 2) * b(1, 3) + b(0, 3) * b(1, 2);
    Val first = (tt + a) * tt, second = p * p;
    Val inverse = 1.0 / (first + second);
    return m.matrix(n, n, [&](Pos i, Pos j) {
      Val square = m.sum(n, [&](Pos k) { return b(i, k) * b(k, j); });
      Val odd = b(i, j) * tt;
      if (n == 4 && i.getNumber() != j.getNumber())
        odd = odd + p * dualEntry(b, i.getNumber(), j.getNumber());
      Val entry = (odd * t + square * tt) * 2.0;
      if (i.getNumber() == j.getNumber())
        entry = first - second + square * tt * 2.0;
      return entry * inverse;
    });
  }

  /// B*: the entry of the complementary pair of rows, signed like the pair in
  /// the Pfaffian.
  static Val dualEntry(const SmallMatrix &b, int64_t i, int64_t j) {
    int64_t lower = std::min(i, j), upper = std::max(i, j);
    int64_t k = 0, l = 3; // the other two rows, k < l
    while (k == lower || k == upper)
      ++k;
    while (l == lower || l == upper)
      --l;
    bool negative = ((lower + upper) % 2 == 0) != (i > j);
    return negative ? -b(k, l) : b(k, l);
  }

  static SmallMatrix solved(SmallMath &m, int64_t n, const SmallMatrix &b) {
    SmallMatrix left =
        m.matrix(n, n, [&](Pos i, Pos j) { return m.delta(i, j) - b(i, j); });
    SmallMatrix right =
        m.matrix(n, n, [&](Pos i, Pos j) { return m.delta(i, j) + b(i, j); });
    m.solve(left, right);
    return right;
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createStiefel() {
  return std::make_unique<Stiefel>();
}
} // namespace jpmhc
