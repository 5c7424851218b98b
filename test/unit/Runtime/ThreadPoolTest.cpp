// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RuntimeTest.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <dirent.h>
#include <thread>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace {

/// Counts calls for each index and checks where ranges start.
struct Marks {
  int64_t begin, grain;
  std::vector<int> counts;
  std::atomic<bool> misplaced{false};
};

class ThreadPoolTest : public RuntimeTest {};

} // namespace

static void mark(int64_t lo, int64_t hi, void *user) {
  auto &marks = *static_cast<Marks *>(user);
  if ((lo - marks.begin) % marks.grain != 0 || lo >= hi)
    marks.misplaced = true;
  for (int64_t i = lo; i < hi; ++i)
    ++marks.counts[i - marks.begin];
}

static bool marksAll(int64_t begin, int64_t length, int64_t grain) {
  Marks marks{begin, grain, std::vector<int>(length)};
  jpmhcParallelFor(begin, begin + length, grain, mark, &marks);
  for (int count : marks.counts)
    if (count != 1)
      return false;
  return !marks.misplaced;
}

TEST_F(ThreadPoolTest, EveryIndexOnce) {
  for (int count : {1, 2, 3, 4, 16}) {
    ASSERT_EQ(jpmhcSetNumThreads(count), JPMHC_OK);
    EXPECT_EQ(jpmhcGetNumThreads(), count);
    for (int64_t length : {0, 1, 2, 3, 7, 16, 17, 1000, 4099})
      for (int64_t grain : {1, 2, 5, 64, 5000})
        for (int64_t begin : {-3, 0, 100})
          ASSERT_TRUE(marksAll(begin, length, grain))
              << count << " threads, " << length << " by " << grain;
  }
}

TEST_F(ThreadPoolTest, ManyRegions) {
  for (int count : {2, 4}) {
    ASSERT_EQ(jpmhcSetNumThreads(count), JPMHC_OK);
    for (int i = 0; i < 20000; ++i)
      ASSERT_TRUE(marksAll(i, 1 + i % 37, 1 + i % 3));
  }
}

TEST_F(ThreadPoolTest, WakesSleepers) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  for (int i = 0; i < 50; ++i) {
    std::this_thread::sleep_for(std::chrono::microseconds(20 * (i % 10)));
    ASSERT_TRUE(marksAll(0, 64, 1));
  }
}

TEST_F(ThreadPoolTest, UsesSeveralThreads) {
  ASSERT_EQ(jpmhcSetNumThreads(2), JPMHC_OK);
  meetInRegion(); // hangs otherwise
}

TEST_F(ThreadPoolTest, Nested) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  std::vector<int> good(64);
  jpmhcParallelFor(
      0, 64, 1,
      [](int64_t lo, int64_t hi, void *user) {
        for (int64_t i = lo; i < hi; ++i)
          static_cast<int *>(user)[i] = marksAll(i, 100, 3);
      },
      good.data());
  EXPECT_EQ(good, std::vector<int>(64, 1));
}

TEST_F(ThreadPoolTest, SetInsideRegionIsAnError) {
  ASSERT_EQ(jpmhcSetNumThreads(2), JPMHC_OK);
  std::atomic<int> errors{0};
  jpmhcParallelFor(
      0, 8, 1,
      [](int64_t lo, int64_t hi, void *user) {
        for (int64_t i = lo; i < hi; ++i)
          if (jpmhcSetNumThreads(3) == JPMHC_INVALID_ARGUMENT)
            ++*static_cast<std::atomic<int> *>(user);
      },
      &errors);
  EXPECT_EQ(errors, 8);
  EXPECT_EQ(jpmhcGetNumThreads(), 2);
}

TEST_F(ThreadPoolTest, ConcurrentCallers) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  std::atomic<int> bad{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller)
    callers.emplace_back([&bad, caller] {
      for (int i = 0; i < 5000; ++i)
        if (!marksAll(caller, 1 + i % 101, 1 + i % 4))
          ++bad;
    });
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(jpmhcSetNumThreads(1 + i % 5), JPMHC_OK);
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(bad, 0);
}

