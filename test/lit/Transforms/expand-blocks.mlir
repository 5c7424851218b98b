// RUN: jpmhc-opt %s --jpmhc-expand-blocks --split-input-file --verify-diagnostics | FileCheck %s

// CHECK-LABEL: @block
// CHECK-SAME: (%[[X:.*]]: tensor<8x4x16xf32>, %[[W:.*]]: tensor<48x64xf32>, %[[B:.*]]: tensor<48xf32>, %[[A:.*]]: tensor<8x16xf32>)
func.func @block(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %b: tensor<48xf32>, %a: tensor<8x16xf32>) -> tensor<8x4x16xf32> {
  // CHECK: %[[Z:.*]] = jpmhc.stream_logits %[[X]], %[[W]] <layer> {eps = 1.000000e-03 : f32}
  // CHECK: %[[R:.*]], %[[Q:.*]], %[[H:.*]] = jpmhc.stream_maps %[[Z]] bias(%[[B]]) <"stiefel"> <softmax> streams 4 {tau = 5.000000e-01 : f32}
  // CHECK: %[[IN:.*]] = jpmhc.stream_read %[[X]], %[[R]]
  // CHECK: %[[Y:.*]] = arith.mulf %[[IN]], %[[A]]
  // CHECK: %[[OUT:.*]] = jpmhc.stream_write %[[X]], %[[H]], %[[Q]], %[[Y]] {scale = 2.000000e+00 : f32}
  // CHECK: return %[[OUT]]
  %out = jpmhc.hyper_connection %x, %w bias(%b) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    %y = arith.mulf %in, %a : tensor<8x16xf32>
    jpmhc.yield %y : tensor<8x16xf32>
  } {eps = 1.0e-3 : f32, tau = 0.5 : f32, scale = 2.0 : f32}
    : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<48xf32>) -> tensor<8x4x16xf32>
  return %out : tensor<8x4x16xf32>
}

// -----

func.func @dynamic(%x: tensor<8x?x16xf32>, %w: tensor<48x?xf32>) -> tensor<8x?x16xf32> {
  // expected-error @+1 {{expected a static number of streams, got 'tensor<8x?x16xf32>'}}
  %out = jpmhc.hyper_connection %x, %w <"free"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x?x16xf32>, tensor<48x?xf32>) -> tensor<8x?x16xf32>
  return %out : tensor<8x?x16xf32>
}
