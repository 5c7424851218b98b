// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Losses over classes.
#ifndef JPMHC_LOSS_OPS_TD
#define JPMHC_LOSS_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

class JPMHC_CrossEntropyOp<string mnemonic> : JPMHC_DifferentiableOp<mnemonic> {
  let arguments = (ins JPMHC_FloatTensor:$logits, JPMHC_IdTensor:$target,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs JPMHC_F32Scalar:$loss);
  let assemblyFormat = "$logits `,` $target attr-dict `:` type($logits) `,` type($target)";
  let hasVerifier = 1;
}

class JPMHC_CrossEntropyVjpOp<string mnemonic>
    : JPMHC_KernelOp<mnemonic, [AllTypesMatch<["logits", "dlogits"]>]> {
  let arguments = (ins JPMHC_FloatTensor:$logits, JPMHC_IdTensor:$target, JPMHC_F32Scalar:$dloss,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index);
  let results = (outs JPMHC_FloatTensor:$dlogits);
  let assemblyFormat = "$logits `,` $target `,` $dloss attr-dict `:` type($logits) `,` type($target)";
  let hasVerifier = 1;
}

def JPMHC_SoftmaxCrossEntropyOp : JPMHC_CrossEntropyOp<"softmax_cross_entropy"> {
  let summary = "mean cross-entropy of softmax(logits)";
  let description = [{
    `loss = mean(-log softmax(logits)[target])` over the rows whose target is not `ignore_index`; 0 when there is
    none. A target that is neither a class nor `ignore_index` makes the loss NaN.

    Shapes: `logits` [N, V]; `target` [N]; `loss` [].

    Example:
    ```mlir
    %l = jpmhc.softmax_cross_entropy %logits, %target {ignore_index = 0 : i64} : tensor<6x12xf32>, tensor<6xi32>
    ```
  }];
}

def JPMHC_SoftmaxCrossEntropyVjpOp : JPMHC_CrossEntropyVjpOp<"softmax_cross_entropy_vjp"> {
  let summary = "reverse-mode rule of `jpmhc.softmax_cross_entropy`";
  let description = [{
    `dlogits = dloss/count · (softmax(logits) − onehot(target))`; 0 in ignored rows, NaN in rows whose target is no
    class. The target's own entry is computed as minus the sum of the others: no cancellation.

    Shapes: `logits`, `dlogits` [N, V]; `target` [N]; `dloss` [].

    Example:
    ```mlir
    %d = jpmhc.softmax_cross_entropy_vjp %logits, %target, %dloss : tensor<6x12xf32>, tensor<6xi32>
    ```
  }];
}

def JPMHC_StablemaxCrossEntropyOp : JPMHC_CrossEntropyOp<"stablemax_cross_entropy"> {
  let summary = "mean cross-entropy of stablemax(logits)";
  let description = [{
    As `jpmhc.softmax_cross_entropy` with `s(x) = x + 1 (x ≥ 0), 1/(1 − x) (x < 0)` in place of the exponential:
    `loss = mean(-log(s(logits)[target] / Σ s(logits)))`.

    Shapes: `logits` [N, V]; `target` [N]; `loss` [].

    Example:
    ```mlir
    %l = jpmhc.stablemax_cross_entropy %logits, %target : tensor<6x12xf32>, tensor<6xi64>
    ```
  }];
}

def JPMHC_StablemaxCrossEntropyVjpOp : JPMHC_CrossEntropyVjpOp<"stablemax_cross_entropy_vjp"> {
  let summary = "reverse-mode rule of `jpmhc.stablemax_cross_entropy`";
  let description = [{
    With `S = Σ s`, `s'/s = 1/(1 + |x|)`: `dlogits = dloss/count · s'/S` off the target and
    `−dloss/count · (S − s_t)/(S (1 + |x_t|))` on it; 0 in ignored rows, NaN in rows whose target is no class.

    Shapes: `logits`, `dlogits` [N, V]; `target` [N]; `dloss` [].

    Example:
    ```mlir
    %d = jpmhc.stablemax_cross_entropy_vjp %logits, %target, %dloss : tensor<6x12xf32>, tensor<6xi64>
    ```
  }];
}

#endif // JPMHC_LOSS_OPS_TD
