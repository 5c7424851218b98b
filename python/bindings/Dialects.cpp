// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Bindings.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace jpmhc::python {

const mlir::DialectRegistry &getDialectRegistry() {
  static const mlir::DialectRegistry registry = [] {
    mlir::DialectRegistry r;
    r.insert<mlir::arith::ArithDialect, mlir::func::FuncDialect,
             mlir::linalg::LinalgDialect, mlir::math::MathDialect,
             mlir::tensor::TensorDialect>();
    return r;
  }();
  return registry;
}

} // namespace jpmhc::python
