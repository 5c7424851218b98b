// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a module for the machine it runs on and runs its functions.
#ifndef JPMHC_TARGET_CPU_H
#define JPMHC_TARGET_CPU_H

#include "jpmhc/Target/CompilationCache.h"
#include "jpmhc/Target/Executable.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace jpmhc {

/// The processor code is generated for.
struct CPUTarget {
  std::string triple, chip, features;
  int64_t lanes; ///< f32 in a vector register: 16 (AVX-512), 8 (AVX2), else 4

  /// The machine this process runs on.
  static CPUTarget host();
  /// A processor by LLVM's name; an error for an unknown one.
  static llvm::Expected<CPUTarget> named(llvm::StringRef chip);
};

/// How a module is compiled for a CPU.
struct CPUOptions {
  CPUTarget target = CPUTarget::host();
  /// LLVM's optimisation level, 0 to 3.
  unsigned optLevel = 2;
  /// Instrument the generated code with LLVM's address sanitizer; the process
  /// must hold its runtime. Set by `JPMHC_SANITIZE_KERNELS=address`.
  bool sanitizeAddress = sanitizeAddressByDefault();
  /// Where compiled code is kept between runs.
  CompilationCache cache = CompilationCache::fromEnvironment();

  static bool sanitizeAddressByDefault();
};

/// One object file of a program.
struct CPUObject {
  std::string name;
  std::unique_ptr<llvm::MemoryBuffer> code;
};

/// Machine code of a module: an object a kernel, and last that of the host code
/// that launches them.
struct CPUProgram {
  std::vector<EntrySpec> entries;
  std::vector<KernelSpec> kernels;
  std::vector<CPUObject> objects;
  CompilationReport report;
};

/// Machine code for every public function of `module` (left unchanged), from
/// the cache where it has it. Diagnostics go to the context's handler.
llvm::Expected<CPUProgram> buildForCPU(mlir::ModuleOp module,
                                       const CPUOptions &options);

/// Links a program into this process. `handles` are addresses of symbols that
/// it refers to besides the runtime's: of kernels of another device.
llvm::Expected<std::unique_ptr<Executable>>
linkForCPU(CPUProgram program, const llvm::StringMap<void *> &handles = {});

/// Both of them.
llvm::Expected<std::unique_ptr<Executable>>
compileForCPU(mlir::ModuleOp module, const CPUOptions &options);

} // namespace jpmhc

#endif // JPMHC_TARGET_CPU_H
