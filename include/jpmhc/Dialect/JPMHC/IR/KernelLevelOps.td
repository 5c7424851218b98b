// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a step is made of after bufferization: launches of kernels and products of matrices.
#ifndef JPMHC_KERNEL_LEVEL_OPS_TD
#define JPMHC_KERNEL_LEVEL_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"
include "mlir/IR/SymbolInterfaces.td"

def JPMHC_LaunchOp : JPMHC_Op<"launch", [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel over rows [lower, upper)";
  let description = [{
    The kernel is a `func.func` whose first two arguments are the bounds of a range of rows; rows are independent, so
    the runtime may split the range over threads in multiples of `grain` rows. `jpmhc.written` says for each of the
    other arguments whether the kernel writes to it.

    Example:
    ```mlir
    jpmhc.launch @kernel_0 rows(%c0, %c8) grain 64 (%x, %y) : memref<8x4xf32>, memref<8x4xf32>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Index:$lower, Index:$upper, I64Attr:$grain, Variadic<AnyType>:$args);
  let assemblyFormat = [{
    $kernel `rows` `(` $lower `,` $upper `)` `grain` $grain `(` $args `)` attr-dict `:` type($args)
  }];
  let hasVerifier = 1;
}

def JPMHC_LaunchArgumentOp : JPMHC_Op<"launch_argument", [Pure, AllTypesMatch<["value", "result"]>]> {
  let summary = "a scalar that kernels get at launch";
  let description = [{
    The value itself, hidden from folding: a constant that a kernel captures becomes part of its code, so that launches
    with two constants are two kernels. Through this op it is an argument, and they share one.

    Example:
    ```mlir
    %b = jpmhc.launch_argument %width : index
    ```
  }];
  let arguments = (ins AnyTypeOf<[Index, AnyInteger, AnyFloat]>:$value);
  let results = (outs AnyTypeOf<[Index, AnyInteger, AnyFloat]>:$result);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def JPMHC_GemmOp : JPMHC_Op<"gemm"> {
  let summary = "C = op(A) op(B) + beta C by a library";
  let description = [{
    Row-major matrices of f32, bf16, f16 or f64, op(X) = X or its transpose. Operands may be strided along rows; the
    last dimension is contiguous. Rank 3 operands are batches (batch first, the same for all three). What a device has
    no product for, it refuses when it runs.

    Example:
    ```mlir
    jpmhc.gemm %a, %b, %c {transA = false, transB = true, beta = 0.0 : f32}
      : memref<8x4xf32>, memref<16x4xf32>, memref<8x16xf32>
    ```
  }];
  let arguments = (ins Arg<AnyMemRef, "A", [MemRead]>:$a, Arg<AnyMemRef, "B", [MemRead]>:$b,
                       Arg<AnyMemRef, "C", [MemRead, MemWrite]>:$c,
                       DefaultValuedAttr<BoolAttr, "false">:$transA, DefaultValuedAttr<BoolAttr, "false">:$transB,
                       DefaultValuedAttr<F32Attr, "0.0f">:$beta);
  let assemblyFormat = "$a `,` $b `,` $c attr-dict `:` type($a) `,` type($b) `,` type($c)";
  let hasVerifier = 1;
}

#endif // JPMHC_KERNEL_LEVEL_OPS_TD
