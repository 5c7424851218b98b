// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Random numbers by a counter: no state, the same for any threads, devices and resumptions.
#ifndef JPMHC_RANDOM_OPS_TD
#define JPMHC_RANDOM_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCBase.td"

class JPMHC_RandomOp<string mnemonic, Type resultType> : JPMHC_KernelOp<mnemonic> {
  let arguments = (ins I64:$seed, I64:$step, I64:$site);
  let results = (outs resultType:$y);
  let assemblyFormat = "`seed` $seed `step` $step `site` $site attr-dict `:` type($y)";
  let hasVerifier = 1;
}

def JPMHC_RandomBitsOp : JPMHC_RandomOp<"random_bits", RankedTensorOf<[I32]>> {
  let summary = "32 random bits an element";
  let description = [{
    Philox 4×32-10 (Salmon et al., SC 2011). Element e of the flattened result is word `e mod 4` of the block with
    counter `(e div 4, site, step, step >> 32)` under the key `(seed, seed >> 32)`, each taken modulo 2³². A result has
    at most 2³⁴ elements.

    Example:
    ```mlir
    %y = jpmhc.random_bits seed %seed step %step site %site : tensor<4x8xi32>
    ```
  }];
}

def JPMHC_RandomUniformOp : JPMHC_RandomOp<"random_uniform", JPMHC_F32Tensor> {
  let summary = "random numbers uniform in [0, 1)";
  let description = [{
    The upper 24 bits of `jpmhc.random_bits` with the same operands, times 2⁻²⁴.

    Example:
    ```mlir
    %y = jpmhc.random_uniform seed %seed step %step site %site : tensor<4x8xf32>
    ```
  }];
}

def JPMHC_RandomNormalOp : JPMHC_RandomOp<"random_normal", JPMHC_F32Tensor> {
  let summary = "random numbers from the standard normal distribution";
  let description = [{
    Box and Muller: elements 2k and 2k + 1 are `sqrt(-2 log u)` times the cosine and the sine of an angle; u in (0, 1]
    is 2⁻²⁴ times one more than the upper 24 bits of word 2k of `jpmhc.random_bits` with the same operands; the upper
    26 bits of word 2k + 1 say the angle. |y| is at most 5.8.

    Example:
    ```mlir
    %y = jpmhc.random_normal seed %seed step %step site %site : tensor<4x8xf32>
    ```
  }];
}

def JPMHC_DropoutOp : JPMHC_DifferentiableOp<"dropout", [AllTypesMatch<["x", "y"]>]> {
  let summary = "zero elements at random and scale up the rest";
  let description = [{
    `y = x / (1 − rate)` where u ≥ rate, else 0, u being `jpmhc.random_uniform` with the same operands. The backward
    pass applies the same op to the cotangent.

    Example:
    ```mlir
    %y = jpmhc.dropout %x seed %seed step %step site %site {rate = 0.1 : f32} : tensor<4x8xf32>
    ```
  }];
  let arguments = (ins JPMHC_FloatTensor:$x, I64:$seed, I64:$step, I64:$site, F32Attr:$rate);
  let results = (outs JPMHC_FloatTensor:$y);
  let assemblyFormat = "$x `seed` $seed `step` $step `site` $site attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif // JPMHC_RANDOM_OPS_TD
