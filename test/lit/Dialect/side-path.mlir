// RUN: jpmhc-opt %s --verify-roundtrip --canonicalize | FileCheck %s

// CHECK-LABEL: @tribox
func.func @tribox(%x: tensor<2x?x8xf32>, %b: index, %ids: tensor<2x?xi32>) -> (tensor<2x?x8xf32>, tensor<2x?x8xf32>) {
  // CHECK: jpmhc.tribox %{{.*}}, %{{.*}} segments(%{{.*}}) {passes = 1 : i64} : (tensor<2x?x8xf32>, index, tensor<2x?xi32>) -> tensor<2x?x8xf32>
  %y = jpmhc.tribox %x, %b segments(%ids) {passes = 1 : i64} : (tensor<2x?x8xf32>, index, tensor<2x?xi32>) -> tensor<2x?x8xf32>
  // CHECK: jpmhc.tribox_transpose %{{.*}}, %{{.*}} : (tensor<2x?x8xf32>, index) -> tensor<2x?x8xf32>
  %z = jpmhc.tribox_transpose %x, %b : (tensor<2x?x8xf32>, index) -> tensor<2x?x8xf32>
  return %y, %z : tensor<2x?x8xf32>, tensor<2x?x8xf32>
}

// CHECK-LABEL: @side_path
func.func @side_path(%x: tensor<4x3xbf16>, %attn: tensor<4x3xbf16>, %g: tensor<f32>, %b: index)
    -> (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>) {
  // CHECK: jpmhc.side_path %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>, index) -> tensor<4x3xbf16>
  %y = jpmhc.side_path %x, %attn, %g, %b : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>, index) -> tensor<4x3xbf16>
  // CHECK: jpmhc.side_path_vjp %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>, index) -> (tensor<4x3xbf16>, tensor<f32>)
  %dx, %dg = jpmhc.side_path_vjp %x, %y, %g, %b
    : (tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>, index) -> (tensor<4x3xbf16>, tensor<f32>)
  return %y, %dx, %dg : tensor<4x3xbf16>, tensor<4x3xbf16>, tensor<f32>
}

// CHECK-LABEL: @gate
func.func @gate(%b: index, %t: index, %w: tensor<16xf32>, %s: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
  // CHECK: jpmhc.coverage_gate
  %g = jpmhc.coverage_gate %b, %t, %w, %w, %w, %s, %s
    : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  // CHECK: jpmhc.coverage_gate_vjp
  %d:5 = jpmhc.coverage_gate_vjp %b, %t, %w, %w, %w, %s, %s, %g
    : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>)
  return %g, %d#4 : tensor<f32>, tensor<f32>
}

// A filter of width 1 is the identity, segments or not.
// CHECK-LABEL: @width_one
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>
func.func @width_one(%x: tensor<4x3xf32>, %ids: tensor<4xi32>) -> tensor<4x3xf32> {
  %b = arith.constant 1 : index
  // CHECK-NEXT: return %[[X]]
  %y = jpmhc.tribox %x, %b segments(%ids) : (tensor<4x3xf32>, index, tensor<4xi32>) -> tensor<4x3xf32>
  %z = jpmhc.tribox_transpose %y, %b {passes = 1 : i64} : (tensor<4x3xf32>, index) -> tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}

// A single token: every width is 1.
// CHECK-LABEL: @one_token
// CHECK-SAME: %[[X:.*]]: tensor<1x3xf32>
func.func @one_token(%x: tensor<1x3xf32>) -> tensor<1x3xf32> {
  %b = arith.constant 8 : index
  // CHECK-NEXT: return %[[X]]
  %y = jpmhc.tribox %x, %b : (tensor<1x3xf32>, index) -> tensor<1x3xf32>
  return %y : tensor<1x3xf32>
}

// A width of more tokens than there are is that of all tokens.
// CHECK-LABEL: @wide
func.func @wide(%x: tensor<4x3xf32>, %g: tensor<f32>) -> (tensor<4x3xf32>, tensor<4x3xf32>) {
  // CHECK: %[[FOUR:.*]] = arith.constant 4 : index
  %b = arith.constant 64 : index
  // CHECK: jpmhc.tribox %{{.*}}, %[[FOUR]]
  %y = jpmhc.tribox %x, %b : (tensor<4x3xf32>, index) -> tensor<4x3xf32>
  // CHECK: jpmhc.side_path %{{.*}}, %{{.*}}, %{{.*}}, %[[FOUR]]
  %z = jpmhc.side_path %x, %y, %g, %b : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, index) -> tensor<4x3xf32>
  return %y, %z : tensor<4x3xf32>, tensor<4x3xf32>
}

// T is not known: the width stays.
// CHECK-LABEL: @dynamic
func.func @dynamic(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  // CHECK: arith.constant 64 : index
  %b = arith.constant 64 : index
  %y = jpmhc.tribox %x, %b : (tensor<?x3xf32>, index) -> tensor<?x3xf32>
  return %y : tensor<?x3xf32>
}
