// RUN: jpmhc-opt %s --jpmhc-cost | FileCheck %s
// RUN: jpmhc-opt %s --jpmhc-cost | jpmhc-opt | FileCheck %s --check-prefix=MODULE

// A row of the norm: 2 operations an element for the sum, 2 for the product, and 4 to make the factor (the square root
// counts 1). Its input is read twice, the gain once a row.
// CHECK: calls {{.*}} floor
// CHECK: // 1 33024 131072 66048 f.rms_norm_0 {{.*}}cost.mlir:[[# @LINE + 7]]:
// CHECK: // 1 524288 57344 57344 f.gemm
// The width of the window is known at run time only: one iteration of its loops counts.
// CHECK: + g.tribox
// MODULE: jpmhc.launch @rms_norm_0
func.func @f(%x: tensor<64x128xf32>, %gain: tensor<128xf32>, %w: tensor<128x32xf32>) -> tensor<64x32xf32> {
  %empty = tensor.empty() : tensor<64x32xf32>
  %y = jpmhc.rms_norm %x gain(%gain) : (tensor<64x128xf32>, tensor<128xf32>) -> tensor<64x128xf32>
  %zero = arith.constant 0.0 : f32
  %z = linalg.fill ins(%zero : f32) outs(%empty : tensor<64x32xf32>) -> tensor<64x32xf32>
  %p = linalg.matmul ins(%y, %w : tensor<64x128xf32>, tensor<128x32xf32>) outs(%z : tensor<64x32xf32>) -> tensor<64x32xf32>
  return %p : tensor<64x32xf32>
}

func.func @g(%x: tensor<2x64x8xf32>, %width: index) -> tensor<2x64x8xf32> {
  %y = jpmhc.tribox %x, %width : (tensor<2x64x8xf32>, index) -> tensor<2x64x8xf32>
  return %y : tensor<2x64x8xf32>
}
