// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Every fault is caught, with its place, and does no harm: the emulator runs
// on.

#include "Modules.h"

using namespace jpmhc::test;
using namespace jpmhc::emulator;

namespace {

/// What a launch failed with.
struct Caught {
  bool isFault = false;
  FaultKind kind{};
  Dim3 block, thread;
  std::string text;
};

Caught catchFault(llvm::Expected<LaunchReport> report) {
  Caught caught;
  if (report) {
    ADD_FAILURE() << "the launch succeeded";
    return caught;
  }
  llvm::handleAllErrors(
      report.takeError(),
      [&](const EmulatorFault &fault) {
        caught = {true, fault.kind, fault.block, fault.thread, fault.message()};
      },
      [&](const llvm::ErrorInfoBase &other) { caught.text = other.message(); });
  return caught;
}

void expectFault(const Caught &caught, FaultKind kind,
                 const std::string &text) {
  EXPECT_TRUE(caught.isFault) << caught.text;
  EXPECT_EQ(toString(caught.kind), toString(kind)) << caught.text;
  EXPECT_NE(caught.text.find(text), std::string::npos) << caught.text;
}

/// Seeds under which a fault must be found: in the natural order, and in
/// others.
class FaultTest : public testing::TestWithParam<uint64_t> {
protected:
  FaultTest() : run("Bad") { run.seed = GetParam(); }

  void expectLine(const Caught &caught, const std::string &kernel,
                  const std::string &text) {
    unsigned line = findLine("Bad.cu", text, "KERNEL " + kernel + "(");
    EXPECT_NE(caught.text.find("Bad.cu:" + std::to_string(line) + ":"),
              std::string::npos)
        << "expected line " << line << ", got " << caught.text;
  }

  Runner run;
};

INSTANTIATE_TEST_SUITE_P(Seeds, FaultTest, testing::Values(0, 1, 2, 3));

TEST_P(FaultTest, RemovedBarrierIsARace) {
  std::vector<float> x(128, 1.0f), sums(1);
  run.add(x, "x", false);
  run.add(sums, "sums");
  Caught caught = catchFault(run.launch("missingBarrier", 1, 128, x, sums));
  ASSERT_TRUE(caught.isFault);
  // The order decides whether the value is read too early or overtaken.
  EXPECT_TRUE(caught.kind == FaultKind::DataRace ||
              caught.kind == FaultKind::UninitializedShared)
      << caught.text;
  EXPECT_NE(caught.text.find("shared variable"), std::string::npos)
      << caught.text;
  EXPECT_NE(caught.text.find("missingBarrier"), std::string::npos)
      << caught.text;
}

TEST_P(FaultTest, OutOfBoundsNamesBufferThreadAndLine) {
  int n = 100;
  std::vector<float> y(n);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("pastTheEnd", 2, 64, n, y));
  expectFault(caught, FaultKind::OutOfBounds,
              "byte 400 of buffer 'y' (400 bytes)");
  expectLine(caught, "pastTheEnd", "one too far");
  EXPECT_EQ(caught.block.x, 1u);
  EXPECT_EQ(caught.thread.x, 36u);
}

TEST_P(FaultTest, UnregisteredBuffer) {
  int n = 10;
  std::vector<float> y(n + 1);
  Caught caught = catchFault(run.launch("pastTheEnd", 1, 32, n, y));
  expectFault(caught, FaultKind::OutOfBounds, "in no registered buffer");
}

TEST_P(FaultTest, OneSharedVariableIntoTheNext) {
  std::vector<float> y(32);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("pastShared", 1, 32, y));
  expectFault(caught, FaultKind::OutOfBounds,
              "0 bytes past the end of shared variable");
  expectLine(caught, "pastShared", "one too far");
  EXPECT_EQ(caught.thread.x, 31u);
}

TEST_P(FaultTest, BarrierThatSomeThreadsMiss) {
  std::vector<float> y(32);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("divergentBarrier", 1, 32, y));
  expectFault(caught, FaultKind::Deadlock,
              "barrier 0 waits for 32 threads, 16 came");
  expectFault(caught, FaultKind::Deadlock, "has exited");
  expectLine(caught, "divergentBarrier", "not for all");
}

