// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reverse-mode differentiation of a list of ops, shared by functions and by the
// bodies of `linalg.generic`.
#ifndef JPMHC_LIB_TRANSFORMS_REVERSESWEEP_H
#define JPMHC_LIB_TRANSFORMS_REVERSESWEEP_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

namespace jpmhc {

/// A float, or a tensor of floats.
bool isFloatLike(mlir::Type type);

/// `value` repeated in the type (and shape) of `like`, a float or a tensor of
/// floats.
mlir::Value constantLike(mlir::OpBuilder &builder, mlir::Location loc,
                         mlir::Value like, double value);

/// Zero in the type of `like`, or in its shape with another `element` type; a
/// tensor is a `linalg.fill`.
mlir::Value zeroLike(mlir::OpBuilder &builder, mlir::Location loc,
                     mlir::Value like, mlir::Type element = {});

/// `value` converted to the floating-point element type `element`.
mlir::Value convertElements(mlir::OpBuilder &builder, mlir::Location loc,
                            mlir::Value value, mlir::Type element);

/// Every value that an op uses from outside: its operands, then what its
/// regions capture.
llvm::SmallVector<mlir::Value> getUsedValues(mlir::Operation *op);

/// Erases what is not used in a block, last op first. `func.call` counts as
/// pure.
void eraseDeadOps(mlir::Block &block);

/// Cotangents on their way from the results of a list of ops to the values that
/// they are differentiated by. A value is *varied* when it depends on one of
/// those through floating-point values; only varied values get a cotangent.
class ReverseSweep {
public:
  using CallRule = llvm::function_ref<mlir::LogicalResult(
      mlir::func::CallOp call, mlir::OpBuilder &builder,
      mlir::ValueRange cotangents, const llvm::BitVector &needed,
      llvm::MutableArrayRef<mlir::Value> gradients)>;

  /// `ops` in the order of execution.
  ReverseSweep(llvm::ArrayRef<mlir::Operation *> ops, mlir::ValueRange wrt);

  /// Adds a contribution to the cotangent of `value`; nothing happens unless it
  /// is varied.
  void add(mlir::Value value, mlir::Value cotangent);

  /// Applies the rules of the ops, last op first, at the builder's insertion
  /// point. `callRule` serves `func.call`, which has no rule of its own.
  mlir::LogicalResult run(mlir::OpBuilder &builder, CallRule callRule);

  /// The sum of the contributions to `value`; null when there is none.
  mlir::Value getCotangent(mlir::OpBuilder &builder, mlir::Value value);

private:
  mlir::LogicalResult visit(mlir::Operation *op, mlir::OpBuilder &builder,
                            CallRule callRule);

  llvm::ArrayRef<mlir::Operation *> ops;
  llvm::DenseSet<mlir::Value> varied;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> contributions;
};

} // namespace jpmhc

#endif // JPMHC_LIB_TRANSFORMS_REVERSESWEEP_H
