// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RuntimeTest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace {

struct Shape {
  int64_t m, n, k;
};

/// A product with its operands: leading dimensions are wider than the rows by
/// `pad`, and what lies between is checked to stay as it was.
struct Product {
  Product(Shape shape, bool transA, bool transB, int64_t batch = 1,
          int64_t pad = 0)
      : shape(shape), transA(transA), transB(transB), batch(batch),
        lda(std::max<int64_t>(1, (transA ? shape.m : shape.k) + pad)),
        ldb(std::max<int64_t>(1, (transB ? shape.k : shape.n) + pad)),
        ldc(std::max<int64_t>(1, shape.n + pad)),
        strideA((transA ? shape.k : shape.m) * lda + pad),
        strideB((transB ? shape.n : shape.k) * ldb + pad),
        strideC(shape.m * ldc + pad), a(makeNumbers(batch * strideA + 1, 1)),
        b(makeNumbers(batch * strideB + 1, 2)),
        c(makeNumbers(batch * strideC + 1, 3)) {}

  int32_t run(jpmhcContext *context, float beta) {
    if (batch == 1)
      return jpmhcGemm(context, nullptr, JPMHC_F32, JPMHC_F32, transA, transB,
                       shape.m, shape.n, shape.k, a.data(), lda, b.data(), ldb,
                       beta, c.data(), ldc, nullptr);
    return jpmhcGemmBatched(context, nullptr, JPMHC_F32, JPMHC_F32, transA,
                            transB, batch, shape.m, shape.n, shape.k, a.data(),
                            lda, strideA, b.data(), ldb, strideB, beta,
                            c.data(), ldc, strideC, nullptr);
  }

  /// Largest |got - want| over the bound of a sum of k products in f32,
  /// (k + 2) eps sum |a| |b| + |beta c|, at every element; the rest of C must
  /// not have changed (infinite error).
  double getError(const std::vector<float> &before, float beta) const {
    double worst = 0;
    std::vector<bool> written(c.size());
    for (int64_t i = 0; i < batch * shape.m * shape.n; ++i) {
      int64_t z = i / (shape.m * shape.n), row = i / shape.n % shape.m,
              column = i % shape.n;
      double sum = 0, size = 0;
      for (int64_t k = 0; k < shape.k; ++k) {
        double x = a[z * strideA + (transA ? k * lda + row : row * lda + k)];
        double y =
            b[z * strideB + (transB ? column * ldb + k : k * ldb + column)];
        sum += x * y;
        size += std::abs(x * y);
      }
      int64_t at = z * strideC + row * ldc + column;
      written[at] = true;
      if (beta != 0) {
        sum += double(beta) * before[at];
        size += std::abs(double(beta) * before[at]);
      }
      double bound =
          (shape.k + 2) * double(std::numeric_limits<float>::epsilon()) * size;
      double error = std::abs(c[at] - sum);
      if (!(error <= bound))
        worst = std::max(worst, std::isnan(error) ? INFINITY : error / bound);
    }
    for (size_t at = 0; at < c.size(); ++at)
      if (!written[at] && c[at] != before[at])
        return INFINITY;
    return worst;
  }

  Shape shape;
  bool transA, transB;
  int64_t batch, lda, ldb, ldc, strideA, strideB, strideC;
  std::vector<float> a, b, c;
};

class GemmTest : public RuntimeTest {
protected:
  void check(Shape shape, int64_t batch, int64_t pad, float beta) {
    for (bool transA : {false, true})
      for (bool transB : {false, true}) {
        Product product(shape, transA, transB, batch, pad);
        std::vector<float> before = product.c;
        ASSERT_EQ(product.run(context, beta), JPMHC_OK) << getError();
        ASSERT_LE(product.getError(before, beta), 1.0)
            << shape.m << "x" << shape.n << "x" << shape.k << " trans "
            << transA << transB << " batch " << batch << " pad " << pad
            << " beta " << beta;
      }
  }
};

} // namespace

TEST_F(GemmTest, MatchesNaive) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  for (Shape shape :
       {Shape{1, 1, 1}, Shape{1, 7, 300}, Shape{300, 1, 5}, Shape{3, 5, 7},
        Shape{16, 16, 16}, Shape{33, 17, 65}, Shape{257, 129, 100},
        Shape{129, 515, 70}, Shape{5, 700, 300}, Shape{700, 24, 96}})
    for (int64_t pad : {0, 3})
      for (float beta : {0.0f, 1.0f, -0.5f})
        check(shape, 1, pad, beta);
}

TEST_F(GemmTest, BatchedMatchesNaive) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  for (Shape shape :
       {Shape{1, 1, 1}, Shape{4, 4, 4}, Shape{36, 36, 24}, Shape{130, 260, 40}})
    for (int64_t pad : {0, 3})
      for (float beta : {0.0f, 1.0f})
        check(shape, 7, pad, beta);
}

