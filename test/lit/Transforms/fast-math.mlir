// RUN: jpmhc-opt %s --jpmhc-to-kernels | FileCheck %s

// Totals may be summed in any order; what they are made of is calculated as it is written.
// CHECK-LABEL: func.func private @elementwise_reduce_0
// CHECK: arith.mulf %{{.*}}, %{{.*}} fastmath<contract>
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<contract>
// CHECK: arith.addf %{{.*}}, %{{.*}} fastmath<reassoc,nsz,contract>
func.func @f(%x: tensor<8x32xf32>, %y: tensor<8x32xf32>) -> tensor<8xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<8xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<8xf32>) -> tensor<8xf32>
  %product = arith.mulf %x, %y : tensor<8x32xf32>
  %shifted = arith.addf %product, %y : tensor<8x32xf32>
  %sum = linalg.reduce {arith.addf} ins(%shifted : tensor<8x32xf32>) outs(%init : tensor<8xf32>) dimensions = [1]
  return %sum : tensor<8xf32>
}
