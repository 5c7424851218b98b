// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names of the dialect's discardable attributes and of the symbols that passes,
// targets and the runtime agree on. The dialect verifies what the attributes
// hold (JPMHCDialect::verifyOperationAttribute).
#ifndef JPMHC_DIALECT_JPMHC_IR_NAMES_H
#define JPMHC_DIALECT_JPMHC_IR_NAMES_H

#include "llvm/ADT/StringRef.h"

namespace jpmhc {

// ---- modules

/// The target of a module (TargetAttr).
inline constexpr llvm::StringLiteral kTargetAttrName = "jpmhc.target";

// ---- functions and their arguments

/// Argument: the function overwrites this buffer and returns it (UnitAttr).
inline constexpr llvm::StringLiteral kInPlaceAttrName = "jpmhc.inplace";
/// Function: for each result of the original function the argument that it is,
/// or -1 (DenseI64ArrayAttr).
inline constexpr llvm::StringLiteral kAliasesAttrName = "jpmhc.aliases";
/// Function: was public in the user's module (UnitAttr).
inline constexpr llvm::StringLiteral kEntryAttrName = "jpmhc.entry";
/// Function: bytes of arena that a call needs (IntegerAttr).
inline constexpr llvm::StringLiteral kArenaBytesAttrName = "jpmhc.arena_bytes";

// ---- kernels and the loops that become one

/// Loop: name of the kernel it becomes (StringAttr); function: is a kernel
/// (UnitAttr).
inline constexpr llvm::StringLiteral kKernelNameAttrName = "jpmhc.kernel";
/// Launch: for each argument, whether the kernel writes to it
/// (DenseBoolArrayAttr).
inline constexpr llvm::StringLiteral kWrittenAttrName = "jpmhc.written";
/// Loop: its rows are groups of tokens, see KernelBuilder::tokens (UnitAttr).
inline constexpr llvm::StringLiteral kTokensAttrName = "jpmhc.tokens";
/// Loop over chunks of rows: the number of rows (IntegerAttr). Its body holds
/// one loop over the rows of a chunk.
inline constexpr llvm::StringLiteral kChunksAttrName = "jpmhc.chunks";
/// Loop that only lays out parameters in another way, see
/// KernelBuilder::preparation (UnitAttr).
inline constexpr llvm::StringLiteral kPreparesAttrName = "jpmhc.prepares";
/// GPU kernel: threads of a block (IntegerAttr).
inline constexpr llvm::StringLiteral kBlockAttrName = "jpmhc.block";
/// GPU kernel: rows that a block works on (IntegerAttr).
inline constexpr llvm::StringLiteral kRowsPerBlockAttrName =
    "jpmhc.rows_per_block";

// ---- symbols of the host code
//
// A user's function may be called like a function of the C library or of the
// launch ABI. Symbols of compiled code have a dot, which those never have.

/// A function of the user's module in the host code, internal.
inline constexpr llvm::StringLiteral kStepSuffix = ".step";
/// What the caller of an entry finds: `i32 (ptr context, ptr arguments)`.
inline constexpr llvm::StringLiteral kEntrySuffix = ".entry";

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_IR_NAMES_H
