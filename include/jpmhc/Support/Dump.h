// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The program after each stage of compilation, for people who look inside.
#ifndef JPMHC_SUPPORT_DUMP_H
#define JPMHC_SUPPORT_DUMP_H

#include "mlir/IR/BuiltinOps.h"

namespace jpmhc {

/// Writes `module` to the folder that the setting JPMHC_DUMP names, as
/// `NNNN-what.mlir` with one number for the whole process; does nothing where
/// it names none. A folder that cannot be written is reported once.
void dumpStage(mlir::ModuleOp module, llvm::StringRef what);

} // namespace jpmhc

#endif // JPMHC_SUPPORT_DUMP_H
