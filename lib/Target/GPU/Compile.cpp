// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Target/CPUCodeGen.h"
#include "jpmhc/Target/GPU.h"
#include "jpmhc/Target/Lowering.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/Transforms/Passes.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;
using namespace jpmhc;

/// Kernels to the NVVM dialect, every instruction with the user's line.
static void buildKernels(OpPassManager &pm) {
  buildKernelsToNVVMPipeline(pm);
  LLVM::DIScopeForLLVMFuncOpPassOptions lines;
  lines.emissionKind = LLVM::DIEmissionKind::LineTablesOnly;
  pm.addPass(LLVM::createDIScopeForLLVMFuncOpPass(lines));
}

static llvm::Error readKernels(GPUProgram &program, gpu::GPUModuleOp kernels,
                               llvm::StringMap<KernelSpec> &signatures) {
  for (auto function : kernels.getOps<LLVM::LLVMFuncOp>()) {
    auto block = function->getAttrOfType<IntegerAttr>(kBlockAttrName);
    auto rows = function->getAttrOfType<IntegerAttr>(kRowsPerBlockAttrName);
    if (function.isExternal() || !block || !rows)
      continue;
    program.kernels.push_back(
        {signatures[function.getName()], block.getInt(), rows.getInt()});
  }
  if (program.kernels.empty())
    return llvm::Error::success();
  program.context = std::make_unique<llvm::LLVMContext>();
  program.module =
      translateModuleToLLVMIR(kernels, *program.context, "kernels");
  if (!program.module)
    return llvm::createStringError(
        "expected the translation of the kernels to LLVM IR to succeed");
  return llvm::Error::success();
}

llvm::Expected<GPUProgram> jpmhc::buildForGPU(ModuleOp module,
                                              const GPUOptions &options) {
  if (llvm::Error error = checkPTXChip(options.chip))
    return error;
  initializeNativeTarget();
  module->getContext()
      ->loadDialect<JPMHCDialect>(); // a module may hold upstream ops alone
  GPUProgram program;
  if (auto error = checkStaticShapes(module))
    return error;
  program.entries = signaturesOf(module);
  OwningOpRef<ModuleOp> host = module.clone();
  host->getOperation()->setAttr(kTargetAttrName,
                                TargetAttr::get(module->getContext(),
                                                TargetKind::gpu, options.chip,
                                                /*lanes=*/1));
  if (auto error =
          runPipeline(*host, buildToKernelsPipeline, "lowering to kernels"))
    return error;
  if (auto error = completeSignatures(program.entries, *host))
    return error;
  llvm::StringMap<KernelSpec> signatures;
  for (auto function : host->getOps<func::FuncOp>())
    if (function->hasAttr(kKernelNameAttrName))
      signatures[function.getName()] = kernelSpecOf(function);
  if (auto error = runPipeline(*host, buildKernels, "lowering the kernels"))
    return error;
  gpu::GPUModuleOp kernels = *host->getOps<gpu::GPUModuleOp>().begin();
  if (auto error = readKernels(program, kernels, signatures))
    return error;
  kernels.erase();
  if (auto error =
          runPipeline(*host, buildHostToLLVMPipeline, "lowering the host code"))
    return error;
  auto code = generateObject(*host, options.host, "host");
  if (!code)
    return code.takeError();
  program.host = {"host", std::move(*code)};
  return program;
}

namespace {
class Emulated : public EmulatedExecutable {
public:
  llvm::ArrayRef<EntrySpec> entries() const override { return host->entries(); }
  const CompilationReport &report() const override { return host->report(); }
  int32_t run(size_t entry, jpmhcContext *context,
              void **buffers) const override {
    return host->run(entry, context, buffers);
  }
  llvm::ArrayRef<emulator::EmulatedKernel> getKernels() const override {
    return kernels;
  }

  std::unique_ptr<emulator::Emulator> emulator;
  std::vector<emulator::EmulatedKernel> kernels; // the host code points here
  std::unique_ptr<Executable> host;
};
} // namespace

llvm::Expected<std::unique_ptr<EmulatedExecutable>>
jpmhc::linkForEmulator(GPUProgram program, const GPUOptions &options) {
  if (emulator::registerEmulatorDevice() != JPMHC_OK)
    return llvm::createStringError(jpmhcLastError(nullptr));
  auto executable = std::make_unique<Emulated>();
  if (program.module) {
    emulator::EmulatorOptions emulation;
    emulation.chip = options.chip;
    emulation.optLevel = options.ptx.optLevel;
    auto created = emulator::Emulator::create(*program.module, emulation);
    if (!created)
      return created.takeError();
    executable->emulator = std::move(*created);
  }
  for (const GPUKernelSpec &spec : program.kernels) {
    emulator::EmulatedKernel kernel;
    kernel.emulator = executable->emulator.get();
    kernel.name = spec.signature.name;
    kernel.blockThreads = static_cast<uint32_t>(spec.blockThreads);
    kernel.rowsPerBlock = spec.rowsPerBlock;
    executable->kernels.push_back(std::move(kernel));
  }
  llvm::StringMap<void *> handles;
  for (emulator::EmulatedKernel &kernel : executable->kernels)
    handles[kernel.name] = &kernel;
  CPUProgram host;
  host.entries = std::move(program.entries);
  host.objects.push_back(std::move(program.host));
  auto linked = linkForCPU(std::move(host), handles);
  if (!linked)
    return linked.takeError();
  executable->host = std::move(*linked);
  return executable;
}

llvm::Expected<std::unique_ptr<EmulatedExecutable>>
jpmhc::compileForEmulator(ModuleOp module, const GPUOptions &options) {
  auto program = buildForGPU(module, options);
  if (!program)
    return program.takeError();
  return linkForEmulator(std::move(*program), options);
}
