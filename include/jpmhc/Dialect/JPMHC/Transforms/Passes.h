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

/// Argument attribute: the function overwrites this buffer and returns it.
inline constexpr llvm::StringLiteral kInPlaceAttrName = "jpmhc.inplace";
/// Function attribute: for each result of the original function the argument
/// that it is, or -1.
inline constexpr llvm::StringLiteral kAliasesAttrName = "jpmhc.aliases";
/// Function attribute: was public in the user's module.
inline constexpr llvm::StringLiteral kEntryAttrName = "jpmhc.entry";
/// Function attribute: bytes of arena that a call needs.
inline constexpr llvm::StringLiteral kArenaBytesAttrName = "jpmhc.arena_bytes";
/// Attribute of a loop or function: name of the kernel it becomes.
inline constexpr llvm::StringLiteral kKernelNameAttrName = "jpmhc.kernel";

/// On a launch: for each argument, whether the kernel writes to it.
inline constexpr llvm::StringLiteral kWrittenAttrName = "jpmhc.written";
/// Attribute of a loop: its rows are groups of tokens (see
/// KernelBuilder::tokens).
inline constexpr llvm::StringLiteral kTokensAttrName = "jpmhc.tokens";
/// On a loop over chunks of rows: the number of rows. Its body holds one loop
/// over the rows of a chunk.
inline constexpr llvm::StringLiteral kChunksAttrName = "jpmhc.chunks";

/// Attributes of a GPU kernel: threads of a block, and rows that a block works
/// on.
inline constexpr llvm::StringLiteral kBlockAttrName = "jpmhc.block";
inline constexpr llvm::StringLiteral kRowsPerBlockAttrName =
    "jpmhc.rows_per_block";

/// Attaches bufferization to every op that emits its own kernel.
void registerBufferization(mlir::DialectRegistry &registry);

/// Attaches reverse-mode rules to the upstream ops that have one.
void registerUpstreamDerivatives(mlir::DialectRegistry &registry);

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_TRANSFORMS_PASSES_H
