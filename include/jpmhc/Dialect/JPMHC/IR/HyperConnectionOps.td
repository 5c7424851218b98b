// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Hyper-connection blocks, and what they expand to.
#ifndef JPMHC_HYPER_CONNECTION_OPS_TD
#define JPMHC_HYPER_CONNECTION_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def JPMHC_Streams : TensorRankOf<[JPMHC_Float], [3]>;
def JPMHC_Rows : TensorRankOf<[JPMHC_Float], [2]>;
def JPMHC_F32Rows : TensorRankOf<[F32], [2]>;
def JPMHC_F32Mixers : TensorRankOf<[F32], [3]>;

def JPMHC_HyperConnectionOp : JPMHC_Op<"hyper_connection", [
    AttrSizedOperandSegments, RecursiveMemoryEffects, SingleBlock,
    AllTypesMatch<["x", "out"]>]> {
  let summary = "a sub-layer on n streams: read one input, mix the streams, write the output back";
  let description = [{
    With `z = norm(x_flat) Wᵀ` (then, for the groups pre, post and res, `z ← alpha_g z + bias_g` where given):

    * softmax: `H_pre = softmax(z_pre / tau)` over rows, `H_post = softmax(z_post / tau)` over columns, both n×n;
      `r` is the mean of the rows of `H_pre`, `q` the row sums of `H_post`;
    * sigmoid: `r = sigmoid(z_pre)`, `q = post_scale · sigmoid(z_post)`, n numbers each;
    * `H = manifold(z_res)`;

    `x_in = Σ_j r_j x_j`, `y = F(x_in)`, `out_i = Σ_j H_ij x_j + scale · q_i · y`. F is the region; it may use values
    from outside. The norm is over all n·p numbers of a token, with optional `gain` and `shift`.

    Shapes: `x`, `out` [N, n, p]; `weight` [m, n·p], rows pre, post, res; `alpha` [3]; `bias` [m]; `gain`, `shift`
    [n·p]; the region's argument and result [N, p].

    The pass `jpmhc-expand-blocks` replaces the op by `jpmhc.stream_logits`, `jpmhc.stream_maps`,
    `jpmhc.stream_read`, the region's ops and `jpmhc.stream_write`.

    Example:
    ```mlir
    %out = jpmhc.hyper_connection %x, %w bias(%b) <"stiefel"> <layer> <softmax> {
    ^bb0(%in: tensor<8x16xf32>):
      %y = math.tanh %in : tensor<8x16xf32>
      jpmhc.yield %y : tensor<8x16xf32>
    } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<48xf32>) -> tensor<8x4x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_Rows:$weight, Optional<JPMHC_FloatVector>:$alpha,
                       Optional<JPMHC_FloatVector>:$bias, Optional<JPMHC_FloatVector>:$gain,
                       Optional<JPMHC_FloatVector>:$shift, JPMHC_ManifoldAttr:$manifold, JPMHC_NormKindAttr:$norm,
                       JPMHC_ReadWriteKindAttr:$read_write, DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps,
                       DefaultValuedAttr<F32Attr, "1.0f">:$tau, DefaultValuedAttr<F32Attr, "1.0f">:$post_scale,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs JPMHC_Streams:$out);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $x `,` $weight (`alpha` `(` $alpha^ `)`)? (`bias` `(` $bias^ `)`)? (`gain` `(` $gain^ `)`)?
    (`shift` `(` $shift^ `)`)? $manifold $norm $read_write $body attr-dict `:` functional-type(operands, results)
  }];
  let hasRegionVerifier = 1;
  let hasVerifier = 1;
}

def JPMHC_YieldOp : JPMHC_Op<"yield", [Pure, ReturnLike, Terminator, ParentOneOf<["HyperConnectionOp"]>]> {
  let summary = "result of a region";
  let description = [{
    Ends the region of `jpmhc.hyper_connection` with y = F(x_in), of shape [N, p].

    Example:
    ```mlir
    jpmhc.yield %y : tensor<8x16xf32>
    ```
  }];
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def JPMHC_StreamLogitsOp : JPMHC_DifferentiableOp<"stream_logits", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "normalised streams times a skinny weight";
  let description = [{
    `z = norm(x_flat) Wᵀ`, where `norm` is `(x − mean) / sqrt(var + eps)` (layer) or `x / sqrt(mean(x²) + eps)` (rms)
    over all n·p numbers of a token, then `· gain + shift` where given. The mean is subtracted before the product.

    Shapes: `x` [N, n, p]; `weight` [m, n·p]; `gain`, `shift` [n·p]; `z` [N, m], f32.

    Example:
    ```mlir
    %z = jpmhc.stream_logits %x, %w gain(%g) <layer>
      : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<64xf32>) -> tensor<8x48xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_Rows:$weight, Optional<JPMHC_FloatVector>:$gain,
                       Optional<JPMHC_FloatVector>:$shift, JPMHC_NormKindAttr:$norm,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_F32Rows:$z);
  let assemblyFormat = [{
    $x `,` $weight (`gain` `(` $gain^ `)`)? (`shift` `(` $shift^ `)`)? $norm attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_StreamLogitsVjpOp : JPMHC_KernelOp<"stream_logits_vjp", [AttrSizedOperandSegments]> {
  let summary = "reverse-mode rule of `jpmhc.stream_logits`";
  let description = [{
    With `u` the normalised row without gain and shift, `g = (dz W) ∘ gain`:
    `dx = (g − mean(g) − u mean(g u)) / σ` (without `mean(g)` for rms); `dW = dzᵀ (u ∘ gain + shift)`,
    `dgain = Σ_N (dz W) ∘ u`, `dshift = Σ_N dz W`. Sums over tokens have a fixed number of partial sums.

    Shapes: as for `jpmhc.stream_logits`; each gradient has the type of its operand. `dparameters` are those of gain
    and shift, where given.

    Example:
    ```mlir
    %dx, %dw, %dg = jpmhc.stream_logits_vjp %x, %w, %dz gain(%g) <layer>
      : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<8x48xf32>, tensor<64xf32>)
      -> (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<64xf32>)
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_Rows:$weight, JPMHC_F32Rows:$dz, Optional<JPMHC_FloatVector>:$gain,
                       Optional<JPMHC_FloatVector>:$shift, JPMHC_NormKindAttr:$norm,
                       DefaultValuedAttr<F32Attr, "1.0e-5f">:$eps);
  let results = (outs JPMHC_Streams:$dx, JPMHC_Rows:$dweight, Variadic<JPMHC_FloatVector>:$dparameters);
  let assemblyFormat = [{
    $x `,` $weight `,` $dz (`gain` `(` $gain^ `)`)? (`shift` `(` $shift^ `)`)? $norm attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_StreamMapsOp : JPMHC_DifferentiableOp<"stream_maps", [AttrSizedOperandSegments, InferTypeOpAdaptor]> {
  let summary = "read vector, write vector and mixer of every token";
  let description = [{
    From the logits `z`, groups pre, post and res, after `z ← alpha_g z + bias_g` where given: `read` is the mean of
    the rows of `softmax(z_pre / tau)` (rows), or `sigmoid(z_pre)`; `write` the row sums of `softmax(z_post / tau)`
    (columns), or `post_scale · sigmoid(z_post)`; `mixer` the projection of `z_res`. The n×n maps of the softmax kind
    are used through these n numbers alone.

    Shapes: `z` [N, m]; `alpha` [3]; `bias` [m]; `read`, `write` [N, n]; `mixer` [N, n, n]; n is `streams`.

    Example:
    ```mlir
    %r, %q, %h = jpmhc.stream_maps %z bias(%b) <"stiefel"> <softmax> streams 4
      : (tensor<8x48xf32>, tensor<48xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
    ```
  }];
  let arguments = (ins JPMHC_F32Rows:$z, Optional<JPMHC_FloatVector>:$alpha, Optional<JPMHC_FloatVector>:$bias,
                       JPMHC_ManifoldAttr:$manifold, JPMHC_ReadWriteKindAttr:$read_write, I64Attr:$streams,
                       DefaultValuedAttr<F32Attr, "1.0f">:$tau, DefaultValuedAttr<F32Attr, "1.0f">:$post_scale);
  let results = (outs JPMHC_F32Rows:$read, JPMHC_F32Rows:$write, JPMHC_F32Mixers:$mixer);
  let assemblyFormat = [{
    $z (`alpha` `(` $alpha^ `)`)? (`bias` `(` $bias^ `)`)? $manifold $read_write `streams` $streams attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_StreamMapsVjpOp : JPMHC_KernelOp<"stream_maps_vjp", [AttrSizedOperandSegments]> {
  let summary = "reverse-mode rule of `jpmhc.stream_maps`";
  let description = [{
    With `h = alpha_g z + bias_g` in each group g, `dh_res` is the manifold's gradient for `dmixer`, and of the others

    * softmax: with `S = softmax(h_pre / tau)` of row i, `dh_pre_ij = S_ij/(n tau) (dread_j − Σ_k S_ik dread_k)`; with
      `S = softmax(h_post / tau)` of column j, `dh_post_ij = S_ij/tau (dwrite_i − Σ_k S_kj dwrite_k)`;
    * sigmoid: `dh_pre = dread r (1 − r)`, `dh_post = dwrite q (1 − q / post_scale)`.

    Then `dz = alpha_g dh`, `dalpha_g = Σ_N Σ_{k in g} z_k dh_k` and `dbias = Σ_N dh`, with a fixed number of partial
    sums.

    Shapes: as for `jpmhc.stream_maps`; each gradient has the type of its operand. `dparameters` are those of alpha
    and bias, where given.

    Example:
    ```mlir
    %dz, %db = jpmhc.stream_maps_vjp %z, %dr, %dq, %dh bias(%b) <"stiefel"> <softmax> streams 4
      : (tensor<8x48xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>, tensor<48xf32>)
      -> (tensor<8x48xf32>, tensor<48xf32>)
    ```
  }];
  let arguments = (ins JPMHC_F32Rows:$z, JPMHC_F32Rows:$dread, JPMHC_F32Rows:$dwrite, JPMHC_F32Mixers:$dmixer,
                       Optional<JPMHC_FloatVector>:$alpha, Optional<JPMHC_FloatVector>:$bias,
                       JPMHC_ManifoldAttr:$manifold, JPMHC_ReadWriteKindAttr:$read_write, I64Attr:$streams,
                       DefaultValuedAttr<F32Attr, "1.0f">:$tau, DefaultValuedAttr<F32Attr, "1.0f">:$post_scale);
  let results = (outs JPMHC_F32Rows:$dz, Variadic<JPMHC_FloatVector>:$dparameters);
  let assemblyFormat = [{
    $z `,` $dread `,` $dwrite `,` $dmixer (`alpha` `(` $alpha^ `)`)? (`bias` `(` $bias^ `)`)? $manifold $read_write
    `streams` $streams attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def JPMHC_StreamReadOp : JPMHC_DifferentiableOp<"stream_read", [InferTypeOpAdaptor]> {
  let summary = "weighted sum of the streams";
  let description = [{
    `x_in = Σ_j r_j x_j` for every token.

    Shapes: `x` [N, n, p]; `read` [N, n]; `x_in` [N, p], the element type of `x`.

    Example:
    ```mlir
    %in = jpmhc.stream_read %x, %r : tensor<8x4x16xf32>, tensor<8x4xf32> -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_F32Rows:$read);
  let results = (outs JPMHC_Rows:$x_in);
  let assemblyFormat = "$x `,` $read attr-dict `:` type($x) `,` type($read) `->` type($x_in)";
  let hasVerifier = 1;
}

def JPMHC_StreamReadVjpOp : JPMHC_KernelOp<"stream_read_vjp", [AllTypesMatch<["x", "dx"]>,
                                           AllTypesMatch<["read", "dread"]>]> {
  let summary = "reverse-mode rule of `jpmhc.stream_read`";
  let description = [{
    `dx_j = r_j dx_in`, `dr_j = Σ_c x_j dx_in`, in one pass over the streams.

    Shapes: `x`, `dx` [N, n, p]; `read`, `dread` [N, n]; `dx_in` [N, p].

    Example:
    ```mlir
    %dx, %dr = jpmhc.stream_read_vjp %x, %r, %din : tensor<8x4x16xf32>, tensor<8x4xf32>, tensor<8x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_F32Rows:$read, JPMHC_Rows:$dx_in);
  let results = (outs JPMHC_Streams:$dx, JPMHC_F32Rows:$dread);
  let assemblyFormat = "$x `,` $read `,` $dx_in attr-dict `:` type($x) `,` type($read) `,` type($dx_in)";
  let hasVerifier = 1;
}

def JPMHC_StreamWriteOp : JPMHC_DifferentiableOp<"stream_write", [AllTypesMatch<["x", "out"]>]> {
  let summary = "mix the streams and add a sub-layer's output to each";
  let description = [{
    `out_i = Σ_j H_ij x_j + scale · q_i · y` for every token, in one pass over the streams.

    Shapes: `x`, `out` [N, n, p]; `mixer` [N, n, n]; `write` [N, n]; `y` [N, p].

    Example:
    ```mlir
    %out = jpmhc.stream_write %x, %h, %q, %y {scale = 5.0e-1 : f32}
      : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<8x4xf32>, tensor<8x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_F32Mixers:$mixer, JPMHC_F32Rows:$write, JPMHC_Rows:$y,
                       DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs JPMHC_Streams:$out);
  let assemblyFormat = [{
    $x `,` $mixer `,` $write `,` $y attr-dict `:` type($x) `,` type($mixer) `,` type($write) `,` type($y)
  }];
  let hasVerifier = 1;
}

def JPMHC_StreamWriteVjpOp : JPMHC_KernelOp<"stream_write_vjp", [
    AllTypesMatch<["x", "dout", "dx"]>, AllTypesMatch<["mixer", "dmixer"]>, AllTypesMatch<["write", "dwrite"]>,
    AllTypesMatch<["y", "dy"]>]> {
  let summary = "reverse-mode rule of `jpmhc.stream_write`";
  let description = [{
    `dx_j = Σ_i H_ij dout_i`, `dH_ij = Σ_c dout_i x_j`, `dq_i = scale Σ_c dout_i y`, `dy = scale Σ_i q_i dout_i`.

    Shapes: as for `jpmhc.stream_write`; each gradient has the type of its operand.

    Example:
    ```mlir
    %dx, %dh, %dq, %dy = jpmhc.stream_write_vjp %x, %h, %q, %y, %dout {scale = 5.0e-1 : f32}
      : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<8x4xf32>, tensor<8x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_Streams:$x, JPMHC_F32Mixers:$mixer, JPMHC_F32Rows:$write, JPMHC_Rows:$y,
                       JPMHC_Streams:$dout, DefaultValuedAttr<F32Attr, "1.0f">:$scale);
  let results = (outs JPMHC_Streams:$dx, JPMHC_F32Mixers:$dmixer, JPMHC_F32Rows:$dwrite, JPMHC_Rows:$dy);
  let assemblyFormat = [{
    $x `,` $mixer `,` $write `,` $y `,` $dout attr-dict
    `:` type($x) `,` type($mixer) `,` type($write) `,` type($y)
  }];
  let hasVerifier = 1;
}

#endif // JPMHC_HYPER_CONNECTION_OPS_TD
