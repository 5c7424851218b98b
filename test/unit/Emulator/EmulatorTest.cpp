// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels without a fault: their results, under any order of threads, and the
// bytes they move.

#include "Modules.h"

#include <cmath>
#include <cstring>
#include <numeric>

using namespace jpmhc::test;
using namespace jpmhc::emulator;

namespace {

std::vector<float> ramp(size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

/// With and without optimisation: the second keeps variables in memory and
/// accesses as they are written.
class EmulatorTest : public testing::TestWithParam<unsigned> {
protected:
  static EmulatorOptions options() {
    EmulatorOptions options;
    options.optLevel = GetParam();
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(Levels, EmulatorTest, testing::Values(0u, 3u));

TEST_P(EmulatorTest, SaxpyAndItsBytes) {
  Runner run("Good", options());
  int n = 1000;
  float a = 2.0f;
  std::vector<float> x = ramp(n), y(n, 1.0f);
  run.add(x, "x", /*writable=*/false);
  run.add(y, "y");
  LaunchReport report = succeed(run.launch("saxpy", 8, 128, n, a, x, y));
  for (int i = 0; i < n; ++i)
    ASSERT_EQ(y[i], 1.0f + 2.0f * (i + 1)) << i;
  EXPECT_EQ(report.total.requestedRead, 8000u);
  EXPECT_EQ(report.total.requestedWritten, 4000u);
  EXPECT_EQ(report.total.uniqueRead, 8000u);
  EXPECT_EQ(report.total.uniqueWritten, 4000u);
  ASSERT_EQ(report.buffers.size(), 2u);
  for (const auto &buffer : report.buffers) {
    EXPECT_EQ(buffer.traffic.requestedRead, 4000u) << buffer.name;
    EXPECT_EQ(buffer.traffic.requestedWritten, buffer.name == "y" ? 4000u : 0u);
  }
}

TEST_P(EmulatorTest, BlockSumIsTheSameInEveryOrder) {
  int n = 250;
  std::vector<float> x = ramp(n);
  for (float &value : x)
    value = 1.0f / value;
  std::vector<float> first;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Runner run("Good", options());
    run.seed = seed;
    std::vector<float> sums(2, -1.0f);
    run.add(x, "x", false);
    run.add(sums, "sums");
    LaunchReport report = succeed(run.launch("blockSum", 2, 128, n, x, sums));
    EXPECT_EQ(report.barriers, 2u * 8u);
    EXPECT_EQ(report.sharedBytes, 512u);
    EXPECT_EQ(report.total.requestedRead, 1000u);
    EXPECT_EQ(report.total.requestedWritten, 8u);
    if (seed == 0)
      first = sums;
    EXPECT_EQ(std::memcmp(first.data(), sums.data(), 8), 0) << "seed " << seed;
  }
  double want = 0;
  for (int i = 0; i < 128; ++i)
    want += x[i];
  EXPECT_NEAR(first[0], want,
              1e-5); // 7 additions deep, each half an ulp of 5.4
}

TEST_P(EmulatorTest, DynamicSharedMemory) {
  Runner run("Good", options());
  int n = 64;
  std::vector<float> x = ramp(n), sums(2);
  run.add(x, "x", false);
  run.add(sums, "sums");
  run.dynamicSharedBytes = 32 * sizeof(float);
  LaunchReport report =
      succeed(run.launch("blockSumDynamic", 2, 32, n, x, sums));
  EXPECT_EQ(sums[0], 32 * 33 / 2);
  EXPECT_EQ(sums[1], 64 * 65 / 2 - 32 * 33 / 2);
  EXPECT_EQ(report.sharedBytes, 128u);
}

TEST_P(EmulatorTest, WarpSum) {
  for (uint64_t seed : {0, 1, 2}) {
    Runner run("Good", options());
    run.seed = seed;
    std::vector<float> x = ramp(128), sums(4);
    run.add(x, "x", false);
    run.add(sums, "sums");
    succeed(run.launch("warpSum", 2, 64, x, sums));
    for (int warp = 0; warp < 4; ++warp)
      EXPECT_EQ(sums[warp], 32 * 32 * warp + 32 * 33 / 2);
  }
}

TEST_P(EmulatorTest, ShufflesInSegmentsOfEight) {
  Runner run("Good", options());
  std::vector<float> x = ramp(32), idx(32), up(32), down(32), bfly(32);
  run.add(x, "x", false);
  run.add(idx, "idx");
  run.add(up, "up");
  run.add(down, "down");
  run.add(bfly, "bfly");
  succeed(run.launch("shuffles", 1, 32, x, idx, up, down, bfly));
  for (int i = 0; i < 32; ++i) {
    int segment = i / 8 * 8, lane = i % 8;
    EXPECT_EQ(idx[i], x[segment + 3]) << i;
    EXPECT_EQ(up[i], x[lane >= 2 ? i - 2 : i]) << i;
    EXPECT_EQ(down[i], x[lane < 6 ? i + 2 : i]) << i;
    EXPECT_EQ(bfly[i], x[segment + (lane ^ 5)]) << i;
  }
}

TEST_P(EmulatorTest, VotesMatchesAndReductions) {
  Runner run("Good", options());
  std::vector<int> x(32), sum(32), least(32), all(32);
  for (int i = 0; i < 32; ++i)
    x[i] = i % 5;
  std::vector<unsigned> ballot(32), match(32);
  run.add(x, "x", false);
  run.add(ballot, "ballot");
  run.add(match, "match");
  run.add(sum, "sum");
  run.add(least, "least");
  run.add(all, "all");
  succeed(run.launch("votes", 1, 32, x, ballot, match, sum, least, all));
  unsigned wantBallot = 0;
  for (int i = 0; i < 32; ++i)
    wantBallot |= unsigned(x[i] > 2) << i;
  for (int i = 0; i < 32; ++i) {
    unsigned wantMatch = 0;
    for (int j = 0; j < 32; ++j)
      wantMatch |= unsigned(x[j] == x[i]) << j;
    EXPECT_EQ(ballot[i], wantBallot);
    EXPECT_EQ(match[i], wantMatch);
    EXPECT_EQ(sum[i], std::accumulate(x.begin(), x.end(), 0));
    EXPECT_EQ(least[i], 0);
    EXPECT_EQ(all[i], 1);
  }
}

TEST_P(EmulatorTest, BarrierReductions) {
  Runner run("Good", options());
  std::vector<int> x(96), count(96), any(96), all(96);
  std::iota(x.begin(), x.end(), 0);
  run.add(x, "x", false);
  run.add(count, "count");
  run.add(any, "any");
  run.add(all, "all");
  succeed(run.launch("barrierReductions", 1, 96, x, count, any, all));
  for (int i = 0; i < 96; ++i) {
    EXPECT_EQ(count[i], 48);
    EXPECT_NE(any[i], 0);
    EXPECT_EQ(all[i], 0);
  }
}

TEST_P(EmulatorTest, NamedBarriersAndWarpSyncOrderMemory) {
  for (uint64_t seed : {0, 5}) {
    Runner run("Good", options());
    run.seed = seed;
    std::vector<float> x = ramp(128), y(128), z(64);
    run.add(x, "x", false);
    run.add(y, "y");
    run.add(z, "z");
    succeed(run.launch("namedBarriers", 1, 128, x, y));
    for (int i = 0; i < 128; ++i)
      EXPECT_EQ(y[i], x[i / 64 * 64 + 63 - i % 64]);
    succeed(run.launch("warpExchange", 1, 64, x, z));
    for (int i = 0; i < 64; ++i)
      EXPECT_EQ(z[i], x[i ^ 31]);
  }
}

TEST_P(EmulatorTest, Atomics) {
  Runner run("Good", options());
  int n = 500;
  std::vector<int> x(n), bins(16, 0), want(16, 0);
  for (int i = 0; i < n; ++i)
    ++want[x[i] = i * 7 % 16];
  run.add(x, "x", false);
  run.add(bins, "bins");
  LaunchReport report = succeed(run.launch("histogram", 4, 128, n, x, bins));
  EXPECT_EQ(bins, want);
  // An atomic reads and writes.
  EXPECT_EQ(report.total.requestedRead, 4u * n + 4 * 16 * 4);
  EXPECT_EQ(report.total.requestedWritten, 4u * 16 * 4);
  EXPECT_EQ(report.total.uniqueWritten, 64u);
}

TEST_P(EmulatorTest, AsynchronousCopies) {
  Runner run("Good", options());
  std::vector<float> x = ramp(128), y(128);
  run.add(x, "x", false);
  run.add(y, "y");
  LaunchReport report = succeed(run.launch("asyncReverse", 1, 128, x, y));
  for (int i = 0; i < 128; ++i)
    EXPECT_EQ(y[i], x[127 - i]);
  EXPECT_EQ(report.total.requestedRead, 512u);
}

TEST_P(EmulatorTest, SectorsShowCoalescing) {
  EmulatorOptions counting = options();
  counting.countSectors = true;
  Runner run("Good", counting);
  alignas(32) static float from[1024], to[1024];
  float *x = from, *y = to;
  ASSERT_FALSE(run.memory.registerBuffer(x, sizeof(from), "x", false));
  ASSERT_FALSE(run.memory.registerBuffer(y, sizeof(to), "y"));
  LaunchReport vector = succeed(run.launch("copyVector", 2, 128, x, y));
  EXPECT_EQ(vector.total.requestedRead, 4096u);
  EXPECT_EQ(vector.readSectors, 128u);
  EXPECT_EQ(vector.writtenSectors, 128u);
  EXPECT_EQ(vector.readRequests, 8u); // one a warp
  LaunchReport column = succeed(run.launch("copyColumn", 1, 32, x, y));
  EXPECT_EQ(column.total.requestedRead, 128u);
  EXPECT_EQ(column.readSectors, 32u);
  EXPECT_EQ(column.writtenSectors, 4u);
  EXPECT_EQ(column.readRequests, 1u);
}

TEST_P(EmulatorTest, ConstantsStructsAndLocalArrays) {
  Runner run("Good", options());
  std::vector<float> y(32), scaled(32, -1.0f);
  std::vector<int> x(32), squares(32);
  std::iota(x.begin(), x.end(), 0);
  run.add(y, "y");
  run.add(scaled, "scaled");
  run.add(x, "x", false);
  run.add(squares, "squares");
  succeed(run.launch("constantTable", 1, 32, y));
  struct {
    int n;
    float scale;
  } pair{20, 0.5f};
  succeed(run.launch("byValue", 1, 32, pair, scaled));
  succeed(run.launch("localArray", 1, 32, x, squares));
  for (int i = 0; i < 32; ++i) {
    EXPECT_EQ(y[i], i % 4 + 1);
    EXPECT_EQ(scaled[i], i < 20 ? 0.5f * i : -1.0f);
    EXPECT_EQ(squares[i], i * i);
  }
}

TEST_P(EmulatorTest, Maths) {
  Runner run("Good", options());
  int n = 32;
  std::vector<float> x(n), y(9 * n);
  for (int i = 0; i < n; ++i)
    x[i] = 0.125f * (i + 1);
  run.add(x, "x", false);
  run.add(y, "y");
  succeed(run.launch("maths", 1, n, x, y, n));
  for (int i = 0; i < n; ++i) {
    float v = x[i];
    EXPECT_NEAR(y[i], std::exp(v),
                1e-6f * std::exp(v)); // rounding of v·log2(e)
    EXPECT_FLOAT_EQ(y[n + i], std::log2(v));
    EXPECT_FLOAT_EQ(y[2 * n + i], 1 / std::sqrt(v));
    EXPECT_EQ(y[3 * n + i], 1 / v);
    EXPECT_EQ(y[4 * n + i], std::fma(v, v, 1.0f));
    EXPECT_EQ(y[5 * n + i], std::sqrt(v));
    EXPECT_EQ(y[6 * n + i], std::max(v, 1.5f));
    EXPECT_EQ(y[7 * n + i], std::min(v, 1.0f));
    EXPECT_EQ(y[8 * n + i], v); // the subnormal addend is flushed
  }
}

TEST(Emulator, HostThreadsDoNotChangeResults) {
  EmulatorOptions options;
  options.hostThreads = 4;
  Runner run("Good", options);
  run.seed = 3;
  int n = 64 * 128;
  std::vector<float> x = ramp(n), sums(64);
  run.add(x, "x", false);
  run.add(sums, "sums");
  LaunchReport report = succeed(run.launch("blockSum", 64, 128, n, x, sums));
  EXPECT_EQ(report.total.uniqueRead, 4u * n);
  for (int b = 0; b < 64; ++b)
    EXPECT_EQ(sums[b], 128 * 128 * b + 128 * 129 / 2); // exact in f32
}

TEST(Emulator, NarrowingToBFloatRoundsToEven) {
  OwnedModule owned = parseModule(R"(
target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @narrow(ptr addrspace(1) %x, ptr addrspace(1) %y) {
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %p = getelementptr float, ptr addrspace(1) %x, i32 %t
  %q = getelementptr bfloat, ptr addrspace(1) %y, i32 %t
  %v = load float, ptr addrspace(1) %p
  %n = fptrunc float %v to bfloat
  store bfloat %n, ptr addrspace(1) %q
  ret void
}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
)");
  auto emulator = Emulator::create(*owned.module);
  ASSERT_TRUE(bool(emulator)) << llvm::toString(emulator.takeError());
  std::vector<uint32_t> bits = {0x3f800000, 0x3f808000, 0x3f818000, 0x00000001,
                                0x00018000, 0x7f7fffff, 0x7f800001, 0xff800000};
  std::vector<uint16_t> want = {0x3f80, 0x3f80, 0x3f82, 0x0000,
                                0x0002, 0x7f80, 0x7fff, 0xff80};
  std::vector<uint16_t> got(bits.size());
  DeviceMemory memory;
  ASSERT_FALSE(memory.registerBuffer(bits.data(), bits.size() * 4, "x"));
  ASSERT_FALSE(memory.registerBuffer(got.data(), got.size() * 2, "y"));
  const void *x = bits.data(), *y = got.data();
  const void *arguments[] = {&x, &y};
  EmulatorLaunch launch;
  launch.block.x = bits.size();
  launch.arguments = arguments;
  succeed((*emulator)->launch("narrow", launch, memory));
  EXPECT_EQ(got, want);
}

} // namespace
