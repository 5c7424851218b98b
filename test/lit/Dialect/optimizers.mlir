// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @moments
func.func @moments(%p: tensor<?x4xbf16>, %g: tensor<?x4xf16>, %m: tensor<?x4xf32>, %v: tensor<?x4xf32>, %lr: f32, %t: i64) {
  // CHECK: jpmhc.adamw %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} lr %{{.*}} step %{{.*}} {beta1 = {{.*}}, beta2 = {{.*}}, eps = {{.*}}}
  // CHECK-SAME: : tensor<?x4xbf16>, tensor<?x4xf16>, tensor<?x4xf32>, tensor<?x4xf32>
  %a:3 = jpmhc.adamw %p, %g, %m, %v lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.999 : f32, eps = 1.0e-6 : f32}
    : tensor<?x4xbf16>, tensor<?x4xf16>, tensor<?x4xf32>, tensor<?x4xf32>
  // CHECK: jpmhc.adam_atan2 {{.*}} bias_correction = #jpmhc.bias_correction<inside>
  %b:3 = jpmhc.adam_atan2 %a#0, %g, %m, %v lr %lr step %t
    {beta1 = 0.9 : f32, beta2 = 0.95 : f32, weight_decay = 0.1 : f32, bias_correction = #jpmhc.bias_correction<inside>}
    : tensor<?x4xbf16>, tensor<?x4xf16>, tensor<?x4xf32>, tensor<?x4xf32>
  return
}

// CHECK-LABEL: @rows
func.func @rows(%t: tensor<32x8xf32>, %i: tensor<4xi64>, %g: tensor<4x8xf32>, %lr: f32) -> tensor<32x8xf32> {
  // CHECK: jpmhc.sign_sgd_rows %{{.*}}, %{{.*}}, %{{.*}} lr %{{.*}} : tensor<32x8xf32>, tensor<4xi64>, tensor<4x8xf32>
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32x8xf32>, tensor<4xi64>, tensor<4x8xf32>
  return %u : tensor<32x8xf32>
}

// CHECK-LABEL: @norm
func.func @norm(%x: tensor<?x3xf32>) -> tensor<f32> {
  // CHECK: jpmhc.global_norm %{{.*}} : tensor<?x3xf32>
  %n = jpmhc.global_norm %x : tensor<?x3xf32>
  return %n : tensor<f32>
}
