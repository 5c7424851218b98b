// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Properties that every manifold must have at every size, its gradient against
// differences, and a manifold of a program's own.
#include "jpmhc/Manifolds/Manifold.h"
#include "RunModule.h"
#include "jpmhc/Kernels/SmallMatrix.h"
#include <cmath>

using namespace jpmhc;
using jpmhc::test::Array;
using jpmhc::test::normal;
using jpmhc::test::runModule;

/// A function from raw numbers (and the gradient of H) to H and its vjp.
static std::string moduleText(const std::string &manifold, int64_t rows,
                              int64_t size, int64_t n) {
  std::string raw =
      "tensor<" + std::to_string(rows) + "x" + std::to_string(size) + "xf32>";
  std::string mixer = "tensor<" + std::to_string(rows) + "x" +
                      std::to_string(n) + "x" + std::to_string(n) + "xf32>";
  std::string what = " <" + manifold + "> streams " + std::to_string(n) + " : ";
  return "func.func @f(%x: " + raw + ", %d: " + mixer + ") -> (" + mixer +
         ", " + raw + ") {\n  %h = jpmhc.project %x" + what + raw + " -> " +
         mixer + "\n  %g = jpmhc.project_vjp %x, %d" + what + raw + ", " +
         mixer + " -> " + raw + "\n  return %h, %g : " + mixer + ", " + raw +
         "\n}";
}

struct Case {
  const char *manifold;
  int64_t n, size;
};

class ManifoldGradient : public testing::TestWithParam<Case> {};

// d/dε of Σ dH ⊙ H(raw + ε direction) by central differences, all in one batch:
// 17 tokens (a whole group and a part of one), then the same moved up and down.
// The step of 1e-2 leaves an error of order 1e-4 times the third derivative and
// 1e-7 / 1e-2 of rounding; 2e-3 of the gradient's size and 1e-3 cover both.
TEST_P(ManifoldGradient, AgreesWithDifferences) {
  auto [manifold, n, size] = GetParam();
  const int64_t rows = 17, entries = n * n;
  const double step = 1e-2;
  Array base = normal(rows * size, 1), direction = normal(rows * size, 3);
  Array cotangent = normal(rows * entries, 2), raw, dH;
  for (double shift : {0.0, step, -step}) {
    for (int64_t k = 0; k < rows * size; ++k)
      raw.push_back(base[k] + shift * direction[k]);
    dH.insert(dH.end(), cotangent.begin(), cotangent.end());
  }
  auto results = runModule(moduleText(manifold, 3 * rows, size, n), {raw, dH});
  const float *up = &results[0][rows * entries], *down = up + rows * entries;
  for (int64_t row = 0; row < rows; ++row) {
    double got = 0, scale = 0, want = 0;
    for (int64_t k = row * size; k < (row + 1) * size; ++k) {
      got += double(results[1][k]) * direction[k];
      scale += std::abs(double(results[1][k]) * direction[k]);
    }
    for (int64_t e = row * entries; e < (row + 1) * entries; ++e)
      want += (double(up[e]) - down[e]) * cotangent[e] / (2 * step);
    EXPECT_NEAR(got, want, 2e-3 * scale + 1e-3) << "row " << row;
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ManifoldGradient,
    testing::Values(
        Case{"\"birkhoff\"", 1, 1}, Case{"\"birkhoff\", {rounds = 7}", 3, 9},
        Case{"\"birkhoff\"", 7, 49}, Case{"\"stiefel\"", 4, 16},
        Case{"\"stiefel\", {steps = 5, cayley_alpha = 0.3}", 7, 49},
        Case{"\"stiefel\", {exact = true}", 1, 1},
        Case{"\"stiefel\", {exact = true, cayley_alpha = 1.0}", 4, 16},
        Case{"\"stiefel\", {exact = true, cayley_alpha = 1.0}", 6, 36},
        Case{"\"stiefel\", {exact = true}", 9, 81},
        Case{"\"grassmann\", {rank = 1}", 4, 4},
        Case{"\"grassmann\", {rank = 3}", 7, 21}, Case{"\"permutation\"", 1, 1},
        Case{"\"permutation\", {basis = \"all\"}", 5, 120},
        Case{"\"permutation\", {count = 40}", 4 + 1, 40},
        Case{"\"free\"", 7, 49}));

/// max |Hᵀ H − I| and max |row or column sum − 1| of one token.
static double orthogonalityError(const float *h, int64_t n) {
  double error = 0;
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      double dot = i == j ? -1 : 0;
      for (int64_t k = 0; k < n; ++k)
        dot += double(h[k * n + i]) * h[k * n + j];
      error = std::max(error, std::abs(dot));
    }
  return error;
}

