// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled programs as their callers see them, whatever they run on.
#ifndef JPMHC_TARGET_EXECUTABLE_H
#define JPMHC_TARGET_EXECUTABLE_H

#include "llvm/ADT/ArrayRef.h"
#include <cstdint>
#include <string>
#include <vector>

struct jpmhcContext;

namespace jpmhc {

/// One buffer of an entry's signature.
struct BufferSpec {
  std::vector<int64_t> shape; ///< empty for a scalar
  std::string dtype; ///< "f32", "bf16", "f16", "i32", "i64", "i1", "index"
  /// False: a scalar, passed by pointer to its value.
  bool isTensor = false;
  /// An argument that the function overwrites.
  bool inPlace = false;

  int64_t elements() const;
  int64_t bytes() const;
};

/// A function of the user's module. Its symbol in the host code is the name
/// with kEntrySuffix behind it; a shared library has both.
struct EntrySpec {
  std::string name;
  std::vector<BufferSpec> arguments, results;
  /// For each result the argument whose buffer it is, or -1 when the caller
  /// gives an array for it.
  std::vector<int64_t> aliases;
  int64_t arenaBytes = 0;
};

/// A kernel's arguments: the bounds of its rows, then these.
struct KernelSpec {
  std::string name;
  std::vector<BufferSpec> arguments;
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

} // namespace jpmhc

#endif // JPMHC_TARGET_EXECUTABLE_H
