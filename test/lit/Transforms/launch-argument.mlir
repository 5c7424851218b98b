// RUN: jpmhc-opt %s --jpmhc-to-kernels | FileCheck %s

// Layers that differ in their width alone share a kernel: the width is an argument of the launch.
// CHECK-LABEL: func.func private @layers
// CHECK-DAG: %[[FOUR:.*]] = arith.constant 4 : index
// CHECK-DAG: %[[EIGHT:.*]] = arith.constant 8 : index
// CHECK: %[[A:.*]] = jpmhc.launch_argument %[[FOUR]] : index
// CHECK: jpmhc.launch @tribox_0 {{.*}}(%[[A]],
// CHECK: %[[B:.*]] = jpmhc.launch_argument %[[EIGHT]] : index
// CHECK: jpmhc.launch @tribox_0 {{.*}}(%[[B]],
// CHECK: func.func private @tribox_0
// CHECK-NOT: func.func
func.func @layers(%x: tensor<2x64x8xf32>) -> tensor<2x64x8xf32> {
  %four = arith.constant 4 : index
  %eight = arith.constant 8 : index
  %y = jpmhc.tribox %x, %four : (tensor<2x64x8xf32>, index) -> tensor<2x64x8xf32>
  %z = jpmhc.tribox %y, %eight : (tensor<2x64x8xf32>, index) -> tensor<2x64x8xf32>
  return %z : tensor<2x64x8xf32>
}
