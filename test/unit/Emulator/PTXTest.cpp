// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels that the emulator runs, as PTX, through ptxas where there is one.

#include "jpmhc/Target/PTX.h"
#include "Modules.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Target/TargetMachine.h"

#include <cstdlib>

using namespace jpmhc;
using namespace jpmhc::test;

namespace {

class EveryChip : public testing::TestWithParam<std::string> {};

INSTANTIATE_TEST_SUITE_P(Chips, EveryChip, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (llvm::StringRef chip : getPTXChips())
                             names.push_back(chip.str());
                           return names;
                         }()));

TEST_P(EveryChip, TranslatesAndAssembles) {
  OwnedModule owned = loadModule("Good");
  auto ptx = translateToPTX(*owned.module, GetParam());
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find(".target " + GetParam()), std::string::npos);
  EXPECT_NE(ptx->find(".entry blockSum("), std::string::npos);
  EXPECT_NE(ptx->find("shfl.sync.down.b32"), std::string::npos);
  EXPECT_NE(ptx->find("ld.global.nc"),
            std::string::npos); // x of saxpy is noalias
  EXPECT_NE(ptx->find("fma.rn.f32"),
            std::string::npos); // clang's contract flag
  auto report = assemblePTX(*ptx, GetParam());
  ASSERT_TRUE(bool(report)) << llvm::toString(report.takeError());
  if (!report->assembled) {
    EXPECT_EQ(report->note,
              "not assembled: no ptxas in JPMHC_PTXAS, CUDA_HOME or PATH");
    GTEST_SKIP() << report->note;
  }
  EXPECT_FALSE(report->cubin.empty());
  auto kernel = llvm::find_if(report->kernels, [](const KernelResources &k) {
    return k.name == "blockSum";
  });
  ASSERT_NE(kernel, report->kernels.end());
  EXPECT_GT(kernel->registers, 0u);
  EXPECT_EQ(kernel->sharedBytes, 512u);
  EXPECT_EQ(kernel->barriers, 1u);
  EXPECT_EQ(kernel->spillStores, 0u);
}

TEST(PTX, UnknownChipListsTheKnown) {
  std::string text = llvm::toString(checkPTXChip("sm_999"));
  EXPECT_EQ(text.find("unknown chip: expected one of sm_80, sm_86,"), 0u)
      << text;
  EXPECT_NE(text.find("sm_100a"), std::string::npos);
  EXPECT_NE(text.find("got 'sm_999'"), std::string::npos);
  EXPECT_NE(
      llvm::toString(createPTXTargetMachine("").takeError()).find("got ''"),
      std::string::npos);
}

TEST(PTX, ISAVersion) {
  OwnedModule owned = loadModule("Good");
  PTXOptions options;
  options.isaVersion = 85;
  EXPECT_EQ(
      llvm::toString(
          translateToPTX(*owned.module, "sm_100a", options).takeError()),
      "expected a PTX ISA version of at least 86 for chip sm_100a, got 85");
  options.isaVersion = 79;
  EXPECT_EQ(llvm::toString(
                translateToPTX(*owned.module, "sm_90", options).takeError())
                .find("unknown PTX ISA version: expected one of 70, 71,"),
            0u);
  options.isaVersion = 87;
  auto ptx = translateToPTX(*owned.module, "sm_90", options);
  ASSERT_TRUE(bool(ptx)) << llvm::toString(ptx.takeError());
  EXPECT_NE(ptx->find(".version 8.7"), std::string::npos);
}

std::string translationError(llvm::StringRef body) {
  OwnedModule owned = parseModule(("target triple = \"nvptx64-nvidia-cuda\"\n"
                                   "declare float @__nv_expf(float)\n"
                                   "declare float @llvm.exp.f32(float)\n"
                                   "declare float @llvm.sin.f32(float)\n"
                                   "define ptx_kernel void @k(ptr %p) {\n"
                                   "  %x = load float, ptr %p\n" +
                                   body + "\n  ret void\n}\n")
                                      .str());
  auto ptx = translateToPTX(*owned.module, "sm_90");
  return ptx ? "" : llvm::toString(ptx.takeError());
}

TEST(PTX, UndefinedFunctionsAreNamed) {
  EXPECT_EQ(
      translationError(
          "  %v = call float @__nv_expf(float %x)\n  store float %v, ptr %p"),
      "expected every called function to be defined, got calls of __nv_expf");
}

TEST(PTX, UnselectableIntrinsicsAreNamed) {
  EXPECT_EQ(translationError("  %v = call float @llvm.exp.f32(float %x)\n"
                             "  %w = call float @llvm.sin.f32(float %v)\n"
                             "  store float %w, ptr %p"),
            "no PTX instruction for llvm.exp.f32, llvm.sin.f32");
  EXPECT_EQ(translationError("  %w = call afn float @llvm.sin.f32(float %x)\n"
                             "  store float %w, ptr %p"),
            "");
}

