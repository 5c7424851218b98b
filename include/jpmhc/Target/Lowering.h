// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What compilation for every target begins with.
#ifndef JPMHC_TARGET_LOWERING_H
#define JPMHC_TARGET_LOWERING_H

#include "jpmhc/Target/Executable.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace jpmhc {

/// Signatures as the user wrote them, in the order of the module's public
/// functions.
std::vector<EntrySpec> signaturesOf(mlir::ModuleOp module);

/// Adds what the pipeline decided: aliases and arena.
llvm::Error completeSignatures(std::vector<EntrySpec> &entries,
                               mlir::ModuleOp module);

/// The arguments of an outlined kernel.
KernelSpec kernelSpecOf(mlir::func::FuncOp kernel);

/// An error unless every shape of the module's functions is static; which
/// dimension is not is in the diagnostics.
llvm::Error checkStaticShapes(mlir::ModuleOp module);

/// Runs a pipeline; the error says that `what` failed, why is in the
/// diagnostics, or that it was interrupted (see InterruptScope).
llvm::Error runPipeline(mlir::ModuleOp module,
                        llvm::function_ref<void(mlir::OpPassManager &)> build,
                        llvm::StringRef what);

} // namespace jpmhc

#endif // JPMHC_TARGET_LOWERING_H
