// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunModule.h"
#include <cmath>
#include <random>

using jpmhc::test::Array;
using jpmhc::test::runModule;

static Array normal(size_t n, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw;
  Array a(n);
  for (float &x : a)
    x = draw(engine);
  return a;
}

// Norm, element-wise arithmetic and a product: two kernels, one of them fused,
// and a library call.
TEST(CompileForCPU, NormAddProduct) {
  const int n = 5, d = 7, m = 3;
  Array x = normal(n * d, 1), g = normal(d, 2), w = normal(m * d, 3);
  auto results = runModule(R"mlir(
    func.func @f(%x: tensor<5x7xf32>, %g: tensor<7xf32>, %w: tensor<3x7xf32>) -> tensor<5x3xf32> {
      %y = jpmhc.rms_norm %x gain(%g) : (tensor<5x7xf32>, tensor<7xf32>) -> tensor<5x7xf32>
      %z = arith.addf %y, %x : tensor<5x7xf32>
      %e = tensor.empty() : tensor<5x3xf32>
      %c = arith.constant 0.0 : f32
      %i = linalg.fill ins(%c : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
      %r = linalg.contract indexing_maps = [affine_map<(m,n,k)->(m,k)>, affine_map<(m,n,k)->(n,k)>,
                                            affine_map<(m,n,k)->(m,n)>]
        ins(%z, %w : tensor<5x7xf32>, tensor<3x7xf32>) outs(%i : tensor<5x3xf32>) -> tensor<5x3xf32>
      return %r : tensor<5x3xf32>
    })mlir",
                           {x, g, w});
  ASSERT_EQ(results.size(), 1u);
  for (int i = 0; i < n; ++i) {
    double square = 0;
    for (int c = 0; c < d; ++c)
      square += double(x[i * d + c]) * x[i * d + c];
    double r = 1 / std::sqrt(square / d + 1e-5);
    for (int j = 0; j < m; ++j) {
      double want = 0;
      for (int c = 0; c < d; ++c)
        want += (x[i * d + c] * r * g[c] + x[i * d + c]) * w[j * d + c];
      EXPECT_NEAR(results[0][i * m + j], want, 1e-5);
    }
  }
}

// The same product without a library: every reduction form of the loop nests.
TEST(CompileForCPU, Reductions) {
  Array x = normal(40 * 6, 4);
  auto results = runModule(R"mlir(
    #row = affine_map<(t, c) -> (t)>
    #col = affine_map<(t, c) -> (c)>
    #all = affine_map<(t, c) -> (t, c)>
    func.func @f(%x: tensor<40x6xf32>) -> (tensor<40xf32>, tensor<6xf32>) {
      %zero = arith.constant 0.0 : f32
      %er = tensor.empty() : tensor<40xf32>
      %ir = linalg.fill ins(%zero : f32) outs(%er : tensor<40xf32>) -> tensor<40xf32>
      %rows = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
        ins(%x : tensor<40x6xf32>) outs(%ir : tensor<40xf32>) {
        ^bb0(%a: f32, %acc: f32):
          %s = arith.addf %acc, %a : f32
          linalg.yield %s : f32
      } -> tensor<40xf32>
      %ec = tensor.empty() : tensor<6xf32>
      %ic = linalg.fill ins(%zero : f32) outs(%ec : tensor<6xf32>) -> tensor<6xf32>
      %cols = linalg.generic {indexing_maps = [#all, #col], iterator_types = ["reduction", "parallel"]}
        ins(%x : tensor<40x6xf32>) outs(%ic : tensor<6xf32>) {
        ^bb0(%a: f32, %acc: f32):
          %s = arith.addf %acc, %a : f32
          linalg.yield %s : f32
      } -> tensor<6xf32>
      return %rows, %cols : tensor<40xf32>, tensor<6xf32>
    })mlir",
                           {x});
  ASSERT_EQ(results.size(), 2u);
  std::vector<double> rows(40), cols(6);
  for (int t = 0; t < 40; ++t)
    for (int c = 0; c < 6; ++c) {
      rows[t] += x[t * 6 + c];
      cols[c] += x[t * 6 + c];
    }
  for (int t = 0; t < 40; ++t)
    EXPECT_NEAR(results[0][t], rows[t], 1e-5);
  for (int c = 0; c < 6; ++c)
    EXPECT_NEAR(results[1][c], cols[c], 2e-5);
}
