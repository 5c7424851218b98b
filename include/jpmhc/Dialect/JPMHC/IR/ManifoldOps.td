// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Projection of raw numbers onto manifolds of n×n mixers.
#ifndef JPMHC_MANIFOLD_OPS_TD
#define JPMHC_MANIFOLD_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

def JPMHC_FloatMatrix : TensorRankOf<[JPMHC_Float], [2]>;
def JPMHC_FloatTensor3 : TensorRankOf<[JPMHC_Float], [3]>;

def JPMHC_ProjectOp : JPMHC_DifferentiableOp<"project", [InferTypeOpAdaptor]> {
  let summary = "raw numbers of every token onto a manifold of n×n mixers";
  let description = [{
    `H = manifold(raw)`, one n×n matrix a token, n from 1 to 16; K raw numbers a token, as many as the manifold takes.
    Arithmetic is f32; the gradient is exact for the forward that runs. The manifolds, their parameters and formulas
    are those of the registry (`jpmhc::ManifoldRegistry`).

    Shapes: `raw` [N, K]; `mixer` [N, n, n], the element type of `raw`.

    Example:
    ```mlir
    %h = jpmhc.project %raw <"birkhoff", {rounds = 20}> streams 4 : tensor<8x16xf32> -> tensor<8x4x4xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatMatrix:$raw, JPMHC_ManifoldAttr:$manifold, I64Attr:$streams);
  let results = (outs JPMHC_FloatTensor3:$mixer);
  let assemblyFormat = [{
    $raw $manifold `streams` $streams attr-dict `:` type($raw) `->` type($mixer)
  }];
  let hasVerifier = 1;
}

def JPMHC_ProjectVjpOp : JPMHC_KernelOp<"project_vjp", [AllTypesMatch<["raw", "draw"]>]> {
  let summary = "reverse-mode rule of `jpmhc.project`";
  let description = [{
    The gradient of the raw numbers for the gradient of the mixers, through the projection that `jpmhc.project` with
    the same manifold runs.

    Shapes: `raw`, `draw` [N, K]; `dmixer` [N, n, n].

    Example:
    ```mlir
    %draw = jpmhc.project_vjp %raw, %dh <"birkhoff", {rounds = 20}> streams 4
      : tensor<8x16xf32>, tensor<8x4x4xf32> -> tensor<8x16xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatMatrix:$raw, JPMHC_FloatTensor3:$dmixer, JPMHC_ManifoldAttr:$manifold,
                       I64Attr:$streams);
  let results = (outs JPMHC_FloatMatrix:$draw);
  let assemblyFormat = [{
    $raw `,` $dmixer $manifold `streams` $streams attr-dict `:` type($raw) `,` type($dmixer) `->` type($draw)
  }];
  let hasVerifier = 1;
}

#endif // JPMHC_MANIFOLD_OPS_TD