TEST_P(FaultTest, AlignedBarriersAtTwoPlaces) {
  std::vector<float> y(32);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("twoBarriers", 1, 32, y));
  expectFault(caught, FaultKind::DivergentCollective,
              "at different instructions");
}

TEST_P(FaultTest, UnwrittenSharedMemory) {
  std::vector<float> y(64);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("uninitialized", 1, 64, y));
  expectFault(caught, FaultKind::UninitializedShared,
              "byte 252 of shared variable");
  expectLine(caught, "uninitialized", "thread 63");
  EXPECT_EQ(caught.thread.x, 63u);
}

TEST_P(FaultTest, RacesInGlobalMemory) {
  std::vector<float> y(64), z(64);
  run.add(y, "y");
  run.add(z, "z");
  expectFault(catchFault(run.launch("globalRace", 1, 64, y)),
              FaultKind::DataRace, "with no barrier between them");
  expectFault(catchFault(run.launch("blockRace", 2, 32, y)),
              FaultKind::DataRace, "blocks are not ordered");
  expectFault(catchFault(run.launch("readAcrossBlocks", 4, 32, y, z)),
              FaultKind::DataRace, "blocks are not ordered");
}

TEST_P(FaultTest, Misaligned) {
  std::vector<float> x(64), y(32);
  run.add(x, "x", false);
  run.add(y, "y");
  expectFault(catchFault(run.launch("misaligned", 1, 32, x, y)),
              FaultKind::Misaligned, "expected a multiple of 4");
}

TEST_P(FaultTest, ReadOnlyBuffer) {
  int n = 8;
  std::vector<float> y(n + 1);
  run.add(y, "y", /*writable=*/false);
  expectFault(catchFault(run.launch("pastTheEnd", 1, 32, n, y)),
              FaultKind::ReadOnlyWrite, "buffer 'y', which is read-only");
}

TEST_P(FaultTest, ShuffleWithoutHalfTheWarp) {
  std::vector<float> x(32), y(32);
  run.add(x, "x", false);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("halfWarpShuffle", 1, 32, x, y));
  ASSERT_TRUE(caught.isFault) << caught.text;
  // Whether the others are gone already depends on the order.
  EXPECT_TRUE(caught.kind == FaultKind::DivergentCollective ||
              caught.kind == FaultKind::Deadlock)
      << caught.text;
  expectLine(caught, "halfWarpShuffle", "the other half is missing");
}

TEST_P(FaultTest, WarpsAreNotInStep) {
  std::vector<float> x(32), y(32);
  run.add(x, "x", false);
  run.add(y, "y");
  Caught caught = catchFault(run.launch("noWarpSync", 1, 32, x, y));
  ASSERT_TRUE(caught.isFault) << caught.text;
  EXPECT_TRUE(caught.kind == FaultKind::DataRace ||
              caught.kind == FaultKind::UninitializedShared);
}

TEST_P(FaultTest, AsynchronousCopyWithoutAWait) {
  std::vector<float> x(32), y(32);
  run.add(x, "x", false);
  run.add(y, "y");
  expectFault(catchFault(run.launch("noAsyncWait", 1, 32, x, y)),
              FaultKind::UninitializedShared, "which nothing has written");
}

TEST_P(FaultTest, Trap) {
  std::vector<int> x(32, 1);
  x[7] = -1;
  run.add(x, "x");
  Caught caught = catchFault(run.launch("traps", 1, 32, x));
  expectFault(caught, FaultKind::Trap, "trapped");
  EXPECT_EQ(caught.thread.x, 7u);
}

TEST_P(FaultTest, BarrierNumber) {
  int id = 16;
  expectFault(catchFault(run.launch("barrierSixteen", 1, 32, id)),
              FaultKind::InvalidOperand,
              "expected a barrier from 0 to 15, got 16");
}

