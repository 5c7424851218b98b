// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Launches and products allocate nothing once the context is made. The
// allocators below stand before the C library's in the whole process, the BLAS
// included.
//
#include "RuntimeTest.h"

#if !JPMHC_ASAN && !JPMHC_TSAN

#include "../CountAllocations.h"

namespace {
class AllocationTest : public RuntimeTest {};
} // namespace

static void addOne(int64_t lo, int64_t hi, void **args) {
  for (int64_t i = lo; i < hi; ++i)
    ++static_cast<float *>(args[0])[i];
}

TEST_F(AllocationTest, CounterCounts) {
  int64_t before = allocations;
  std::free(std::malloc(10));
  EXPECT_EQ(allocations - before, 1);
  // One inside the runtime.
  void *stream;
  ASSERT_EQ(jpmhcStreamCreate(context, &stream), JPMHC_OK);
  EXPECT_EQ(allocations - before, 2);
  EXPECT_EQ(jpmhcStreamDestroy(context, stream), JPMHC_OK);
}

TEST_F(AllocationTest, NoneInLaunchesAndProducts) {
  ASSERT_EQ(jpmhcSetNumThreads(4), JPMHC_OK);
  constexpr int64_t kSize = 512;
  std::vector<float> a = makeNumbers(kSize * kSize, 1), b = a, c = a;
  jpmhcKernel kernel = {addOne, "add_one", nullptr, 0, nullptr, 1, nullptr};
  void *args[] = {c.data()};
  auto step = [&] {
    int32_t bad = 0;
    bad |= jpmhcFill(context, nullptr, c.data(), 0, kSize * kSize * 4);
    bad |= jpmhcLaunch(context, &kernel, nullptr, 0, kSize * kSize, 16, args);
    for (int trans = 0; trans < 4; ++trans)
      for (int64_t m : {int64_t(1), int64_t(24), kSize})
        bad |= jpmhcGemm(context, nullptr, JPMHC_F32, JPMHC_F32, trans & 1,
                         trans >> 1, m, kSize, kSize, a.data(), kSize, b.data(),
                         kSize, 1.0f, c.data(), kSize, nullptr);
    bad |= jpmhcCopy(context, nullptr, b.data(), c.data(), kSize * kSize * 4);
    return bad;
  };
  ASSERT_EQ(step(), JPMHC_OK);
  int32_t bad = 0;
  EXPECT_EQ(allocationsOfTenSteps([&] { bad |= step(); }), 0);
  EXPECT_EQ(bad, JPMHC_OK);
}

#else

TEST(AllocationTest, Skipped) {
  GTEST_SKIP() << "a sanitizer replaces the allocators";
}

#endif
