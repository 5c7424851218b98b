// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- RuntimeTest.h - What the runtime's tests share ---------------------===//
#ifndef JPMHC_TEST_UNIT_RUNTIME_RUNTIMETEST_H
#define JPMHC_TEST_UNIT_RUNTIME_RUNTIMETEST_H

#include "jpmhc/Runtime/Launch.h"

#include "gtest/gtest.h"

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

// GCC defines __SANITIZE_*, clang has features.
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define JPMHC_TSAN 1
#else
#define JPMHC_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define JPMHC_ASAN 1
#else
#define JPMHC_ASAN 0
#endif

/// A CPU context, and the number of threads put back afterwards.
class RuntimeTest : public testing::Test {
protected:
  void SetUp() override {
    ASSERT_EQ(jpmhcContextCreate("cpu", &context), JPMHC_OK)
        << jpmhcLastError(nullptr);
    threads = jpmhcGetNumThreads();
  }
  void TearDown() override {
    jpmhcContextDestroy(context);
    EXPECT_EQ(jpmhcSetNumThreads(threads), JPMHC_OK);
  }

  std::string getError() const { return jpmhcLastError(context); }

  jpmhcContext *context = nullptr;
  int threads = 0;
};

/// Runs two chunks that wait for each other, which ends only if two threads run
/// them. No other thread may use the pool meanwhile.
inline void meetInRegion() {
  std::atomic<int> arrived{0};
  jpmhcParallelFor(
      0, 2, 1,
      [](int64_t, int64_t, void *user) {
        auto &arrived = *static_cast<std::atomic<int> *>(user);
        ++arrived;
        while (arrived < 2)
          std::this_thread::yield();
      },
      &arrived);
}

/// Numbers in [-1, 1) by a counter, the same on every machine.
inline std::vector<float> makeNumbers(int64_t count, uint64_t seed) {
  std::vector<float> numbers(count);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t x = (seed << 40) + i + 1;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    numbers[i] = static_cast<float>((x ^ (x >> 31)) >> 40) / (1 << 23) - 1.0f;
  }
  return numbers;
}

#endif // JPMHC_TEST_UNIT_RUNTIME_RUNTIMETEST_H
