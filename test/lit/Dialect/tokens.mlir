// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

// CHECK-LABEL: @rope
func.func @rope(%x: tensor<2x?x4x8xbf16>) -> tensor<2x?x4x8xbf16> {
  // CHECK: jpmhc.rope %{{.*}} : tensor<2x?x4x8xbf16>
  %y = jpmhc.rope %x : tensor<2x?x4x8xbf16>
  // CHECK: jpmhc.rope %{{.*}} {inverse, theta = 5.000000e+02 : f32} : tensor<2x?x4x8xbf16>
  %z = jpmhc.rope %y {inverse, theta = 500.0 : f32} : tensor<2x?x4x8xbf16>
  return %z : tensor<2x?x4x8xbf16>
}

// One token is at position 0.
// FOLD-LABEL: @rope_one_token
// FOLD-NOT: jpmhc.rope
func.func @rope_one_token(%x: tensor<2x1x4x8xf32>) -> tensor<2x1x4x8xf32> {
  %y = jpmhc.rope %x : tensor<2x1x4x8xf32>
  return %y : tensor<2x1x4x8xf32>
}

// CHECK-LABEL: @embedding
func.func @embedding(%t: tensor<32x8xf16>, %i: tensor<2x?xi32>, %dy: tensor<2x?x8xf16>)
    -> (tensor<2x?x8xf16>, tensor<32x8xf16>) {
  // CHECK: jpmhc.embedding %{{.*}}, %{{.*}} : (tensor<32x8xf16>, tensor<2x?xi32>) -> tensor<2x?x8xf16>
  %y = jpmhc.embedding %t, %i : (tensor<32x8xf16>, tensor<2x?xi32>) -> tensor<2x?x8xf16>
  // CHECK: jpmhc.embedding_vjp %{{.*}}, %{{.*}} : (tensor<2x?x8xf16>, tensor<2x?xi32>) -> tensor<32x8xf16>
  %d = jpmhc.embedding_vjp %dy, %i : (tensor<2x?x8xf16>, tensor<2x?xi32>) -> tensor<32x8xf16>
  return %y, %d : tensor<2x?x8xf16>, tensor<32x8xf16>
}

// CHECK-LABEL: @one_id
func.func @one_id(%t: tensor<?x8xf32>, %i: tensor<i64>) -> tensor<8xf32> {
  // CHECK: jpmhc.embedding %{{.*}}, %{{.*}} : (tensor<?x8xf32>, tensor<i64>) -> tensor<8xf32>
  %y = jpmhc.embedding %t, %i : (tensor<?x8xf32>, tensor<i64>) -> tensor<8xf32>
  return %y : tensor<8xf32>
}
