// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Kernels/SmallMatrix.h"
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

namespace {
class Identity : public Manifold {
public:
  StringRef name() const override { return "identity"; }
  StringRef doc() const override {
    return "H = I, the plain residual path: no raw numbers.";
  }
  int64_t rawSize(int64_t, const ManifoldParameters &) const override {
    return 0;
  }
  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &,
                   const SmallMatrix &) const override {
    return m.matrix(n, n, [&](Pos i, Pos j) { return m.delta(i, j); });
  }
  SmallMatrix emitVjp(SmallMath &m, int64_t, const ManifoldParameters &,
                      const SmallMatrix &, const SmallMatrix &) const override {
    return m.vector(0);
  }
  ManifoldCost cost(int64_t, const ManifoldParameters &) const override {
    return {};
  }
  std::vector<double> initialBias(int64_t,
                                  const ManifoldParameters &) const override {
    return {};
  }
};
} // namespace

namespace jpmhc {
std::unique_ptr<Manifold> createIdentity() {
  return std::make_unique<Identity>();
}
} // namespace jpmhc