TEST_F(ThreadPoolTest, RejectsCounts) {
  EXPECT_EQ(jpmhcSetNumThreads(0), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(getError(), "expected 1 to 128 threads, got 0");
  EXPECT_EQ(jpmhcSetNumThreads(129), JPMHC_INVALID_ARGUMENT);
  EXPECT_EQ(jpmhcGetNumThreads(), threads);
}

#if defined(__x86_64__)
// Flush-to-zero set in the caller holds in every chunk, and no longer than
// that.
TEST_F(ThreadPoolTest, KeepsFloatControl) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  for (bool flush : {true, false, true, false}) {
    _MM_SET_FLUSH_ZERO_MODE(flush ? _MM_FLUSH_ZERO_ON : _MM_FLUSH_ZERO_OFF);
    std::vector<float> values(512, 1e-30f);
    jpmhcParallelFor(
        0, 512, 1,
        [](int64_t lo, int64_t hi, void *user) {
          for (int64_t i = lo; i < hi; ++i) {
            volatile float small = 1e-10f;
            static_cast<float *>(user)[i] *= small;
          }
        },
        values.data());
    _MM_SET_FLUSH_ZERO_MODE(_MM_FLUSH_ZERO_OFF);
    for (float value : values)
      ASSERT_EQ(value == 0.0f, flush);
  }
}
#endif

// The pool's threads are the only ones: the BLAS has started none.
TEST_F(ThreadPoolTest, NoOtherThreads) {
  if (JPMHC_TSAN)
    GTEST_SKIP() << "ThreadSanitizer has a thread of its own";
  ASSERT_EQ(jpmhcSetNumThreads(3), JPMHC_OK);
  ASSERT_TRUE(marksAll(0, 100, 1));
  int tasks = 0;
  DIR *directory = opendir("/proc/self/task");
  ASSERT_NE(directory, nullptr);
  while (dirent *entry = readdir(directory))
    tasks += entry->d_name[0] != '.';
  closedir(directory);
  EXPECT_EQ(tasks, 3);
}

//===----------------------------------------------------------------------===//
// Environment: read once, so each of these is a process of its own
//===----------------------------------------------------------------------===//

static void createAndExit() {
  jpmhcContext *context;
  int32_t status = jpmhcContextCreate("cpu", &context);
  fprintf(stderr, "%d threads: %s\n", jpmhcGetNumThreads(),
          jpmhcLastError(nullptr));
  _exit(status);
}

static void expectWithEnvironment(const char *name, const char *value,
                                  int status, const char *message) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const char *before = getenv(name);
  std::string kept = before ? before : "";
  setenv(name, value, 1);
  EXPECT_EXIT(createAndExit(), testing::ExitedWithCode(status), message);
  if (before)
    setenv(name, kept.c_str(), 1);
  else
    unsetenv(name);
}

TEST(RuntimeEnvironmentDeathTest, NumThreads) {
  const char *name = "JPMHC_NUM_THREADS";
  expectWithEnvironment(name, "3", JPMHC_OK, "3 threads: ");
  for (const char *bad : {"0", "-1", "129", "many", "2x", ""})
    expectWithEnvironment(name, bad, JPMHC_INVALID_ARGUMENT,
                          "expected JPMHC_NUM_THREADS to be 1 to 128, got '");
}

TEST(RuntimeEnvironmentDeathTest, Blas) {
  expectWithEnvironment("JPMHC_BLAS", "/nowhere/blas.so", JPMHC_NOT_FOUND,
                        "expected JPMHC_BLAS to name a loadable library, got "
                        "'/nowhere/blas.so'");
  expectWithEnvironment("JPMHC_BLAS", "libm.so.6", JPMHC_NOT_FOUND,
                        "expected the BLAS to have cblas_sgemm, got none");
}
