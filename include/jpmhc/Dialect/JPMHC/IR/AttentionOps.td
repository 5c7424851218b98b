// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Softmax attention.
#ifndef JPMHC_ATTENTION_OPS_TD
#define JPMHC_ATTENTION_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

def JPMHC_HeadsTensor : 4DTensorOf<[JPMHC_Float]>;
def JPMHC_SegmentIds : 2DTensorOf<[I32, I64]>;

def JPMHC_AttentionOp : JPMHC_DifferentiableOp<"attention", [InferTypeOpAdaptorWithIsCompatible]> {
  let summary = "softmax attention of each head over the tokens of its sequence";
  let description = [{
    With head size d, query position t and key position s of the same batch, and the key/value group `g = h / (H/G)` of
    head h: `score_ts = q_t · k_s / sqrt(d)`, `out_t = Σ_s softmax_s(score_ts) v_s`, `lse_t = log Σ_s exp(score_ts)`,
    where key s is visible to query t unless

    - `causal` and `s > t`,
    - `window` w > 0 and `s ≤ t − w` (keys older than w − 1 positions),
    - the segment ids of s and t differ.

    A hidden key has no influence, not even if it holds a NaN. A query always sees itself. Scores are never held for
    more than a block of keys: memory is O(T). `lse` is kept for the backward pass.

    Shapes: `q`, `out` [B, T, H, d]; `k`, `v` [B, T, G, d] with H a multiple of G; `segment_ids` [B, T];
    `lse` [B, H, T].

    Example:
    ```mlir
    %out, %lse = jpmhc.attention %q, %k, %v segments(%ids) {causal = true, window = 16 : i64}
      : (tensor<2x64x4x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64xi32>)
      -> (tensor<2x64x4x8xf32>, tensor<2x4x64xf32>)
    ```
  }];
  let arguments = (ins JPMHC_HeadsTensor:$q, JPMHC_HeadsTensor:$k, JPMHC_HeadsTensor:$v,
                       Optional<JPMHC_SegmentIds>:$segment_ids,
                       DefaultValuedAttr<BoolAttr, "false">:$causal, DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs JPMHC_HeadsTensor:$out, 3DTensorOf<[F32]>:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`segments` `(` $segment_ids^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasCanonicalizeMethod = 1;
}

def JPMHC_AttentionVjpOp : JPMHC_KernelOp<"attention_vjp", [InferTypeOpAdaptorWithIsCompatible]> {
  let summary = "reverse-mode rule of `jpmhc.attention` with respect to its output";
  let description = [{
    With `P_ts = exp(score_ts − lse_t)`, `Δ_t = dout_t · out_t` and `dS_ts = P_ts (dout_t · v_s − Δ_t)`:
    `dv_s = Σ_t P_ts dout_t`, `dq_t = Σ_s dS_ts k_s / sqrt(d)`, `dk_s = Σ_t dS_ts q_t / sqrt(d)`; `dk` and `dv` also
    sum over the heads of a group. Probabilities are computed again from `lse`, block by block, in an order that does
    not depend on threads.

    Shapes: as `jpmhc.attention`; `dout`, `dq` as `q`; `dk`, `dv` as `k`.

    Example:
    ```mlir
    %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout {causal = true}
      : (tensor<2x64x4x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64x4x8xf32>, tensor<2x4x64xf32>,
         tensor<2x64x4x8xf32>) -> (tensor<2x64x4x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64x2x8xf32>)
    ```
  }];
  let arguments = (ins JPMHC_HeadsTensor:$q, JPMHC_HeadsTensor:$k, JPMHC_HeadsTensor:$v,
                       JPMHC_HeadsTensor:$out, 3DTensorOf<[F32]>:$lse, JPMHC_HeadsTensor:$dout,
                       Optional<JPMHC_SegmentIds>:$segment_ids,
                       DefaultValuedAttr<BoolAttr, "false">:$causal, DefaultValuedAttr<I64Attr, "0">:$window);
  let results = (outs JPMHC_HeadsTensor:$dq, JPMHC_HeadsTensor:$dk, JPMHC_HeadsTensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $out `,` $lse `,` $dout (`segments` `(` $segment_ids^ `)`)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // JPMHC_ATTENTION_OPS_TD
