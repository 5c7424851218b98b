// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What several passes do with parallel loops, and expect of the functions they
// are in.
#ifndef JPMHC_LIB_TRANSFORMS_PARALLELLOOPS_H
#define JPMHC_LIB_TRANSFORMS_PARALLELLOOPS_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace jpmhc {

/// Inlines the combiner of one reduction at the builder's position.
mlir::Value inlineReduction(mlir::OpBuilder &builder, mlir::Region &reduction,
                            mlir::Value carried, mlir::Value term);

/// Replaces a one-dimensional parallel loop by a sequential one; returns its
/// results.
mlir::ValueRange lowerParallelToFor(mlir::scf::ParallelOp loop);

/// Gives the parallel loops that stand after `before` (null: from the start of
/// the block) and before `end` the name of the kernel they become.
void nameKernels(mlir::Operation *before, mlir::Operation *end,
                 llvm::StringRef name);

/// An error unless the function, which is `what`, has one block.
mlir::LogicalResult requireSingleBlock(mlir::func::FuncOp function,
                                       llvm::StringRef what);

} // namespace jpmhc

#endif // JPMHC_LIB_TRANSFORMS_PARALLELLOOPS_H
