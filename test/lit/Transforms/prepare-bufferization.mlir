// RUN: jpmhc-opt %s --jpmhc-prepare-bufferization | FileCheck %s

// CHECK: func.func private @f(%{{.*}}: tensor<4xf32> {bufferization.writable = false}, %{{.*}}: tensor<4xf32> {bufferization.writable = true, jpmhc.inplace}, %{{.*}}: f32)
// CHECK-SAME: jpmhc.entry
func.func @f(%x: tensor<4xf32>, %p: tensor<4xf32> {jpmhc.inplace}, %lr: f32) -> tensor<4xf32> {
  return %p : tensor<4xf32>
}
