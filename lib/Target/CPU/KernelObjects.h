// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine code of a program's kernels, from the cache or from several threads.
#ifndef JPMHC_LIB_TARGET_CPU_KERNELOBJECTS_H
#define JPMHC_LIB_TARGET_CPU_KERNELOBJECTS_H

#include "jpmhc/Target/CPU.h"
#include <atomic>
#include <thread>

namespace jpmhc {

/// Builds the objects of a program's kernels, each in an MLIR context of its
/// own: a context that several threads run passes on at once loads dialects
/// while others use it.
class KernelObjects {
public:
  KernelObjects(const CPUOptions &options, llvm::StringRef settings)
      : options(options), settings(settings) {}
  ~KernelObjects();
  KernelObjects(const KernelObjects &) = delete;
  KernelObjects &operator=(const KernelObjects &) = delete;

  /// Takes a module with one outlined kernel: loads its object, or notes down
  /// what is to be compiled. The module is not needed afterwards.
  void add(mlir::ModuleOp kernel);

  /// Starts threads that compile what has to be; call it after the last `add`.
  /// With JPMHC_DUMP, compiles it here.
  void start();

  /// Takes part in the work, waits for its end, and returns the objects in the
  /// order of `add`. What went wrong is reported to the handler of `context`;
  /// the error is the first kernel's that failed.
  llvm::Expected<std::vector<CPUObject>> finish(mlir::MLIRContext *context);

  /// Kernels that the cache did not have.
  int64_t numCompiled() const { return static_cast<int64_t>(order.size()); }

private:
  struct Message {
    std::string text, file; ///< no file: no position
    unsigned line = 0, column = 0;
  };
  struct Kernel {
    std::string name, digest;
    std::string bytecode; ///< empty when the object came from the cache
    std::unique_ptr<llvm::MemoryBuffer> code;
    std::string failure;
    std::vector<Message> messages;
  };

  void work();
  void compile(Kernel &kernel, mlir::MLIRContext &context) const;
  void join();

  const CPUOptions &options;
  std::string settings;
  std::vector<Kernel> kernels;
  std::vector<size_t> order; ///< of those to compile, the longest first
  std::atomic<size_t> next{0};
  std::atomic<bool> stopped{false}; ///< nothing more is begun
  std::vector<std::thread> threads;
};

} // namespace jpmhc

#endif // JPMHC_LIB_TARGET_CPU_KERNELOBJECTS_H
