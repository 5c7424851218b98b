// RUN: jpmhc-opt %s --jpmhc-to-kernels | FileCheck %s

// One kernel updates p, m and v in the caller's buffers: nothing is copied, nothing returned.
// CHECK-LABEL: func.func private @step
// CHECK-SAME: jpmhc.aliases = array<i64: 0, 2, 3>, jpmhc.arena_bytes = 0 : i64
// CHECK-NOT: memref.copy
// CHECK: jpmhc.launch @adam_atan2_0
// CHECK-NOT: jpmhc.launch
// CHECK: return
func.func @step(%p: tensor<5000xf32> {jpmhc.inplace}, %g: tensor<5000xf32>, %m: tensor<5000xf32> {jpmhc.inplace},
                %v: tensor<5000xf32> {jpmhc.inplace}, %lr: f32, %t: i64)
    -> (tensor<5000xf32>, tensor<5000xf32>, tensor<5000xf32>) {
  %r:3 = jpmhc.adam_atan2 %p, %g, %m, %v lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.95 : f32}
    : tensor<5000xf32>, tensor<5000xf32>, tensor<5000xf32>, tensor<5000xf32>
  return %r#0, %r#1, %r#2 : tensor<5000xf32>, tensor<5000xf32>, tensor<5000xf32>
}