// Row exchanges keep the solve stable: the error does not grow with the raw
// numbers, 2e-6 is a few roundings of 16 terms.
TEST(Manifolds, ExactCayleyIsOrthogonalForLargeNumbers) {
  for (int64_t n : {2, 3, 4, 5, 6, 9, 16}) {
    int64_t rows = 33;
    Array raw = normal(rows * n * n, n, 0, 20), dH(rows * n * n);
    Array h =
        runModule(moduleText("\"stiefel\", {exact = true}", rows, n * n, n),
                  {raw, dH})[0];
    for (int64_t row = 0; row < rows; ++row)
      EXPECT_LT(orthogonalityError(&h[row * n * n], n), 2e-6)
          << "n " << n << ", row " << row;
  }
}

// The rest of a group of tokens is not disturbed by a bad token.
TEST(Manifolds, NaNStaysInItsRow) {
  for (const char *manifold :
       {"\"birkhoff\"", "\"stiefel\", {exact = true}", "\"free\""}) {
    Array raw = normal(20 * 25, 5), dH = normal(20 * 25, 6);
    raw[3 * 25 + 7] = NAN;
    auto results = runModule(moduleText(manifold, 20, 25, 5), {raw, dH});
    bool reached = false;
    for (int64_t e = 0; e < 20 * 25; ++e)
      if (e / 25 == 3)
        reached |= std::isnan(results[0][e]);
      else
        EXPECT_TRUE(std::isfinite(results[0][e]) &&
                    std::isfinite(results[1][e]));
    EXPECT_TRUE(reached) << manifold;
  }
}

TEST(Manifolds, NoTokens) {
  auto results = runModule(moduleText("\"birkhoff\"", 0, 9, 3), {{}, {}});
  EXPECT_TRUE(results[0].empty() && results[1].empty());
}

namespace {
/// H = diag(tanh(raw)).
class Diagonal : public Manifold {
public:
  llvm::StringRef name() const override { return "diagonal"; }
  llvm::StringRef doc() const override { return "H = diag(tanh(raw))."; }
  int64_t rawSize(int64_t n, const ManifoldParameters &) const override {
    return n;
  }
  SmallMatrix emit(SmallMath &m, int64_t n, const ManifoldParameters &,
                   const SmallMatrix &raw) const override {
    return m.matrix(n, n, [&](Pos i, Pos j) {
      return m.selectEqual(i, j, tanh(raw(i)), m.number(0));
    });
  }
  SmallMatrix emitVjp(SmallMath &m, int64_t n, const ManifoldParameters &,
                      const SmallMatrix &raw,
                      const SmallMatrix &dH) const override {
    return m.vector(n, [&](Pos i) {
      Val t = tanh(raw(i));
      return dH(i, i) * (1.0 - t * t);
    });
  }
  ManifoldCost cost(int64_t n, const ManifoldParameters &) const override {
    return {0, n};
  }
  std::vector<double> initialBias(int64_t n,
                                  const ManifoldParameters &) const override {
    return std::vector<double>(n, 3);
  }
};
} // namespace

TEST(Manifolds, OneOfYourOwn) {
  ASSERT_TRUE(ManifoldRegistry::add(std::make_unique<Diagonal>()));
  EXPECT_FALSE(ManifoldRegistry::add(std::make_unique<Diagonal>()));
  Array raw = normal(3 * 2, 7), dH = normal(3 * 4, 8);
  auto results = runModule(moduleText("\"diagonal\"", 3, 2, 2), {raw, dH});
  for (int64_t row = 0; row < 3; ++row)
    for (int64_t i = 0; i < 2; ++i) {
      double t = std::tanh(raw[row * 2 + i]);
      EXPECT_NEAR(results[0][row * 4 + i * 3], t, 1e-6);
      EXPECT_EQ(results[0][row * 4 + 1 + i], 0);
      EXPECT_NEAR(results[1][row * 2 + i], dH[row * 4 + i * 3] * (1 - t * t),
                  1e-5);
    }
}
