// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program of outlined kernels computes and moves.
#ifndef JPMHC_ANALYSIS_COST_H
#define JPMHC_ANALYSIS_COST_H

#include "mlir/IR/BuiltinOps.h"
#include <cstdint>
#include <string>
#include <vector>

namespace jpmhc {

/// Operations and bytes of something; numbers that depend on a loop whose
/// length is known at run time only count one iteration of it.
struct Work {
  /// Floating-point operations; a transcendental function counts
  /// kFunctionFlops.
  int64_t flops = 0;
  /// Bytes of loads and stores of buffers that outlive a row.
  int64_t bytes = 0;
  /// Whether every loop's length was known.
  bool exact = true;
};

/// About what a polynomial approximation takes.
inline constexpr int64_t kFunctionFlops = 16;

/// All runs of a kernel at one line of the user's program.
struct KernelCost {
  std::string entry, kernel, location;
  int64_t calls = 0;
  Work work;
  /// Bytes of the kernel's buffers, each read and written at most once.
  int64_t floor = 0;
};

/// The kernels of every entry, in the order of their first run. Functions
/// called several times count as often. `module` is what the pipeline
/// jpmhc-to-kernels makes; a function that calls itself is an error.
mlir::FailureOr<std::vector<KernelCost>> costOf(mlir::ModuleOp module);

} // namespace jpmhc

#endif // JPMHC_ANALYSIS_COST_H
