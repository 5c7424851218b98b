// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_DIALECT_JPMHC_TRANSFORMS_PASSES_H
#define JPMHC_DIALECT_JPMHC_TRANSFORMS_PASSES_H

#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace jpmhc {

#define GEN_PASS_DECL
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"

/// Attaches bufferization to every op that emits its own kernel.
void registerBufferization(mlir::DialectRegistry &registry);

/// Attaches reverse-mode rules to the upstream ops that have one.
void registerUpstreamDerivatives(mlir::DialectRegistry &registry);

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_TRANSFORMS_PASSES_H