TEST_F(GemmTest, EmptySizes) {
  for (Shape shape :
       {Shape{0, 5, 3}, Shape{5, 0, 3}, Shape{5, 4, 0}, Shape{1, 5, 0},
        Shape{5, 1, 0}, Shape{0, 0, 0}, Shape{300, 700, 0}})
    for (int64_t batch : {1, 3})
      for (float beta : {0.0f, 1.0f, 2.0f})
        check(shape, batch, 2, beta);
  Product none({4, 4, 4}, false, false);
  EXPECT_EQ(jpmhcGemmBatched(context, nullptr, JPMHC_F32, JPMHC_F32, 0, 0, 0, 4,
                             4, 4, none.a.data(), 4, 16, none.b.data(), 4, 16,
                             0.0f, none.c.data(), 4, 16, nullptr),
            JPMHC_OK);
}

// beta = 0 means that C is not read: it may hold anything.
TEST_F(GemmTest, BetaZeroIgnoresC) {
  for (Shape shape : {Shape{1, 9, 4}, Shape{9, 1, 4}, Shape{8, 8, 8},
                      Shape{200, 300, 100}, Shape{5, 6, 0}})
    for (bool transA : {false, true}) {
      Product product(shape, transA, false);
      std::vector<float> before = product.c;
      std::fill(product.c.begin(), product.c.end() - 1, NAN);
      ASSERT_EQ(product.run(context, 0.0f), JPMHC_OK);
      ASSERT_LE(product.getError(before, 0.0f), 1.0);
    }
}

TEST_F(GemmTest, SharedMatrixInBatch) {
  Product product({20, 30, 10}, false, false, 5);
  product.strideB = 0;
  std::vector<float> before = product.c;
  ASSERT_EQ(product.run(context, 1.0f), JPMHC_OK);
  EXPECT_LE(product.getError(before, 1.0f), 1.0);
}

TEST_F(GemmTest, BitEqualForAnyNumberOfThreads) {
  for (Shape shape :
       {Shape{2560, 512, 96}, Shape{512, 513, 640}, Shape{96, 2000, 100},
        Shape{1, 4096, 300}, Shape{4097, 1, 300}, Shape{1003, 24, 128},
        Shape{331, 333, 337}})
    for (int64_t batch : {1, 3})
      for (bool transA : {false, true})
        for (bool transB : {false, true}) {
          std::vector<float> first;
          for (int count : {1, 2, 4, 7}) {
            ASSERT_EQ(jpmhcSetNumThreads(count), JPMHC_OK);
            Product product(shape, transA, transB, batch);
            ASSERT_EQ(product.run(context, 1.0f), JPMHC_OK);
            if (first.empty())
              first = product.c;
            ASSERT_EQ(std::memcmp(first.data(), product.c.data(),
                                  first.size() * sizeof(float)),
                      0)
                << shape.m << "x" << shape.n << "x" << shape.k << " at "
                << count << " threads";
          }
        }
}

TEST_F(GemmTest, InsideARegion) {
  struct Task {
    jpmhcContext *context;
    std::vector<Product> products;
  };
  Task task{context, {}};
  for (int i = 0; i < 8; ++i)
    task.products.emplace_back(Shape{200, 100, 50}, false, true);
  std::vector<float> before = task.products[0].c;
  jpmhcParallelFor(
      0, 8, 1,
      [](int64_t lo, int64_t hi, void *user) {
        auto &task = *static_cast<Task *>(user);
        for (int64_t i = lo; i < hi; ++i)
          task.products[i].run(task.context, 1.0f);
      },
      &task);
  EXPECT_LE(task.products[0].getError(before, 1.0f), 1.0);
  for (const Product &product : task.products)
    EXPECT_EQ(product.c, task.products[0].c);
}

TEST_F(GemmTest, Errors) {
  std::vector<float> data(64);
  auto gemm = [&](int32_t in, int32_t out, int64_t m, int64_t n, int64_t k,
                  const float *a, int64_t lda, int64_t ldb, int64_t ldc) {
    return jpmhcGemm(context, nullptr, in, out, 0, 0, m, n, k, a, lda,
                     data.data(), ldb, 0.0f, data.data(), ldc, nullptr);
  };
  const float *a = data.data();
  EXPECT_EQ(gemm(JPMHC_BF16, JPMHC_F32, 4, 4, 4, a, 4, 4, 4),
            JPMHC_UNSUPPORTED);
  EXPECT_EQ(getError(),
            "expected a product of f32 into f32, got bf16 into f32");
  EXPECT_EQ(gemm(99, JPMHC_F32, 4, 4, 4, a, 4, 4, 4), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(),
            "expected known element types of a product, got codes 99 and 1");
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 4, -1, 4, a, 4, 4, 4),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected sizes of a product of at least 0, got batch "
                        "1, m 4, n -1, k 4");
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 4, 4, 4, a, 3, 4, 4),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected a leading dimension of at least 4 for A of a "
                        "product, got 3");
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 4, 4, 4, a, 4, 2, 4),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 4, 4, 4, a, 4, 4, 0),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 4, 4, 4, nullptr, 4, 4, 4),
            JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected data for A of a product, got null");
  EXPECT_EQ(gemm(JPMHC_F32, JPMHC_F32, 1, 4, 4, a, int64_t(1) << 31, 4, 4),
            JPMHC_UNSUPPORTED);
  EXPECT_EQ(getError(), "expected sizes and leading dimensions of a product "
                        "below 2^31, got 2147483648");
}
