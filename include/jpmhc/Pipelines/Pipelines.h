// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The named pipelines, each a list of passes that jpmhc-opt can run alone.
#ifndef JPMHC_PIPELINES_PIPELINES_H
#define JPMHC_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassManager.h"

namespace jpmhc {

/// Every dialect and external model that the compiler uses.
void registerAllDialects(mlir::DialectRegistry &registry);

/// Tensors to a host function that launches outlined kernels over planned
/// memory; the same for every target.
void buildToKernelsPipeline(mlir::OpPassManager &pm);

/// One module with CPU kernels to the LLVM dialect.
void buildKernelsToLLVMPipeline(mlir::OpPassManager &pm);

/// Outlined kernels (of a GPU target) to one gpu.module in the NVVM dialect.
void buildKernelsToNVVMPipeline(mlir::OpPassManager &pm);

/// The host module (kernels only declared) to the LLVM dialect.
void buildHostToLLVMPipeline(mlir::OpPassManager &pm);

/// Makes the pipelines known to `jpmhc-opt` by name.
void registerPipelines();

} // namespace jpmhc

#endif // JPMHC_PIPELINES_PIPELINES_H
