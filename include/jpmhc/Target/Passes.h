// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The passes that know targets, and the pipelines that end in their code.
#ifndef JPMHC_TARGET_PASSES_H
#define JPMHC_TARGET_PASSES_H

#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Pass/Pass.h"

namespace jpmhc {

#define GEN_PASS_DECL
#include "jpmhc/Target/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "jpmhc/Target/Passes.h.inc"

/// Makes `jpmhc-to-cpu` and `jpmhc-to-ptx` known by name.
void registerTargetPipelines();

} // namespace jpmhc

#endif // JPMHC_TARGET_PASSES_H
