// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a module for the machine it runs on and runs its functions.
#ifndef JPMHC_TARGET_CPU_H
#define JPMHC_TARGET_CPU_H

#include "jpmhc/Target/CompilationCache.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct jpmhcContext;

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

struct CPUOptions {
  CPUTarget target = CPUTarget::host();
  unsigned optLevel = 2;
  /// Instrument the generated code with LLVM's address sanitizer; the process
  /// must hold its runtime. Set by `JPMHC_SANITIZE_KERNELS=address`.
  bool sanitizeAddress = sanitizeAddressByDefault();
  /// Where compiled code is kept between runs.
  CompilationCache cache = CompilationCache::fromEnvironment();

  static bool sanitizeAddressByDefault();
};

/// One buffer of an entry's signature.
struct BufferSpec {
  std::vector<int64_t> shape; ///< empty for a scalar
  std::string dtype; ///< "f32", "bf16", "f16", "i32", "i64", "i1", "index"
  bool isTensor;     ///< false: a scalar, passed by pointer to its value
  bool inPlace;      ///< an argument that the function overwrites
};

/// A function of the user's module. Its symbol in the host code is the name
/// with kEntrySuffix behind it; a shared library has both.
struct EntrySpec {
  std::string name;
  std::vector<BufferSpec> arguments, results;
  /// For each result the argument whose buffer it is, or -1 when the caller
  /// gives an array for it.
  std::vector<int64_t> aliases;
  int64_t arenaBytes;
};

/// A kernel's arguments: the bounds of its rows, then these.
struct KernelSpec {
  std::string name;
  std::vector<BufferSpec> arguments;
};

/// One object file of a program.
struct CPUObject {
  std::string name;
  std::unique_ptr<llvm::MemoryBuffer> code;
};

/// What a compilation did, and the seconds that it took.
struct CompilationReport {
  bool fromCache = false; ///< the whole program: no pass ran
  /// Kernels that the cache did not have.
  int64_t compiledKernels = 0;
  /// Tensors to kernels; kernels and host code to objects (or loading those);
  /// linking all objects into the process.
  double loweringSeconds = 0, codeSeconds = 0, linkSeconds = 0;
};

/// Machine code of a module: an object a kernel, and last that of the host code
/// that launches them.
struct CPUProgram {
  std::vector<EntrySpec> entries;
  std::vector<KernelSpec> kernels;
  std::vector<CPUObject> objects;
  CompilationReport report;
};

/// Compiled code, ready to run; owns its machine code.
class Executable {
public:
  virtual ~Executable() = default;
  virtual llvm::ArrayRef<EntrySpec> entries() const = 0;
  virtual const CompilationReport &report() const = 0;

  /// Runs entry number `entry`. `buffers` holds one pointer for each argument,
  /// then one for each result that is no alias of an argument, then the arena
  /// (`arenaBytes` bytes, aligned to 64). Returns a status of the launch ABI.
  virtual int32_t run(size_t entry, jpmhcContext *context,
                      void **buffers) const = 0;
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
