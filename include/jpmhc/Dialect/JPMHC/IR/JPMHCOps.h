// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_DIALECT_JPMHC_IR_JPMHCOPS_H
#define JPMHC_DIALECT_JPMHC_IR_JPMHCOPS_H

#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Interfaces/DifferentiableOpInterface.h"
#include "jpmhc/Interfaces/KernelOpInterface.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#define GET_OP_CLASSES
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h.inc"

namespace jpmhc {

/// How many logits a token of a hyper-connection has: those of the read map,
/// the write map and the manifold.
int64_t streamLogitsSize(ManifoldAttr manifold, ReadWriteKind kind, int64_t n);

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_IR_JPMHCOPS_H
