// RUN: jpmhc-opt %s --verify-diagnostics --split-input-file

func.func @rank(%x: tensor<4xf32>, %b: index) -> tensor<4xf32> {
  // expected-error @below {{expected a tensor of rank 2 or more (tokens, channels), got 'tensor<4xf32>'}}
  %y = jpmhc.tribox %x, %b : (tensor<4xf32>, index) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @width(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %b = arith.constant 0 : index
  // expected-error @below {{expected a width of 1 or more, got 0}}
  %y = jpmhc.tribox %x, %b : (tensor<4x3xf32>, index) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @segments(%x: tensor<2x4x3xf32>, %b: index, %ids: tensor<2x5xi32>) -> tensor<2x4x3xf32> {
  // expected-error @below {{expected segments of shape 2, 4, got 2, 5}}
  %y = jpmhc.tribox %x, %b segments(%ids) : (tensor<2x4x3xf32>, index, tensor<2x5xi32>) -> tensor<2x4x3xf32>
  return %y : tensor<2x4x3xf32>
}

// -----

func.func @passes(%x: tensor<4x3xf32>, %b: index) -> tensor<4x3xf32> {
  // expected-error @below {{attribute 'passes' failed to satisfy constraint: 64-bit signless integer attribute whose minimum value is 1 whose maximum value is 2}}
  %y = jpmhc.tribox %x, %b {passes = 3 : i64} : (tensor<4x3xf32>, index) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @result(%x: tensor<4x3xf32>, %b: index) -> tensor<4x3xbf16> {
  // expected-error @below {{failed to verify that all of {x, y} have same type}}
  %y = jpmhc.tribox %x, %b : (tensor<4x3xf32>, index) -> tensor<4x3xbf16>
  return %y : tensor<4x3xbf16>
}

// -----

func.func @transpose(%x: tensor<3xf32>, %b: index) -> tensor<3xf32> {
  // expected-error @below {{expected a tensor of rank 2 or more (tokens, channels), got 'tensor<3xf32>'}}
  %y = jpmhc.tribox_transpose %x, %b : (tensor<3xf32>, index) -> tensor<3xf32>
  return %y : tensor<3xf32>
}

// -----

func.func @update(%x: tensor<4x3xf32>, %a: tensor<4x2xf32>, %g: tensor<f32>, %b: index) -> tensor<4x3xf32> {
  // expected-error @below {{failed to verify that all of {x, attn, y} have same type}}
  %y = jpmhc.side_path %x, %a, %g, %b : (tensor<4x3xf32>, tensor<4x2xf32>, tensor<f32>, index) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @update_segments(%x: tensor<4x3xf32>, %g: tensor<f32>, %b: index, %ids: tensor<3xi32>) -> tensor<4x3xf32> {
  // expected-error @below {{expected segments of shape 4, got 3}}
  %y = jpmhc.side_path %x, %x, %g, %b segments(%ids)
    : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, index, tensor<3xi32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// -----

func.func @update_vjp(%x: tensor<4x3xf32>, %g: tensor<f32>) -> tensor<4x3xf32> {
  %b = arith.constant -2 : index
  // expected-error @below {{expected a width of 1 or more, got -2}}
  %y, %dg = jpmhc.side_path_vjp %x, %x, %g, %b
    : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<f32>, index) -> (tensor<4x3xf32>, tensor<f32>)
  return %y : tensor<4x3xf32>
}

// -----

func.func @gate(%b: index, %w: tensor<16xf32>, %v: tensor<15xf32>, %s: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{expected w2 of 16 elements as w1, got 15}}
  %g = jpmhc.coverage_gate %b, %b, %w, %w, %v, %s, %s
    : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<15xf32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

func.func @gate_context(%b: index, %w: tensor<16xf32>, %s: tensor<f32>) -> tensor<f32> {
  %t = arith.constant 0 : index
  // expected-error @below {{expected a context of 1 or more, got 0}}
  %g = jpmhc.coverage_gate %b, %t, %w, %w, %w, %s, %s
    : (index, index, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>) -> tensor<f32>
  return %g : tensor<f32>
}

// -----

func.func @gate_vjp(%b: index, %w: tensor<16xf32>, %v: tensor<15xf32>, %s: tensor<f32>) -> tensor<f32> {
  // expected-error @below {{expected b1 of 16 elements as w1, got 15}}
  %d:5 = jpmhc.coverage_gate_vjp %b, %b, %w, %v, %w, %s, %s, %s
    : (index, index, tensor<16xf32>, tensor<15xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>, tensor<f32>)
    -> (tensor<16xf32>, tensor<15xf32>, tensor<16xf32>, tensor<f32>, tensor<f32>)
  return %d#3 : tensor<f32>
}
