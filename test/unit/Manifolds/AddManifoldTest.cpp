// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The example of docs/adding-a-manifold.md, built and run.
#include "../Target/RunModule.h"
#include "jpmhc/Manifolds/Manifold.h"
#include <cmath>

using namespace jpmhc;

namespace jpmhc {
std::unique_ptr<Manifold> createAveraging();
}

TEST(AddManifold, IsServedEverywhere) {
  ASSERT_TRUE(ManifoldRegistry::add(createAveraging()));
  EXPECT_FALSE(ManifoldRegistry::add(createAveraging())) << "the name is taken";
  const int64_t tokens = 21, n = 3;
  test::Array raw(tokens), dH(tokens * n * n);
  for (int64_t t = 0; t < tokens; ++t)
    raw[t] = 0.3f * (t - 10);
  for (size_t i = 0; i < dH.size(); ++i)
    dH[i] = std::sin(1.0 + i);
  auto results = test::runModule(R"mlir(
    func.func @f(%raw: tensor<21x1xf32>, %dH: tensor<21x3x3xf32>) -> (tensor<21x3x3xf32>, tensor<21x1xf32>) {
      %h = jpmhc.project %raw <"averaging"> streams 3
        : tensor<21x1xf32> -> tensor<21x3x3xf32>
      %g = jpmhc.project_vjp %raw, %dH <"averaging"> streams 3
        : tensor<21x1xf32>, tensor<21x3x3xf32> -> tensor<21x1xf32>
      return %h, %g : tensor<21x3x3xf32>, tensor<21x1xf32>
    })mlir",
                                 {raw, dH});
  ASSERT_EQ(results.size(), 2u);
  auto at = [&](double x, int64_t i, int64_t j) {
    double a = 1 / (1 + std::exp(-x));
    return (i == j ? 1 - a : 0) + a / n;
  };
  for (int64_t t = 0; t < tokens; ++t) {
    double gradient = 0, step = 1e-4;
    for (int64_t i = 0; i < n; ++i)
      for (int64_t j = 0; j < n; ++j) {
        size_t e = (t * n + i) * n + j;
        EXPECT_NEAR(results[0][e], at(raw[t], i, j), 1e-6);
        gradient += dH[e] *
                    (at(raw[t] + step, i, j) - at(raw[t] - step, i, j)) /
                    (2 * step);
      }
    EXPECT_NEAR(results[1][t], gradient, 2e-6);
  }
}
