// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Normalisations of rows.
#ifndef JPMHC_NORM_OPS_TD
#define JPMHC_NORM_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

def JPMHC_RMSNormOp : JPMHC_DifferentiableOp<"rms_norm", [AllTypesMatch<["x", "y"]>]> {
  let summary = "root-mean-square normalisation of rows";
  let description = [{
    `y = x / sqrt(mean(x²) + eps) · gain` along the last dimension; statistics in f32.

    Shapes: `x`, `y` [..., D]; `gain` [D].

    Example:
    ```mlir
    %y = jpmhc.rms_norm %x gain(%g) {eps = 1.0e-5 : f32} : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, Optional<JPMHC_FloatVector>:$gain,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = "$x (`gain` `(` $gain^ `)`)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def JPMHC_RMSNormVjpOp : JPMHC_KernelOp<"rms_norm_vjp"> {
  let summary = "reverse-mode rule of `jpmhc.rms_norm`";
  let description = [{
    With `x̂ = x·r`, `r = 1/sqrt(mean(x²) + eps)` and `g = dy · gain`: `dx = r (g − x̂ mean(g x̂))`,
    `dgain = Σ_rows dy · x̂` (a fixed number of partial sums, so the result does not depend on threads).

    Shapes: `x`, `dy`, `dx` [..., D]; `gain`, `dgain` [D] (absent together).

    Example:
    ```mlir
    %dx, %dg = jpmhc.rms_norm_vjp %x, %dy gain(%g) {eps = 1.0e-5 : f32}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> (tensor<4x8xf32>, tensor<8xf32>)
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, JPMHC_FloatTensor:$dy, Optional<JPMHC_FloatVector>:$gain,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_FloatTensor:$dx, Optional<JPMHC_FloatVector>:$dgain);
  let assemblyFormat = "$x `,` $dy (`gain` `(` $gain^ `)`)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def JPMHC_LayerNormOp : JPMHC_DifferentiableOp<"layer_norm", [AllTypesMatch<["x", "y"]>, AttrSizedOperandSegments]> {
  let summary = "layer normalisation of rows";
  let description = [{
    `y = (x - mean(x)) / sqrt(var(x) + eps) · gain + shift` along the last dimension; `var` is the mean square of
    what is left after the mean, statistics in f32.

    Shapes: `x`, `y` [..., D]; `gain`, `shift` [D].

    Example:
    ```mlir
    %y = jpmhc.layer_norm %x gain(%g) shift(%b) {eps = 1.0e-5 : f32}
      : (tensor<4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, Optional<JPMHC_FloatVector>:$gain, Optional<JPMHC_FloatVector>:$shift,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = [{
    $x (`gain` `(` $gain^ `)`)? (`shift` `(` $shift^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_LayerNormVjpOp : JPMHC_KernelOp<"layer_norm_vjp", [AttrSizedResultSegments, AllTypesMatch<["x", "dx"]>]> {
  let summary = "reverse-mode rule of `jpmhc.layer_norm`";
  let description = [{
    With `r = 1/sqrt(var(x) + eps)`, `x̂ = (x - mean(x))·r` and `g = dy · gain`:
    `dx = r (g − mean(g) − x̂ mean(g x̂))`, `dgain = Σ_rows dy · x̂`, `dshift = Σ_rows dy` (a fixed number of partial
    sums, so the results do not depend on threads). `dgain` and `dshift` are computed where they are asked for.

    Shapes: `x`, `dy`, `dx` [..., D]; `gain`, `dgain`, `dshift` [D].

    Example:
    ```mlir
    %dx, %dg, %db = jpmhc.layer_norm_vjp %x, %dy gain(%g) {eps = 1.0e-5 : f32}
      : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
        dgain tensor<8xf32> dshift tensor<8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, JPMHC_FloatTensor:$dy, Optional<JPMHC_FloatVector>:$gain,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_FloatTensor:$dx, Optional<JPMHC_FloatVector>:$dgain, Optional<JPMHC_FloatVector>:$dshift);
  let assemblyFormat = [{
    $x `,` $dy (`gain` `(` $gain^ `)`)? attr-dict `:` functional-type(operands, $dx)
    (`dgain` type($dgain)^)? (`dshift` type($dshift)^)?
  }];
  let hasVerifier = 1;
}

#endif // JPMHC_NORM_OPS_TD
