// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same modules on the CPU and on the emulator, and as PTX.
#include "Modules.h"
#include "RunModule.h"
#include <cmath>

using namespace jpmhc;
using namespace jpmhc::test;

namespace {

void expectNear(const std::vector<Array> &got, const std::vector<Array> &want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t r = 0; r < got.size(); ++r) {
    ASSERT_EQ(got[r].size(), want[r].size());
    // Sums of some hundred terms of order 1 in another order.
    for (size_t i = 0; i < got[r].size(); ++i)
      EXPECT_NEAR(got[r][i], want[r][i], 3e-5)
          << "result " << r << "[" << i << "]";
  }
}

class EmulatorOrders : public testing::TestWithParam<uint64_t> {
protected:
  void SetUp() override { emulator::setEmulatorSeed(GetParam()); }
  void TearDown() override { emulator::setEmulatorSeed(0); }
};

INSTANTIATE_TEST_SUITE_P(Seeds, EmulatorOrders, testing::Values(0, 1, 2));

TEST_P(EmulatorOrders, NormAddProduct) {
  std::vector<Array> inputs{normal(5 * 130, 1), normal(130, 2),
                            normal(3 * 130, 3)};
  expectNear(runModule(normAddProduct(130), inputs, "emulator"),
             runModule(normAddProduct(130), inputs, "cpu"));
}

TEST_P(EmulatorOrders, Reductions) {
  std::vector<Array> inputs{normal(40 * 6, 4)};
  expectNear(runModule(kReductions, inputs, "emulator"),
             runModule(kReductions, inputs, "cpu"));
}

class CompiledForGPU : public testing::Test {
protected:
  CompiledForGPU() {
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context = std::make_unique<mlir::MLIRContext>(registry);
  }

  llvm::Expected<GPUProgram> build(llvm::StringRef text,
                                   const GPUOptions &options) {
    module = mlir::parseSourceString<mlir::ModuleOp>(text, context.get(),
                                                     "model.mlir");
    return buildForGPU(*module, options);
  }

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

TEST_F(CompiledForGPU, KernelsBecomePTX) {
  for (const char *chip : {"sm_90a", "sm_100a"}) {
    GPUOptions options;
    options.chip = chip;
    auto program = build(normAddProduct(130), options);
    ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
    ASSERT_FALSE(program->kernels.empty());
    auto ptx = translateToPTX(*program->module, chip);
    ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
    for (const GPUKernelSpec &kernel : program->kernels)
      EXPECT_NE(ptx->find(".entry " + kernel.signature.name + "("),
                std::string::npos);
    EXPECT_NE(ptx->find("model.mlir"), std::string::npos); // the user's lines
    auto report = assemblePTX(*ptx, chip);
    ASSERT_TRUE(bool(report)) << llvm::toString(report.takeError());
    for (const KernelResources &kernel : report->kernels)
      EXPECT_EQ(kernel.spillStores, 0u) << kernel.name;
  }
}

TEST_F(CompiledForGPU, UnknownChip) {
  GPUOptions options;
  options.chip = "sm_70";
  auto program = build(normAddProduct(130), options);
  EXPECT_EQ(llvm::toString(program.takeError())
                .find("unknown chip: expected one of sm_80,"),
            0u);
}

TEST_F(CompiledForGPU, NothingToCompile) {
  auto program = build("func.func @f(%x: tensor<2xf32>) -> tensor<2xf32> { "
                       "return %x : tensor<2xf32> }",
                       {});
  ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
  auto executable = linkForEmulator(std::move(*program), {});
  ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
}

TEST_F(CompiledForGPU, TrafficOfANorm) {
  auto program = build(R"mlir(
    func.func @f(%x: tensor<6x256xf32>, %g: tensor<256xf32>) -> tensor<6x256xf32> {
      %y = jpmhc.rms_norm %x gain(%g) : (tensor<6x256xf32>, tensor<256xf32>) -> tensor<6x256xf32>
      return %y : tensor<6x256xf32>
    })mlir",
                       {});
  ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
  auto executable = linkForEmulator(std::move(*program), {});
  ASSERT_TRUE(bool(executable)) << llvm::toString(executable.takeError());
  Array x = normal(6 * 256, 1), g = normal(256, 2), y(6 * 256);
  alignas(64) static char arena[1 << 16];
  ASSERT_LE((*executable)->entries()[0].arenaBytes, int64_t(sizeof(arena)));
  void *buffers[] = {x.data(), g.data(), y.data(), arena};
  jpmhcContext *device = nullptr;
  ASSERT_EQ(jpmhcContextCreate("emulator", &device), JPMHC_OK);
  ASSERT_EQ((*executable)->run(0, device, buffers), JPMHC_OK)
      << jpmhcLastError(device);
  jpmhcContextDestroy(device);
  ASSERT_EQ((*executable)->getKernels().size(), 1u);
  const emulator::KernelTotals &totals = (*executable)->getKernels()[0].totals;
  EXPECT_EQ(totals.launches, 1u);
  EXPECT_EQ(totals.rows, 6);
  // x and the gain once each, y once.
  EXPECT_EQ(totals.traffic.uniqueRead, 4u * (6 * 256 + 256));
  EXPECT_EQ(totals.traffic.uniqueWritten, 4u * 6 * 256);
  EXPECT_GE(totals.traffic.requestedRead, totals.traffic.uniqueRead);
}

} // namespace
