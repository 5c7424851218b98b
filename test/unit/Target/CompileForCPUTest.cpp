// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Modules.h"
#include "RunModule.h"
#include <cmath>
#include <thread>

using namespace jpmhc::test;

// Norm, element-wise arithmetic and a product: two kernels, one of them fused,
// and a library call.
TEST(CompileForCPU, NormAddProduct) {
  const int n = 5, d = 7, m = 3;
  Array x = normal(n * d, 1), g = normal(d, 2), w = normal(m * d, 3);
  auto results = runModule(normAddProduct(d), {x, g, w});
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
  auto results = runModule(kReductions, {x});
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

// Each of twenty threads compiles and runs programs of its own, and all share
// the pool: the results are those of one thread alone.
TEST(CompileForCPU, TwentyThreadsAtOnce) {
  const int threads = 20, kinds = 3;
  auto run = [](int kind) {
    int d = 7 + kind;
    return runModule(normAddProduct(d),
                     {normal(5 * d, 1), normal(d, 2), normal(3 * d, 3)}, "cpu",
                     uncached());
  };
  std::vector<std::vector<Array>> want(kinds), got(threads);
  for (int kind = 0; kind < kinds; ++kind)
    want[kind] = run(kind);
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i)
    running.emplace_back([&, i] { got[i] = run(i % kinds); });
  for (std::thread &thread : running)
    thread.join();
  for (int i = 0; i < threads; ++i)
    EXPECT_EQ(got[i], want[i % kinds]) << "thread " << i;
}

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
// The kernels are instrumented: an argument that is two numbers short is found
// out by the kernel that reads it, and by nothing else.
TEST(CompileForCPUDeathTest, SanitizedKernelReadsPastItsArgument) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Array x = normal(40 * 6 - 2, 4);
  jpmhc::CPUOptions options = uncached();
  options.sanitizeAddress = false;
  EXPECT_EQ(runModule(kReductions, {x}, "cpu", options).size(), 2u);
  options.sanitizeAddress = true;
  EXPECT_DEATH(runModule(kReductions, {x}, "cpu", options),
               "heap-buffer-overflow");
}
#endif
#endif
