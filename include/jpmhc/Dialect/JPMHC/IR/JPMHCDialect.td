// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_DIALECT_TD
#define JPMHC_DIALECT_TD

include "mlir/IR/OpBase.td"

def JPMHC_Dialect : Dialect {
  let name = "jpmhc";
  let cppNamespace = "::jpmhc";
  let summary = "side paths, manifold-projected hyper-connections and what a training step needs around them";
  let description = [{
    The dialect holds only what upstream lacks, as operations on ranked tensors with value semantics. Element-wise
    arithmetic is `arith` and `math` on tensors, products are `linalg.contract`, shapes are `tensor`. Every type may
    have dynamic dimensions; storage is f32, bf16 or f16; arithmetic inside an op is f32 or better.
  }];
  let useDefaultAttributePrinterParser = 1;
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let dependentDialects = [
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect",
    "::mlir::linalg::LinalgDialect",
  ];
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

#endif // JPMHC_DIALECT_TD
