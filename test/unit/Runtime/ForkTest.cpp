// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RuntimeTest.h"

#include <atomic>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace {
class ForkTest : public RuntimeTest {};
} // namespace

/// Sum over a region and a product; true when both are right.
static bool works(jpmhcContext *context) {
  std::vector<int64_t> squares(1000);
  jpmhcParallelFor(
      0, 1000, 1,
      [](int64_t lo, int64_t hi, void *user) {
        for (int64_t i = lo; i < hi; ++i)
          static_cast<int64_t *>(user)[i] = i * i;
      },
      squares.data());
  for (int64_t i = 0; i < 1000; ++i)
    if (squares[i] != i * i)
      return false;
  constexpr int64_t kSize = 300;
  std::vector<float> ones(kSize * kSize, 1.0f), c(kSize * kSize);
  if (jpmhcGemm(context, nullptr, JPMHC_F32, JPMHC_F32, 0, 0, kSize, kSize,
                kSize, ones.data(), kSize, ones.data(), kSize, 0.0f, c.data(),
                kSize, nullptr) != JPMHC_OK)
    return false;
  for (float value : c)
    if (value != kSize)
      return false;
  return true;
}

static int forkAndWork(jpmhcContext *context) {
  pid_t child = fork();
  if (child == 0) {
    alarm(20); // a child that hangs fails
    meetInRegion();
    _exit(works(context) ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

TEST_F(ForkTest, ChildStartsWorkersAnew) {
  if (JPMHC_TSAN)
    GTEST_SKIP() << "ThreadSanitizer cannot start threads after a fork";
  ASSERT_EQ(jpmhcSetNumThreads(3), JPMHC_OK);
  ASSERT_TRUE(works(context));
  EXPECT_EQ(forkAndWork(context), 0);
  EXPECT_TRUE(works(context));
}

TEST_F(ForkTest, WhileAnotherThreadUsesThePool) {
  if (JPMHC_TSAN)
    GTEST_SKIP() << "ThreadSanitizer cannot start threads after a fork";
  ASSERT_EQ(jpmhcSetNumThreads(3), JPMHC_OK);
  std::atomic<bool> stop{false}, good{true};
  std::thread other([&] {
    while (!stop)
      if (!works(context))
        good = false;
  });
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(forkAndWork(context), 0);
  stop = true;
  other.join();
  EXPECT_TRUE(good);
}
