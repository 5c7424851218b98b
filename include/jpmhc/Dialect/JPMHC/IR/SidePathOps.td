// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The side path of TRSP: causal low-pass filters along tokens and their gate.
#ifndef JPMHC_SIDE_PATH_OPS_TD
#define JPMHC_SIDE_PATH_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

/// Number of box filters in a row: 1 is the box, 2 the triBox.
def JPMHC_Passes : DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>, IntMaxValue<2>]>, "2">;

/// Every member has the optional operand `segments`, the operand `width` and the attribute `passes`.
class JPMHC_FilterOp<string mnemonic, list<Trait> traits = []> : JPMHC_DifferentiableOp<mnemonic, traits> {
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def JPMHC_TriboxOp : JPMHC_FilterOp<"tribox", [AllTypesMatch<["x", "y"]>]> {
  let summary = "triBox low-pass filter along tokens";
  let description = [{
    `y = Box_b(Box_b(x))`, or one box when `passes` is 1, each channel alone:
    `Box_b(x)_t = (1/w_t) Σ_{i<w_t} x_{t-i}`, `w_t = min(b, t+1)`. A width b > T is the same as b = T; b = 1 is the
    identity. Where `segments` is given, windows and `w_t` restart at the first token of each segment, a segment being
    a maximal run of equal ids.

    Sums are in f64 and never subtract, so |error| <= 2e-6 · triBox(|x|) at every point, and an Inf or NaN stays within
    its windows; the box between the two passes is not rounded to the storage type. O(1) work a token.

    Shapes: `x`, `y` [..., T, D]; `segments` [..., T].

    Example:
    ```mlir
    %y = jpmhc.tribox %x, %width segments(%ids) {passes = 2 : i64}
      : (tensor<2x64x8xf32>, index, tensor<2x64xi32>) -> tensor<2x64x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, Index:$width, Optional<JPMHC_IdTensor>:$segments, JPMHC_Passes:$passes);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = [{
    $x `,` $width (`segments` `(` $segments^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def JPMHC_TriboxTransposeOp : JPMHC_FilterOp<"tribox_transpose", [AllTypesMatch<["dy", "dx"]>]> {
  let summary = "adjoint of `jpmhc.tribox`";
  let description = [{
    `dx_s = Σ_{t=s}^{min(s+b-1, T-1)} dy_t / w_t`, once or twice (`passes`). The division comes before the sum: a
    triBox of the reversed sequence is not the adjoint. Its own reverse-mode rule is `jpmhc.tribox`.

    Shapes: `dy`, `dx` [..., T, D]; `segments` [..., T].

    Example:
    ```mlir
    %dx = jpmhc.tribox_transpose %dy, %width {passes = 2 : i64} : (tensor<64x8xf32>, index) -> tensor<64x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$dy, Index:$width, Optional<JPMHC_IdTensor>:$segments, JPMHC_Passes:$passes);
  let results = (outs JPMHC_FloatTensor:$dx);
  let assemblyFormat = [{
    $dy `,` $width (`segments` `(` $segments^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let hasFolder = 1;
}

def JPMHC_SidePathOp : JPMHC_FilterOp<"side_path", [AllTypesMatch<["x", "attn", "y"]>]> {
  let summary = "a layer's update with its gated side path";
  let description = [{
    `y = x + attn + gate · triBox_b(x)` in one pass: `x` and `attn` are read and `y` is written once. Width, segments
    and passes as for `jpmhc.tribox`.

    Shapes: `x`, `attn`, `y` [..., T, D]; `gate` []; `segments` [..., T].

    Example:
    ```mlir
    %y = jpmhc.side_path %x, %attn, %gate, %width
      : (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<f32>, index) -> tensor<2x64x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, JPMHC_FloatTensor:$attn, 0DTensorOf<[JPMHC_Float]>:$gate, Index:$width,
                       Optional<JPMHC_IdTensor>:$segments, JPMHC_Passes:$passes);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = [{
    $x `,` $attn `,` $gate `,` $width (`segments` `(` $segments^ `)`)? attr-dict
    `:` functional-type(operands, results)
  }];
}

def JPMHC_SidePathVjpOp : JPMHC_KernelOp<"side_path_vjp", [AllTypesMatch<["x", "dy", "dx"]>,
                                                           AllTypesMatch<["gate", "dgate"]>]> {
  let summary = "reverse-mode rule of `jpmhc.side_path`";
  let description = [{
    With `w = triBoxᵀ(dy)`: `dx = dy + gate · w`, `dgate = Σ x · w`, in one pass over `x` and `dy`. The gradient of
    `attn` is `dy` itself.

    Shapes: `x`, `dy`, `dx` [..., T, D]; `gate`, `dgate` []; `segments` [..., T].

    Example:
    ```mlir
    %dx, %dgate = jpmhc.side_path_vjp %x, %dy, %gate, %width
      : (tensor<2x64x8xf32>, tensor<2x64x8xf32>, tensor<f32>, index) -> (tensor<2x64x8xf32>, tensor<f32>)
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, JPMHC_FloatTensor:$dy, 0DTensorOf<[JPMHC_Float]>:$gate, Index:$width,
                       Optional<JPMHC_IdTensor>:$segments, JPMHC_Passes:$passes);
  let results = (outs JPMHC_FloatTensor:$dx, 0DTensorOf<[JPMHC_Float]>:$dgate);
  let assemblyFormat = [{
    $x `,` $dy `,` $gate `,` $width (`segments` `(` $segments^ `)`)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def JPMHC_CoverageGateOp : JPMHC_DifferentiableOp<"coverage_gate"> {
  let summary = "gate of a side path from the share of the context it covers";
  let description = [{
    With `r = width / context`: `g = sigmoid(w2 · tanh(w1 log2(r) + b1) + b2) · r^softplus(beta)`, a network 1→h→1 that
    all layers share (h = 16 in TRSP, 50 parameters with `beta`).

    Shapes: `w1`, `b1`, `w2` [h]; `b2`, `beta`, `gate` [].

    Example:
    ```mlir
    %g = jpmhc.coverage_gate %width, %context, %w1, %b1, %w2, %b2, %beta
      : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>) -> tensor<f32>
    ```
  }];
  let arguments = (ins Index:$width, Index:$context, 1DTensorOf<[JPMHC_Float]>:$w1, 1DTensorOf<[JPMHC_Float]>:$b1,
                       1DTensorOf<[JPMHC_Float]>:$w2, 0DTensorOf<[JPMHC_Float]>:$b2,
                       0DTensorOf<[JPMHC_Float]>:$beta);
  let results = (outs 0DTensorOf<[F32]>:$gate);
  let assemblyFormat = [{
    $width `,` $context `,` $w1 `,` $b1 `,` $w2 `,` $b2 `,` $beta attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_CoverageGateVjpOp
    : JPMHC_KernelOp<"coverage_gate_vjp", [AllTypesMatch<["w1", "dw1"]>, AllTypesMatch<["b1", "db1"]>,
                                           AllTypesMatch<["w2", "dw2"]>, AllTypesMatch<["b2", "db2"]>,
                                           AllTypesMatch<["beta", "dbeta"]>]> {
  let summary = "reverse-mode rule of `jpmhc.coverage_gate`";
  let description = [{
    The gradients of all parameters for the cotangent `dgate` of the gate; widths have none. With
    `u_i = tanh(w1_i log2(r) + b1_i)`, `s = sigmoid(Σ w2_i u_i + b2)`, `c = dgate · s · r^softplus(beta)` and
    `dh_i = c (1 − s) w2_i (1 − u_i²)`: `dw1_i = dh_i log2(r)`, `db1_i = dh_i`, `dw2_i = c (1 − s) u_i`,
    `db2 = c (1 − s)`, `dbeta = c ln(r) sigmoid(beta)`.

    Shapes: as for `jpmhc.coverage_gate`.

    Example:
    ```mlir
    %d:5 = jpmhc.coverage_gate_vjp %width, %context, %w1, %b1, %w2, %b2, %beta, %dgate
      : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>, tensor<f32>)
      -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>)
    ```
  }];
  let arguments = (ins Index:$width, Index:$context, 1DTensorOf<[JPMHC_Float]>:$w1, 1DTensorOf<[JPMHC_Float]>:$b1,
                       1DTensorOf<[JPMHC_Float]>:$w2, 0DTensorOf<[JPMHC_Float]>:$b2,
                       0DTensorOf<[JPMHC_Float]>:$beta, 0DTensorOf<[F32]>:$dgate);
  let results = (outs 1DTensorOf<[JPMHC_Float]>:$dw1, 1DTensorOf<[JPMHC_Float]>:$db1,
                      1DTensorOf<[JPMHC_Float]>:$dw2, 0DTensorOf<[JPMHC_Float]>:$db2,
                      0DTensorOf<[JPMHC_Float]>:$dbeta);
  let assemblyFormat = [{
    $width `,` $context `,` $w1 `,` $b1 `,` $w2 `,` $b2 `,` $beta `,` $dgate attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

#endif // JPMHC_SIDE_PATH_OPS_TD
