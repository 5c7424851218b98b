// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Target/PTX.h"
#include "jpmhc/Target/Passes.h"
#include "mlir/Pass/PassRegistry.h"

using namespace mlir;
using namespace jpmhc;

namespace {
struct CPUPipelineOptions : PassPipelineOptions<CPUPipelineOptions> {
  Option<std::string> chip{
      *this, "chip",
      llvm::cl::desc("processor by LLVM's name; this machine's by default")};
};

struct PTXPipelineOptions : PassPipelineOptions<PTXPipelineOptions> {
  Option<std::string> chip{*this, "chip", llvm::cl::desc("GPU, such as sm_90a"),
                           llvm::cl::init(kDefaultPTXChip.str())};
};
} // namespace

static void setTarget(OpPassManager &pm, StringRef kind, StringRef chip) {
  SetTargetOptions options;
  options.kind = kind.str();
  options.chip = chip.str();
  pm.addPass(createSetTarget(options));
}

static void buildToCPU(OpPassManager &pm, const CPUPipelineOptions &options) {
  setTarget(pm, "cpu", options.chip);
  buildToKernelsPipeline(pm);
  pm.addPass(createSplitKernels());
  buildKernelsToLLVMPipeline(pm.nest<ModuleOp>());
  buildHostToLLVMPipeline(pm);
}

static void buildToPTX(OpPassManager &pm, const PTXPipelineOptions &options) {
  setTarget(pm, "gpu", options.chip);
  buildToKernelsPipeline(pm);
  buildKernelsToNVVMPipeline(pm);
  pm.addPass(createKernelsToPTX());
  buildHostToLLVMPipeline(pm);
}

void jpmhc::registerTargetPipelines() {
  PassPipelineRegistration<CPUPipelineOptions>(
      "jpmhc-to-cpu",
      "tensors to host code and kernels in the LLVM dialect for a CPU",
      buildToCPU);
  PassPipelineRegistration<PTXPipelineOptions>(
      "jpmhc-to-ptx",
      "tensors to host code in the LLVM dialect and kernels in PTX",
      buildToPTX);
}
