// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What verifiers and shape inference of several families share.
#ifndef JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H
#define JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"

namespace jpmhc {

/// The type of an operand or a result that ODS says is a ranked tensor.
inline mlir::RankedTensorType typeOf(mlir::Value tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType());
}

} // namespace jpmhc

#endif // JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H