TEST(PTX, NoKernel) {
  OwnedModule owned = parseModule("target triple = \"nvptx64-nvidia-cuda\"\n"
                                  "define void @f() {\n  ret void\n}\n");
  EXPECT_EQ(
      llvm::toString(translateToPTX(*owned.module, "sm_90").takeError()),
      "expected a function with the ptx_kernel calling convention, got none");
}

TEST(PTX, ContractionIsTheCodesChoice) {
  const char *text = "target triple = \"nvptx64-nvidia-cuda\"\n"
                     "define ptx_kernel void @k(ptr %p, float %a) {\n"
                     "  %x = load float, ptr %p\n"
                     "  %m = fmul float %x, %a\n"
                     "  %s = fadd float %m, 3.0\n"
                     "  store float %s, ptr %p\n  ret void\n}\n";
  OwnedModule owned = parseModule(text);
  auto apart = translateToPTX(*owned.module, "sm_90");
  ASSERT_TRUE(bool(apart));
  EXPECT_EQ(apart->find("fma.rn"), std::string::npos);
  PTXOptions options;
  options.fuseEveryMultiplyAdd = true;
  auto fused = translateToPTX(*owned.module, "sm_90", options);
  ASSERT_TRUE(bool(fused));
  EXPECT_NE(fused->find("fma.rn"), std::string::npos);
}

/// Sets an environment variable for the life of the object.
class ScopedEnvironment {
public:
  ScopedEnvironment(const char *name, const char *value) : name(name) {
    if (const char *old = std::getenv(name))
      previous = old;
    setenv(name, value, 1);
  }
  ~ScopedEnvironment() {
    if (previous.empty())
      unsetenv(name);
    else
      setenv(name, previous.c_str(), 1);
  }

private:
  const char *name;
  std::string previous;
};

TEST(Ptxas, BadOverrideAndNone) {
  {
    ScopedEnvironment ptxas("JPMHC_PTXAS", "/nonexistent/ptxas; true");
    EXPECT_EQ(llvm::toString(findPtxas().takeError()),
              "expected JPMHC_PTXAS to name an executable file, got "
              "'/nonexistent/ptxas; true'");
  }
  ScopedEnvironment none("JPMHC_PTXAS", ""), home("CUDA_HOME", "/nonexistent"),
      path("PATH", "/nonexistent");
  auto report = assemblePTX(".version 8.0", "sm_90");
  ASSERT_TRUE(bool(report)) << llvm::toString(report.takeError());
  EXPECT_FALSE(report->assembled);
  EXPECT_EQ(report->note,
            "not assembled: no ptxas in JPMHC_PTXAS, CUDA_HOME or PATH");
}

TEST(Ptxas, RejectedTextIsAnErrorWithItsMessage) {
  auto ptxas = findPtxas();
  ASSERT_TRUE(bool(ptxas)) << llvm::toString(ptxas.takeError());
  if (ptxas->empty())
    GTEST_SKIP() << "no ptxas";
  auto report = assemblePTX(
      ".version 8.0\n.target sm_90\n.address_size 64\nnonsense\n", "sm_90");
  std::string text = llvm::toString(report.takeError());
  EXPECT_EQ(text.find("ptxas failed for chip sm_90:"), 0u) << text;
  EXPECT_NE(text.find("nonsense"), std::string::npos) << text;
}

TEST(Ptxas, Report) {
  auto kernels = parsePtxasReport(
      "ptxas info    : 0 bytes gmem\n"
      "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
      "ptxas info    : Function properties for a\n"
      "    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 2 barriers, 1024 bytes smem, "
      "380 bytes cmem[0]\n"
      "ptxas info    : Function properties for helper\n"
      "    99 bytes stack frame, 99 bytes spill stores, 99 bytes spill loads\n"
      "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
      "ptxas info    : Function properties for b\n"
      "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
      "ptxas info    : Used 10 registers\n");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0].name, "a");
  EXPECT_EQ(kernels[0].stackFrame, 16u);
  EXPECT_EQ(kernels[0].spillStores, 24u);
  EXPECT_EQ(kernels[0].spillLoads, 32u);
  EXPECT_EQ(kernels[0].registers, 255u);
  EXPECT_EQ(kernels[0].barriers, 2u);
  EXPECT_EQ(kernels[0].sharedBytes, 1024u);
  EXPECT_EQ(kernels[1].registers, 10u);
  EXPECT_EQ(kernels[1].sharedBytes, 0u);
}

} // namespace
