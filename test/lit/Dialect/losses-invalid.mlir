// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @logits(%x: tensor<2x6x12xf32>, %t: tensor<6xi32>) {
  // expected-error @+1 {{expected logits of shape [N, V], got rank 3}}
  %l = jpmhc.softmax_cross_entropy %x, %t : tensor<2x6x12xf32>, tensor<6xi32>
  return
}

// -----

func.func @target(%x: tensor<6x12xf32>, %t: tensor<6x1xi32>) {
  // expected-error @+1 {{expected a target of shape [N], got rank 2}}
  %l = jpmhc.stablemax_cross_entropy %x, %t : tensor<6x12xf32>, tensor<6x1xi32>
  return
}

// -----

func.func @rows(%x: tensor<6x12xf32>, %t: tensor<5xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{expected a target of 6 elements, got 5}}
  %l = jpmhc.softmax_cross_entropy_vjp %x, %t, %g : tensor<6x12xf32>, tensor<5xi32>
  return
}

// -----

func.func @stablemax_rows(%x: tensor<6x12xf32>, %t: tensor<7xi32>, %g: tensor<f32>) {
  // expected-error @+1 {{expected a target of 6 elements, got 7}}
  %l = jpmhc.stablemax_cross_entropy_vjp %x, %t, %g : tensor<6x12xf32>, tensor<7xi32>
  return
}

// -----

func.func @constant_target(%x: tensor<2x12xf32>) {
  %t = arith.constant dense<[-100, 12]> : tensor<2xi32>
  // expected-error @+1 {{expected targets in [0, 12), got 12 at element 1}}
  %l = jpmhc.stablemax_cross_entropy %x, %t : tensor<2x12xf32>, tensor<2xi32>
  return
}
