// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program says about differentiation.
#ifndef JPMHC_CORE_OPS_TD
#define JPMHC_CORE_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"
include "mlir/IR/SymbolInterfaces.td"

def JPMHC_StopGradientOp : JPMHC_Op<"stop_gradient", [Pure, AllTypesMatch<["x", "y"]>,
                                                     DeclareOpInterfaceMethods<JPMHC_DifferentiableOpInterface>]> {
  let summary = "a value through which no gradient flows back";
  let description = [{
    `y = x`, with derivative zero. `jpmhc-differentiate` replaces `y` by `x` once it has made the derivatives; nothing
    folds the op before.

    Example:
    ```mlir
    %y = jpmhc.stop_gradient %x : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins AnyType:$x);
  let results = (outs AnyType:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def JPMHC_VjpOp : JPMHC_Op<"vjp", [Pure, AttrSizedOperandSegments,
                                   DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a call of a function together with its vector-Jacobian product";
  let description = [{
    Calls `callee` on `inputs` and returns its results, then one gradient for each position in `wrt`:
    `Σ_j (∂result_j / ∂input_i)ᵀ cotangent_j`. `cotangents` are those of the first results; the other results are
    auxiliary. A loss is a function whose first result is a `tensor<f32>`, with one cotangent of 1.
    `jpmhc-differentiate` replaces the op by the calculation.

    Example:
    ```mlir
    func.func private @loss(%w: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> {
      %y = arith.mulf %w, %x : tensor<4xf32>
      return %y : tensor<4xf32>
    }
    func.func @f(%w: tensor<4xf32>, %x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
      %y, %dw = jpmhc.vjp @loss(%w, %x) cotangents(%dy) wrt [0]
        : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
      return %y, %dw : tensor<4xf32>, tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<AnyType>:$inputs, Variadic<AnyType>:$cotangents,
                       DenseI64ArrayAttr:$wrt);
  let results = (outs Variadic<AnyType>:$outputs);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `cotangents` `(` $cotangents `)` `wrt` $wrt attr-dict `:` functional-type(operands, results)
  }];
}

#endif // JPMHC_CORE_OPS_TD