TEST(Fault, EndlessLoop) {
  EmulatorOptions options;
  options.maxAccesses = 1000;
  Runner run("Bad", options);
  std::vector<int> flag(1, 0);
  run.add(flag, "flag");
  expectFault(catchFault(run.launch("spins", 1, 32, flag)),
              FaultKind::AccessLimit, "more than 1000 accesses");
}

TEST(Fault, TheEmulatorRunsOn) {
  Runner run("Bad");
  std::vector<float> y(64);
  run.add(y, "y");
  for (int i = 0; i < 3; ++i)
    expectFault(catchFault(run.launch("uninitialized", 1, 64, y)),
                FaultKind::UninitializedShared, "");
  int n = 63;
  succeed(run.launch("pastTheEnd", 1, 64, n, y));
}

TEST(Fault, BadLaunches) {
  Runner run("Good");
  std::vector<float> y(64);
  run.add(y, "y");
  auto text = [&](llvm::StringRef kernel, unsigned grid, unsigned block) {
    Caught caught = catchFault(run.launch(kernel, grid, block, y));
    EXPECT_FALSE(caught.isFault);
    return caught.text;
  };
  EXPECT_NE(text("nothing", 1, 32).find("unknown kernel: expected one of "),
            std::string::npos);
  EXPECT_EQ(text("saxpy", 1, 32),
            "kernel 'saxpy': expected 4 arguments, got 1");
  EXPECT_EQ(
      text("constantTable", 1, 1025),
      "kernel 'constantTable': expected a block of at most 1024 threads within "
      "(1024,1024,64), got (1025,1,1)");
  EXPECT_EQ(text("constantTable", 0, 32),
            "kernel 'constantTable': expected a grid within "
            "(2147483647,65535,65535), got (0,1,1)");
  EXPECT_EQ(
      text("bounded", 1, 128),
      "kernel 'bounded': expected a block of at most 64 threads, got 128");
  run.dynamicSharedBytes = 227 * 1024 + 1;
  EXPECT_EQ(text("constantTable", 1, 32),
            "kernel 'constantTable': expected at most 232448 bytes of shared "
            "memory, got 232449");
}

TEST(Fault, OverlappingBuffers) {
  std::vector<float> y(64);
  DeviceMemory memory;
  ASSERT_FALSE(memory.registerBuffer(y.data(), 64, "a"));
  EXPECT_EQ(llvm::toString(memory.registerBuffer(y.data() + 15, 64, "b")),
            "buffer 'b' overlaps buffer 'a'");
  EXPECT_FALSE(memory.registerBuffer(y.data() + 16, 64, "c"));
  EXPECT_NE(
      llvm::toString(memory.registerBuffer(nullptr, 64, "n")).find("got null"),
      std::string::npos);
  EXPECT_FALSE(memory.unregisterBuffer(y.data()));
  EXPECT_NE(llvm::toString(memory.unregisterBuffer(y.data()))
                .find("registered buffer"),
            std::string::npos);
}

std::string createError(llvm::StringRef body) {
  OwnedModule owned =
      parseModule(("target triple = \"nvptx64-nvidia-cuda\"\n"
                   "declare float @__nv_expf(float)\n"
                   "declare void @llvm.nvvm.barrier.cluster.arrive()\n"
                   "define ptx_kernel void @k(ptr %p) {\n" +
                   body + "\n  ret void\n}\n")
                      .str());
  auto emulator = Emulator::create(*owned.module);
  return emulator ? "" : llvm::toString(emulator.takeError());
}

TEST(Fault, ModulesThatCannotBeEmulated) {
  EXPECT_EQ(
      createError(
          "  %v = call float @__nv_expf(float 1.0)\n  store float %v, ptr %p"),
      "expected every called function to be defined, got calls of __nv_expf");
  EXPECT_EQ(createError("  call void @llvm.nvvm.barrier.cluster.arrive()"),
            "the emulator does not know llvm.nvvm.barrier.cluster.arrive in k");
  EXPECT_EQ(createError("  call void asm sideeffect \"bar.sync 0;\", \"\"()"),
            "the emulator does not run inline assembly: 'bar.sync 0;' in k");
}

} // namespace
