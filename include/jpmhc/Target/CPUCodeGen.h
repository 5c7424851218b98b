// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// LLVM dialect to machine code for one processor: kernels of a CPU, and the
// host code of every target.
#ifndef JPMHC_TARGET_CPUCODEGEN_H
#define JPMHC_TARGET_CPUCODEGEN_H

#include "jpmhc/Target/CPU.h"
#include "llvm/Support/MemoryBuffer.h"

namespace jpmhc {

/// Must run before anything else of LLVM's code generation; cheap to repeat.
void initializeNativeTarget();

/// Translates a module in the LLVM dialect, optimises it and returns an object
/// file.
llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
generateObject(mlir::ModuleOp module, const CPUOptions &options,
               llvm::StringRef name);

} // namespace jpmhc

#endif // JPMHC_TARGET_CPUCODEGEN_H
