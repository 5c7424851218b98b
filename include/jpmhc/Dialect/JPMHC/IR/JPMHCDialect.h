// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_DIALECT_JPMHC_IR_JPMHCDIALECT_H
#define JPMHC_DIALECT_JPMHC_IR_JPMHCDIALECT_H

#include "jpmhc/Dialect/JPMHC/IR/Names.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"

#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h.inc"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCEnums.h.inc"

namespace jpmhc {
class Manifold;
class ManifoldParameters;
} // namespace jpmhc

#define GET_ATTRDEF_CLASSES
#include "jpmhc/Dialect/JPMHC/IR/JPMHCAttributes.h.inc"

namespace jpmhc {

/// The target set on the module that holds `op`; a generic CPU when none is
/// set.
TargetAttr getTarget(mlir::Operation *op);

} // namespace jpmhc

#endif // JPMHC_DIALECT_JPMHC_IR_JPMHCDIALECT_H
