// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What ties tokens to vectors: rows of a table, rotary positions.
#ifndef JPMHC_TOKEN_OPS_TD
#define JPMHC_TOKEN_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

def JPMHC_RopeOp : JPMHC_DifferentiableOp<"rope", [AllTypesMatch<["x", "y"]>]> {
  let summary = "rotary positions";
  let description = [{
    Token t turns the halves of every head by the angles `a_i = t · theta^(-2i/d)`, position 0 first:
    `y = [x₁ cos a − x₂ sin a, x₂ cos a + x₁ sin a]`, `x₁` the first half of the head and `x₂` the second. With
    `inverse` the angles are negative, which is both the inverse and the adjoint. Angles are computed in f64.

    Shapes: `x`, `y` [B, T, H, d], d even.

    Example:
    ```mlir
    %y = jpmhc.rope %x {theta = 1.0e4 : f32} : tensor<2x16x4x8xf32>
    %z = jpmhc.rope %y {inverse} : tensor<2x16x4x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, DefaultValuedAttr<F32Attr, "1.0e4f">:$theta, UnitAttr:$inverse);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def JPMHC_EmbeddingOp
    : JPMHC_DifferentiableOp<"embedding", [DeclareOpInterfaceMethods<InferTypeOpInterface, ["inferReturnTypes"]>]> {
  let summary = "rows of a table";
  let description = [{
    `y[..., :] = table[ids[...], :]`. An id outside the table is an error that the caller reports before it runs
    anything; the kernel itself reads no memory for such an id and writes a row of NaN.

    Shapes: `table` [V, D]; `ids` [...]; `y` [..., D].

    Example:
    ```mlir
    %y = jpmhc.embedding %table, %ids : (tensor<32x8xf32>, tensor<2x5xi32>) -> tensor<2x5x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$table, JPMHC_IdTensor:$ids);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = "$table `,` $ids attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def JPMHC_EmbeddingVjpOp : JPMHC_KernelOp<"embedding_vjp"> {
  let summary = "reverse-mode rule of `jpmhc.embedding`";
  let description = [{
    `dtable[v, :] = Σ dy[n, :]` over the n with `ids[n] = v`, in ascending order of n and accumulated in f32, so that
    the result does not depend on threads. Ids outside the table contribute nothing.

    Shapes: `dy` [..., D]; `ids` [...]; `dtable` [V, D].

    Example:
    ```mlir
    %d = jpmhc.embedding_vjp %dy, %ids : (tensor<2x5x8xf32>, tensor<2x5xi32>) -> tensor<32x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$dy, JPMHC_IdTensor:$ids);
  let results = (outs JPMHC_FloatTensor:$dtable);
  let assemblyFormat = "$dy `,` $ids attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // JPMHC_TOKEN_OPS_TD
