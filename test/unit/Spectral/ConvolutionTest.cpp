// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Spectral/Convolution.h"
#include "jpmhc/Spectral/Chain.h"
#include "jpmhc/Spectral/ScalarDyson.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace jpmhc::spectral;
using Complex = std::complex<double>;

static const Complex kPoint(.6, .1);

TEST(Convolution, LayerSolvesTheCubic) {
  double squares[] = {.25, .25, .25};
  Complex w = std::sqrt(kPoint), t, g;
  PointResults results;
  results.value = &t;
  ASSERT_TRUE(solveLayer(3, squares, 1, 1, &w, results).isOk());
  ASSERT_TRUE(solveScalarDyson(.5, 1, 1, &kPoint, &g, nullptr).isOk());
  EXPECT_LT(std::abs(t / w - g), 1e-12);
}

// Numbers as mixers: the chain and the free product are both exact.
TEST(Convolution, FreeProductIsTheChainOfNumbers) {
  double mixers[] = {1, 2, 2, .5}, sigma2[] = {.1, .2, .2, .05};
  std::unique_ptr<ChainModel> model;
  ASSERT_TRUE(ChainModel::create(1, 4, mixers, sigma2, model).isOk());
  Complex w = std::sqrt(kPoint), t, g;
  ChainResults chain;
  chain.value = &t;
  ASSERT_TRUE(solveChain(*model, 1, &w, nullptr, {}, chain).isOk());
  PointResults free;
  free.value = &g;
  ASSERT_TRUE(solveFreeProduct({{{1}, .1, 1}, {{4}, .2, 2}, {{.25}, .05, 1}}, 1,
                               &kPoint, free)
                  .isOk());
  EXPECT_LT(std::abs(t / w - g), 1e-10);
}

TEST(Convolution, BadInput) {
  Complex axis(1, 0), g;
  double square = 1, negative = -1;
  PointResults results;
  results.value = &g;
  EXPECT_FALSE(solveLayer(1, &square, .1, 1, &axis, results).isOk());
  EXPECT_FALSE(solveLayer(1, &negative, .1, 1, &kPoint, results).isOk());
  EXPECT_FALSE(solveLayer(1, &square, -.1, 1, &kPoint, results).isOk());
  EXPECT_FALSE(solveFreeProduct({}, 1, &kPoint, results).isOk());
  EXPECT_FALSE(solveFreeProduct({{{0}, 0, 1}}, 1, &kPoint, results).isOk());
}
