// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
#define JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/Interfaces.td"

def JPMHC_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::jpmhc";
  let description = [{
    An op with a reverse-mode rule. The rule may use the op's operands and results: whatever it uses is kept (or
    recomputed) for the backward pass, nothing else is.
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the vector-Jacobian product at the builder's insertion point. `cotangents` has one value a result,
        null where no gradient reaches the result (treat as zero). Fills `gradients`, one entry an operand (already
        sized, all null): leave null where the gradient is zero or the operand is not differentiable. `needed` has a
        bit an operand: entries that are not needed may be left null to save work.
        Returns failure after emitting a diagnostic if the op has no rule in this form.
      }], "::llvm::LogicalResult", "buildVjp",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$cotangents, "const ::llvm::BitVector &":$needed,
           "::llvm::MutableArrayRef<::mlir::Value>":$gradients)>,
  ];
}

#endif // JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_TD
