// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Optimiser steps: one pass over memory, parameters and moments in place.
#ifndef JPMHC_OPTIMIZER_OPS_TD
#define JPMHC_OPTIMIZER_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

class JPMHC_MomentStepOp<string mnemonic, dag moreAttributes>
    : JPMHC_InPlaceKernelOp<mnemonic, [AllTypesMatch<["p", "p_new"]>, AllTypesMatch<["m", "m_new"]>,
                                       AllTypesMatch<["v", "v_new"]>]> {
  let arguments = !con((ins JPMHC_FloatTensor:$p, JPMHC_FloatTensor:$g, JPMHC_FloatTensor:$m, JPMHC_FloatTensor:$v,
                            F32:$lr, I64:$step, F32Attr:$beta1, F32Attr:$beta2,
                            DefaultValuedAttr<F32Attr, "0.0f">:$weight_decay), moreAttributes);
  let results = (outs JPMHC_FloatTensor:$p_new, JPMHC_FloatTensor:$m_new, JPMHC_FloatTensor:$v_new);
  let assemblyFormat = [{
    $p `,` $g `,` $m `,` $v `lr` $lr `step` $step attr-dict
    `:` type($p) `,` type($g) `,` type($m) `,` type($v)
  }];
  let hasVerifier = 1;
}

def JPMHC_AdamWOp : JPMHC_MomentStepOp<"adamw", (ins DefaultValuedAttr<F32Attr, "1.0e-8f">:$eps)> {
  let summary = "one step of AdamW";
  let description = [{
    With t = `step` ≥ 1: `p ← p (1 − lr·wd)`, `m ← β₁ m + (1 − β₁) g`, `v ← β₂ v + (1 − β₂) g²`,
    `p ← p − lr · (m/(1−β₁^t)) / (sqrt(v/(1−β₂^t)) + eps)`. The results take the buffers of `p`, `m` and `v`.

    Shapes: all tensors alike, any rank.

    Example:
    ```mlir
    %p1, %m1, %v1 = jpmhc.adamw %p, %g, %m, %v lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.999 : f32}
      : tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>
    ```
  }];
}

def JPMHC_AdamAtan2Op
    : JPMHC_MomentStepOp<"adam_atan2", (ins DefaultValuedAttr<JPMHC_BiasCorrectionAttr,
                                            "::jpmhc::BiasCorrection::outside">:$bias_correction)> {
  let summary = "one step of AdamAtan2";
  let description = [{
    With t = `step` ≥ 1: `p ← p (1 − lr·wd)`, `m ← β₁ m + (1 − β₁) g`, `v ← β₂ v + (1 − β₂) g²`, then

    * `outside`: `p ← p − lr/(1−β₁^t) · atan2(m, sqrt(v)/sqrt(1−β₂^t))`,
    * `inside`: `p ← p − lr · atan2(m/(1−β₁^t), sqrt(v/(1−β₂^t)))`.

    No eps: `atan2(0, 0) = 0`, and a step is at most π/2 · lr (divided by 1−β₁^t outside), whatever the gradient.
    Where g² underflows (|g| below 1e-22) v is 0 and the step is that bound. The results take the buffers of `p`, `m`
    and `v`.

    Shapes: all tensors alike, any rank.

    Example:
    ```mlir
    %p1, %m1, %v1 = jpmhc.adam_atan2 %p, %g, %m, %v lr %lr step %t
      {beta1 = 0.9 : f32, beta2 = 0.95 : f32, weight_decay = 0.1 : f32,
       bias_correction = #jpmhc.bias_correction<inside>}
      : tensor<32xf32>, tensor<32xf32>, tensor<32xf32>, tensor<32xf32>
    ```
  }];
}

def JPMHC_SignSGDRowsOp
    : JPMHC_InPlaceKernelOp<"sign_sgd_rows", [AllTypesMatch<["table", "table_new"]>]> {
  let summary = "SignSGD on the rows of a table that ids name";
  let description = [{
    `p ← p (1 − lr·wd) − lr · sign(g)` for each row v among the ids, g the sum of `grad` over the k with
    `ids[k] = v` in ascending order; every other row stays as it is. Ids outside the table are left out. The result
    takes the buffer of `table`.

    Shapes: `table` [V, D]; `ids` [K]; `grad` [K, D].

    Example:
    ```mlir
    %t1 = jpmhc.sign_sgd_rows %table, %ids, %grad lr %lr {weight_decay = 0.1 : f32}
      : tensor<32x8xf32>, tensor<4xi32>, tensor<4x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$table, JPMHC_IdTensor:$ids, JPMHC_FloatTensor:$grad, F32:$lr,
                       DefaultValuedAttr<F32Attr, "0.0f">:$weight_decay);
  let results = (outs JPMHC_FloatTensor:$table_new);
  let assemblyFormat = [{
    $table `,` $ids `,` $grad `lr` $lr attr-dict `:` type($table) `,` type($ids) `,` type($grad)
  }];
  let hasVerifier = 1;
}

def JPMHC_GlobalNormOp : JPMHC_KernelOp<"global_norm"> {
  let summary = "square root of the sum of squares";
  let description = [{
    `sqrt(Σ x²)` over all elements, for clipping by the norm of all gradients. Blocks of fixed size are summed in f32,
    then the blocks, so that the result does not depend on threads.

    Shapes: `x` any; result [].

    Example:
    ```mlir
    %n = jpmhc.global_norm %x : tensor<100xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x);
  let results = (outs JPMHC_F32Scalar:$norm);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

#endif // JPMHC_OPTIMIZER_OPS_TD
