// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Spectral/ScalarDyson.h"

#include "gtest/gtest.h"

#include <vector>

using namespace jpmhc::spectral;
using Complex = std::complex<double>;

static Complex solveOne(double a, double sigma2, Complex z) {
  Complex g, roots[3];
  Status status = solveScalarDyson(a, sigma2, 1, &z, &g, roots);
  EXPECT_TRUE(status.isOk()) << status.getMessage();
  for (Complex root : roots)
    EXPECT_LT(std::abs(((z * sigma2 * sigma2 * root - 2.0 * z * sigma2) * root +
                        z + sigma2 - a * a) *
                           root -
                       1.0),
              1e-10 * (1 + std::norm(root)));
  EXPECT_EQ(g, roots[0]);
  return g;
}

// Monte Carlo with matrices of size 1500 agrees to its error of 1e-3.
TEST(ScalarDyson, Values) {
  struct Case {
    double a, sigma2;
    Complex z, g;
  };
  for (const Case &c :
       {Case{1, .05, {1, .1}, {0.019230864122, -2.711167475913}},
        Case{1, .5, {2, .5}, {0.250913739825, -0.609773975430}},
        Case{0, 1, {1, .1}, {0.442583249468, -0.862203974210}}})
    EXPECT_LT(std::abs(solveOne(c.a, c.sigma2, c.z) - c.g), 1e-12);
}

// sigma = 0 and a sigma close to it.
TEST(ScalarDyson, SmallNoise) {
  Complex z(0.9, 1e-3), g;
  ASSERT_TRUE(solveScalarDyson(1, 0, 1, &z, &g, nullptr).isOk());
  EXPECT_LT(std::abs(g - 1.0 / (z - 1.0)), 1e-15);
  EXPECT_LT(std::abs(solveOne(1, 1e-12, z) - g), 1e-6);
}

TEST(ScalarDyson, BadInput) {
  Complex g, below(1, -1), z(1, 1);
  Status status = solveScalarDyson(1, 1, 1, &below, &g, nullptr);
  EXPECT_EQ(status.getKind(), Status::Kind::Value);
  EXPECT_NE(status.getMessage().find("upper half plane"), std::string::npos);
  EXPECT_FALSE(solveScalarDyson(1, -1, 1, &z, &g, nullptr).isOk());
  EXPECT_FALSE(solveScalarDyson(NAN, 1, 1, &z, &g, nullptr).isOk());
}

TEST(ScalarDyson, StopsWhenAsked) {
  std::vector<Complex> z(100000, {1, .1}), g(z.size());
  Status status = solveScalarDyson(1, 1, z.size(), z.data(), g.data(), nullptr,
                                   [](int64_t, int64_t) { return false; });
  EXPECT_EQ(status.getKind(), Status::Kind::Interrupted);
}
