// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Spectral/Chain.h"

#include "gtest/gtest.h"

#include "jpmhc/Runtime/Launch.h"

#include <cmath>

using namespace jpmhc::spectral;
using Complex = std::complex<double>;

/// A bistochastic matrix without symmetry.
static const std::vector<double> kStochastic = {.5, .5, 0,  0,  .2, .4, .3, .1,
                                                0,  0,  .7, .3, .3, .1, 0,  .6};
/// A projector of rank 2.
static const std::vector<double> kProjector = {.5, .5, 0, 0, .5, .5, 0, 0,
                                               0,  0,  1, 0, 0,  0,  0, 0};

static std::unique_ptr<ChainModel>
makeModel(int64_t q, const std::vector<std::vector<double>> &mixers,
          const std::vector<double> &sigma2) {
  std::vector<double> all;
  for (const std::vector<double> &mixer : mixers)
    all.insert(all.end(), mixer.begin(), mixer.end());
  std::unique_ptr<ChainModel> model;
  Status status =
      ChainModel::create(q, mixers.size(), all.data(), sigma2.data(), model);
  EXPECT_TRUE(status.isOk()) << status.getMessage();
  return model;
}

/// G(z) at one point, which must converge.
static Complex solveOne(const ChainModel &model, Complex z,
                        ChainMethod method = ChainMethod::Newton) {
  Complex w = std::sqrt(z), value;
  bool converged = false;
  ChainResults results;
  results.value = &value;
  results.converged = &converged;
  ChainOptions options;
  options.method = method;
  EXPECT_TRUE(solveChain(model, 1, &w, nullptr, options, results).isOk());
  EXPECT_TRUE(converged);
  return value / w;
}

// Values that Monte Carlo confirms, from an independent implementation.
TEST(Chain, Values) {
  const Complex z(.5, .05);
  for (auto [depth, g] : std::vector<std::pair<int, Complex>>{
           {1, {.419197430322, -2.162554011882}},
           {2, {1.743953568836, -.469933664886}},
           {10, {.963773813061, -.209807161351}}}) {
    auto model =
        makeModel(4, std::vector<std::vector<double>>(depth, kStochastic),
                  std::vector<double>(depth, .05 / depth));
    EXPECT_LT(std::abs(solveOne(*model, z) - g), 2e-12);
    EXPECT_LT(std::abs(solveOne(*model, z, ChainMethod::Damped) - g), 2e-9);
    EXPECT_LT(std::abs(solveOne(*model, z, ChainMethod::Anderson) - g), 2e-9);
  }
}

// Without noise J is known: here the projector itself, of rank 2.
TEST(Chain, SingularWithoutNoise) {
  auto model = makeModel(4, {kProjector, kProjector, kProjector}, {0, 0, 0});
  Complex z(.3, .2);
  EXPECT_LT(std::abs(solveOne(*model, z) - (.5 / (z - 1.0) + .5 / z)), 1e-12);
}

// The limit of weak noise is that of none, from either form of the sweep.
TEST(Chain, WeakNoise) {
  Complex z(.3, .2);
  auto none = makeModel(4, {kStochastic, kProjector, kStochastic}, {.1, 0, .2});
  auto weak =
      makeModel(4, {kStochastic, kProjector, kStochastic}, {.1, 1e-10, .2});
  auto more =
      makeModel(4, {kStochastic, kProjector, kStochastic}, {.1, 3e-6, .2});
  EXPECT_LT(std::abs(solveOne(*none, z) - solveOne(*weak, z)), 1e-8);
  EXPECT_LT(std::abs(solveOne(*none, z) - solveOne(*more, z)), 1e-4);
}

// Blocks of fixed and of dynamic size: two copies side by side.
TEST(Chain, SizesAgree) {
  std::vector<double> twice(64);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      twice[i * 8 + j] = twice[(i + 4) * 8 + j + 4] = kStochastic[i * 4 + j];
  Complex z(.6, .01);
  auto small = makeModel(4, {kStochastic, kProjector}, {.1, .2});
  std::vector<double> projectors(64);
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 4; ++j)
      projectors[i * 8 + j] = projectors[(i + 4) * 8 + j + 4] =
          kProjector[i * 4 + j];
  auto large = makeModel(8, {twice, projectors}, {.1, .2});
  EXPECT_LT(std::abs(solveOne(*small, z) - solveOne(*large, z)), 1e-11);
}

// The slope is that of the values.
TEST(Chain, Slope) {
  auto model = makeModel(4, {kStochastic, kStochastic}, {.1, .2});
  const double h = 1e-4;
  Complex w[] = {{.6, .05}, {.6 + h, .05}, {.6 - h, .05}}, value[3], slope[3];
  ChainResults results;
  results.value = value;
  results.slope = slope;
  ASSERT_TRUE(solveChain(*model, 3, w, nullptr, {}, results).isOk());
  Complex quotient = (value[1] - value[2]) / (2 * h);
  EXPECT_LT(std::abs(slope[0] - quotient), 1e-5 * std::abs(quotient));
}

// A thousand layers: the first moment is read off far from the axis.
TEST(Chain, Deep) {
  auto model = makeModel(4, std::vector<std::vector<double>>(1000, kStochastic),
                         std::vector<double>(1000, .05 / 1000));
  Complex z(0, 1e4);
  Complex g = solveOne(*model, z);
  EXPECT_NEAR((z * (z * g - 1.0)).real(), model->getFirstMoment(), 1e-6);
  solveOne(*model, {.5, .02});
}

TEST(Chain, ThreadsDoNotMatter) {
  auto model = makeModel(4, {kStochastic, kStochastic}, {.1, .2});
  std::vector<Complex> w(333), once(333), again(333);
  for (int i = 0; i < 333; ++i)
    w[i] = Complex(.01 + i * .005, 1e-4);
  ChainResults results;
  results.value = once.data();
  ASSERT_TRUE(solveChain(*model, 333, w.data(), nullptr, {}, results).isOk());
  int before = jpmhcGetNumThreads();
  ASSERT_EQ(jpmhcSetNumThreads(before == 1 ? 3 : 1), JPMHC_OK);
  results.value = again.data();
  ASSERT_TRUE(solveChain(*model, 333, w.data(), nullptr, {}, results).isOk());
  jpmhcSetNumThreads(before);
  EXPECT_EQ(once, again);
}

TEST(Chain, BadInput) {
  std::unique_ptr<ChainModel> model;
  double a[] = {1, 0, 0, 1}, bad[] = {1, 0, 0, NAN}, s = .1, negative = -1;
  EXPECT_EQ(ChainModel::create(2, 0, a, &s, model).getKind(),
            Status::Kind::Shape);
  EXPECT_EQ(ChainModel::create(2, 1, bad, &s, model).getKind(),
            Status::Kind::Value);
  EXPECT_EQ(ChainModel::create(2, 1, a, &negative, model).getKind(),
            Status::Kind::Value);
  double zero[] = {0, 0, 0, 0}, none = 0;
  EXPECT_EQ(ChainModel::create(2, 1, zero, &none, model).getKind(),
            Status::Kind::Value);
  ASSERT_TRUE(ChainModel::create(2, 1, a, &s, model).isOk());
  Complex below(1, -1);
  EXPECT_EQ(solveChain(*model, 1, &below, nullptr, {}, {}).getKind(),
            Status::Kind::Value);
}
