// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One number a token decides how far the streams are averaged:
// H = (1 - a) I + a J/n with a = sigmoid(raw), J all ones.
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
class Averaging : public Manifold {
public:
  StringRef name() const override { return "averaging"; }
  StringRef doc() const override {
    return "Between identity and mean: H = (1 - a) I + a J/n, a = "
           "sigmoid(raw).";
  }
  int64_t rawSize(int64_t, const ManifoldParameters &) const override {
    return 1;
  }
  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &,
                   const SmallMatrix &raw) const override {
    Val a = sigmoid(raw(0)), off = a / double(n);
    return m.matrix(n, n, [&](Pos i, Pos j) {
      return m.selectEqual(i, j, 1.0 - a + off, off);
    });
  }
  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    Val a = sigmoid(raw(0));
    Val total = m.sum(n * n, [&](Pos e) { return dH(e); });
    Val trace = m.sum(n, [&](Pos i) { return dH(i, i); });
    Val gradient = a * (1.0 - a) * (total / double(n) - trace);
    return m.vector(1, [&](Pos) { return gradient; });
  }
  ManifoldCost cost(int64_t n, const ManifoldParameters &) const override {
    return {/*flops=*/n * n + 4, /*transcendentals=*/1};
  }
  std::vector<double> initialBias(int64_t,
                                  const ManifoldParameters &) const override {
    return {-4}; // a = 0.018: close to the identity, and still moved by its
                 // gradient
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createAveraging() {
  return std::make_unique<Averaging>();
}
} // namespace jpmhc
