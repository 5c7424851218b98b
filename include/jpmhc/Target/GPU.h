// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a module for a GPU: kernels to NVVM-level LLVM IR, from which come
// PTX and the emulator's code, and host code that launches them.
#ifndef JPMHC_TARGET_GPU_H
#define JPMHC_TARGET_GPU_H

#include "jpmhc/Runtime/EmulatorDevice.h"
#include "jpmhc/Target/CPU.h"
#include "jpmhc/Target/PTX.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

namespace jpmhc {

/// How a module is compiled for a GPU.
struct GPUOptions {
  /// One of getPTXChips().
  std::string chip = kDefaultPTXChip.str();
  PTXOptions ptx;
  /// How the host code is compiled.
  CPUOptions host;
};

/// A kernel's arguments and how it is launched.
struct GPUKernelSpec {
  KernelSpec signature;
  /// Threads of a block, along x.
  int64_t blockThreads;
  /// Block b works on rows from lower + b * rowsPerBlock.
  int64_t rowsPerBlock;
};

/// A module compiled as far as the chip does not matter.
struct GPUProgram {
  std::vector<EntrySpec> entries;
  std::vector<GPUKernelSpec> kernels;
  /// The kernels, with NVVM intrinsics; null when there is none.
  std::unique_ptr<llvm::LLVMContext> context;
  std::unique_ptr<llvm::Module> module;
  /// Host code. It refers to a symbol with the name of each kernel, whose
  /// address is the kernel's handle on the device.
  CPUObject host;
};

/// Compiles every public function of `module` (left unchanged). Diagnostics go
/// to the context's handler. Error: an unknown chip.
llvm::Expected<GPUProgram> buildForGPU(mlir::ModuleOp module,
                                       const GPUOptions &options);

/// A program that runs on the device "emulator".
class EmulatedExecutable : public Executable {
public:
  /// The kernels with what their launches added up to so far.
  virtual llvm::ArrayRef<emulator::EmulatedKernel> getKernels() const = 0;
};

/// Compiles the kernels for emulation and links the host code.
llvm::Expected<std::unique_ptr<EmulatedExecutable>>
linkForEmulator(GPUProgram program, const GPUOptions &options);

/// buildForGPU and linkForEmulator.
llvm::Expected<std::unique_ptr<EmulatedExecutable>>
compileForEmulator(mlir::ModuleOp module, const GPUOptions &options);

} // namespace jpmhc

#endif // JPMHC_TARGET_GPU_H
