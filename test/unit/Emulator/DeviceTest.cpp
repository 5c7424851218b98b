// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulator behind the launch ABI.

#include "Modules.h"
#include "jpmhc/Runtime/EmulatorDevice.h"
#include "jpmhc/Runtime/Launch.h"

#include <cmath>

using namespace jpmhc::test;
using namespace jpmhc::emulator;

namespace {

/// Kernels with the signature that launches give them: bounds, then arguments.
constexpr const char *kernels = R"(
target triple = "nvptx64-nvidia-cuda"
declare i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()

define ptx_kernel void @scale(i64 %lo, i64 %hi, ptr %x, float %a) {
  %block = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %first = mul i32 %block, 64
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %linear = add i32 %first, %thread
  %wide = zext i32 %linear to i64
  %row = add i64 %lo, %wide
  %inside = icmp slt i64 %row, %hi
  br i1 %inside, label %body, label %end
body:
  %p = getelementptr float, ptr %x, i64 %row
  %v = load float, ptr %p
  %r = fmul float %v, %a
  store float %r, ptr %p
  br label %end
end:
  ret void
}
)";

class DeviceTest : public testing::Test {
protected:
  void SetUp() override {
    OwnedModule owned = parseModule(kernels);
    auto created = Emulator::create(*owned.module);
    ASSERT_TRUE(bool(created)) << llvm::toString(created.takeError());
    emulator = std::move(*created);
    ASSERT_EQ(registerEmulatorDevice(), JPMHC_OK);
    ASSERT_EQ(registerEmulatorDevice(), JPMHC_OK);
    ASSERT_EQ(jpmhcContextCreate("emulator", &context), JPMHC_OK)
        << jpmhcLastError(nullptr);
    scale.emulator = emulator.get();
    scale.name = "scale";
    scale.blockThreads = 64;
    scale.rowsPerBlock = 64;
    kernel.name = "scale";
    kernel.location = "model.py:7:3";
    kernel.handle = &scale;
    kernel.numArgs = 2;
    kernel.argKinds = kinds;
    kernel.argBytes = bytes;
  }
  void TearDown() override { jpmhcContextDestroy(context); }

  int32_t launch(int64_t lo, int64_t hi) {
    void *args[] = {x.data(), &factor};
    return jpmhcLaunch(context, &kernel, nullptr, lo, hi, 1, args);
  }

  std::unique_ptr<Emulator> emulator;
  jpmhcContext *context = nullptr;
  EmulatedKernel scale;
  jpmhcKernel kernel = {};
  const uint8_t kinds[2] = {JPMHC_ARG_BUFFER, JPMHC_ARG_SCALAR};
  const int64_t bytes[2] = {400, 4};
  std::vector<float> x = std::vector<float>(101, 1.0f);
  float factor = 3.0f;
};

TEST_F(DeviceTest, LaunchesRowsAndAddsUpTraffic) {
  ASSERT_EQ(launch(10, 100), JPMHC_OK) << jpmhcLastError(context);
  for (int i = 0; i < 101; ++i)
    EXPECT_EQ(x[i], i >= 10 && i < 100 ? 3.0f : 1.0f) << i;
  ASSERT_EQ(launch(10, 100), JPMHC_OK) << jpmhcLastError(context);
  EXPECT_EQ(scale.totals.launches, 2u);
  EXPECT_EQ(scale.totals.rows, 180);
  EXPECT_EQ(scale.totals.traffic.requestedRead, 720u);
  EXPECT_EQ(scale.totals.traffic.uniqueWritten, 720u);
}

TEST_F(DeviceTest, FaultIsAStatusWithTheUsersLine) {
  EXPECT_EQ(launch(0, 101), JPMHC_LAUNCH_FAILED);
  std::string text = jpmhcLastError(context);
  EXPECT_EQ(text.find("model.py:7:3: out of bounds in kernel 'scale'"), 0u)
      << text;
  EXPECT_NE(text.find("byte 400 of buffer 'argument 0' (400 bytes)"),
            std::string::npos)
      << text;
  EXPECT_EQ(x[100], 1.0f);
}

TEST_F(DeviceTest, KernelWithoutAHandle) {
  kernel.handle = nullptr;
  EXPECT_EQ(launch(0, 10), JPMHC_INVALID_ARGUMENT);
}

TEST_F(DeviceTest, MemoryCopiesAndProducts) {
  void *memory = nullptr;
  ASSERT_EQ(jpmhcAlloc(context, 1000, &memory), JPMHC_OK);
  EXPECT_EQ(jpmhcPeakBytes(context), 1024);
  EXPECT_TRUE(std::isnan(static_cast<float *>(memory)[200])); // unwritten
  ASSERT_EQ(jpmhcCopy(context, nullptr, memory, x.data(), 400), JPMHC_OK);
  EXPECT_EQ(static_cast<float *>(memory)[99], 1.0f);
  float a[4] = {1, 2, 3, 4}, b[4] = {5, 6, 7, 8}, c[4];
  ASSERT_EQ(jpmhcGemm(context, nullptr, JPMHC_F32, JPMHC_F32, 0, 0, 2, 2, 2, a,
                      2, b, 2, 0.0f, c, 2, nullptr),
            JPMHC_OK);
  EXPECT_EQ(c[3], 3 * 6 + 4 * 8);
  EXPECT_EQ(jpmhcFree(context, memory), JPMHC_OK);
}

} // namespace
