// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Target/PTX.h"
#include "jpmhc/Target/Passes.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace jpmhc {
#define GEN_PASS_DEF_KERNELSTOPTX
#include "jpmhc/Target/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static llvm::Expected<std::string> translate(gpu::GPUModuleOp kernels,
                                             StringRef chip) {
  llvm::LLVMContext context;
  auto module = translateModuleToLLVMIR(kernels, context, kernels.getName());
  if (!module)
    return llvm::createStringError(
        "expected the translation of the kernels to LLVM IR to succeed");
  return translateToPTX(*module, chip);
}

namespace {
struct KernelsToPTXPass : jpmhc::impl::KernelsToPTXBase<KernelsToPTXPass> {
  void runOnOperation() override {
    auto target = getOperation()->getAttrOfType<TargetAttr>(kTargetAttrName);
    if (!target || target.getKind() != TargetKind::gpu) {
      emitError(getOperation().getLoc())
          << "expected a module with a GPU as " << kTargetAttrName;
      return signalPassFailure();
    }
    for (auto kernels :
         llvm::to_vector(getOperation().getOps<gpu::GPUModuleOp>()))
      if (failed(replace(kernels, target.getChip())))
        return signalPassFailure();
  }

private:
  LogicalResult replace(gpu::GPUModuleOp kernels, StringRef chip) {
    auto ptx = translate(kernels, chip);
    if (!ptx)
      return emitError(kernels.getLoc()) << llvm::toString(ptx.takeError());
    OpBuilder builder(kernels);
    MLIRContext *context = &getContext();
    auto target = NVVM::NVVMTargetAttr::get(context, /*optLevel=*/2,
                                            "nvptx64-nvidia-cuda", chip);
    auto object = gpu::ObjectAttr::get(
        context, target, gpu::CompilationTarget::Assembly,
        builder.getStringAttr(*ptx), DictionaryAttr(), gpu::KernelTableAttr());
    gpu::BinaryOp::create(builder, kernels.getLoc(), kernels.getName(),
                          /*offloadingHandler=*/Attribute(),
                          ArrayRef<Attribute>{object});
    kernels.erase();
    return success();
  }
};
} // namespace
