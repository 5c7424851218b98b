// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What verifiers and shape inference of several families share.
#ifndef JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H
#define JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Value.h"

namespace jpmhc {

/// The type of an operand or a result that ODS says is a ranked tensor.
inline mlir::RankedTensorType typeOf(mlir::Value tensor) {
  return mlir::cast<mlir::RankedTensorType>(tensor.getType());
}

/// Constant ids must be rows of a table of `count`, or `allowed`.
inline mlir::LogicalResult
verifyConstantIds(mlir::Operation *op, llvm::StringRef name, mlir::Value ids,
                  int64_t count, std::optional<int64_t> allowed = {}) {
  mlir::DenseIntElementsAttr known;
  if (mlir::ShapedType::isDynamic(count) ||
      !mlir::matchPattern(ids, mlir::m_Constant(&known)))
    return mlir::success();
  int64_t place = 0, end = known.isSplat() ? std::min<int64_t>(1, known.size())
                                           : known.size();
  for (auto id = known.value_begin<llvm::APInt>(); place < end; ++place, ++id) {
    int64_t value = (*id).getSExtValue();
    if ((value < 0 || value >= count) && value != allowed)
      return op->emitOpError("expected ")
             << name << " in [0, " << count << "), got " << value
             << " at element " << place;
  }
  return mlir::success();
}

} // namespace jpmhc

#endif // JPMHC_LIB_DIALECT_JPMHC_IR_SHAPES_H
