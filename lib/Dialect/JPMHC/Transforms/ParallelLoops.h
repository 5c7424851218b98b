// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the CPU and the GPU lowering of parallel loops share.
#ifndef JPMHC_DIALECT_JPMHC_TRANSFORMS_PARALLELLOOPS_H
#define JPMHC_DIALECT_JPMHC_TRANSFORMS_PARALLELLOOPS_H

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace jpmhc {

/// Inlines the combiner of one reduction at the builder's position.
mlir::Value inlineReduction(mlir::OpBuilder &builder, mlir::Region &reduction,
                            mlir::Value carried, mlir::Value term);

/// Replaces a one-dimensional parallel loop by a sequential one; returns its
/// results.
mlir::ValueRange lowerParallelToFor(mlir::scf::ParallelOp loop);

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_TRANSFORMS_PARALLELLOOPS_H
