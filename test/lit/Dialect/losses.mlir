// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @losses
func.func @losses(%x: tensor<?x12xbf16>, %t: tensor<?xi32>, %g: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: jpmhc.softmax_cross_entropy %{{.*}}, %{{.*}} {ignore_index = 0 : i64} : tensor<?x12xbf16>, tensor<?xi32>
  %a = jpmhc.softmax_cross_entropy %x, %t {ignore_index = 0 : i64} : tensor<?x12xbf16>, tensor<?xi32>
  // CHECK: jpmhc.stablemax_cross_entropy %{{.*}}, %{{.*}} : tensor<?x12xbf16>, tensor<?xi32>
  %b = jpmhc.stablemax_cross_entropy %x, %t : tensor<?x12xbf16>, tensor<?xi32>
  // CHECK: jpmhc.softmax_cross_entropy_vjp %{{.*}}, %{{.*}}, %{{.*}} {ignore_index = 0 : i64} : tensor<?x12xbf16>, tensor<?xi32>
  %c = jpmhc.softmax_cross_entropy_vjp %x, %t, %g {ignore_index = 0 : i64} : tensor<?x12xbf16>, tensor<?xi32>
  // CHECK: jpmhc.stablemax_cross_entropy_vjp %{{.*}}, %{{.*}}, %{{.*}} : tensor<?x12xbf16>, tensor<?xi32>
  %d = jpmhc.stablemax_cross_entropy_vjp %x, %t, %g : tensor<?x12xbf16>, tensor<?xi32>
  return %a, %b : tensor<f32>, tensor<f32>
}
