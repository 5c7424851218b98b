// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
class Free : public Manifold {
public:
  StringRef name() const override { return "free"; }
  StringRef doc() const override {
    return "Any matrix: H is the raw numbers in row-major order "
           "(hyper-connections without a constraint).";
  }
  int64_t rawSize(int64_t n, const ManifoldParameters &) const override {
    return n * n;
  }
  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &,
                   const SmallMatrix &raw) const override {
    return m.matrix(n, n, [&](Pos i, Pos j) { return raw(i * n + j); });
  }
  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &,
                      const SmallMatrix &,
                      const SmallMatrix &dH) const override {
    return m.vector(n * n, [&](Pos e) { return dH(e); });
  }
  ManifoldCost cost(int64_t, const ManifoldParameters &) const override {
    return {};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &) const override {
    std::vector<double> bias(n * n);
    for (int64_t i = 0; i < n; ++i)
      bias[i * n + i] = 1;
    return bias;
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createFree() { return std::make_unique<Free>(); }
} // namespace jpmhc
