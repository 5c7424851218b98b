// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @rope_rank(%x: tensor<4x8x8xf32>) {
  // expected-error @+1 {{expected x of shape [B, T, H, d], got rank 3}}
  %y = jpmhc.rope %x : tensor<4x8x8xf32>
  return
}

// -----

func.func @rope_odd(%x: tensor<1x4x2x7xf32>) {
  // expected-error @+1 {{expected an even head size, got 7}}
  %y = jpmhc.rope %x : tensor<1x4x2x7xf32>
  return
}

// -----

func.func @rope_theta(%x: tensor<1x4x2x8xf32>) {
  // expected-error @+1 {{expected a finite theta > 0, got 0}}
  %y = jpmhc.rope %x {theta = 0.0 : f32} : tensor<1x4x2x8xf32>
  return
}

// -----

func.func @table_rank(%t: tensor<32x8x2xf32>, %i: tensor<5xi32>) {
  // expected-error @+1 {{expected a table of shape [V, D], got rank 3}}
  %y = jpmhc.embedding %t, %i : (tensor<32x8x2xf32>, tensor<5xi32>) -> tensor<5x2xf32>
  return
}

// -----

func.func @rows(%t: tensor<32x8xf32>, %i: tensor<5xi32>) {
  // expected-error @+1 {{expected y of type 'tensor<5x8xf32>', got 'tensor<5x7xf32>'}}
  %y = jpmhc.embedding %t, %i : (tensor<32x8xf32>, tensor<5xi32>) -> tensor<5x7xf32>
  return
}

// -----

func.func @element(%t: tensor<32x8xf32>, %i: tensor<5xi32>) {
  // expected-error @+1 {{expected y of element type 'f32', got 'bf16'}}
  %y = jpmhc.embedding %t, %i : (tensor<32x8xf32>, tensor<5xi32>) -> tensor<5x8xbf16>
  return
}

// -----

func.func @float_ids(%t: tensor<32x8xf32>, %i: tensor<5xf32>) {
  // expected-error @+1 {{operand #1 must be ranked tensor of 32-bit signless integer or 64-bit signless integer values}}
  %y = jpmhc.embedding %t, %i : (tensor<32x8xf32>, tensor<5xf32>) -> tensor<5x8xf32>
  return
}

// -----

func.func @cotangent(%dy: tensor<4x8xf32>, %i: tensor<5xi32>) {
  // expected-error @+1 {{expected dy of type 'tensor<5x8xf32>', got 'tensor<4x8xf32>'}}
  %y = jpmhc.embedding_vjp %dy, %i : (tensor<4x8xf32>, tensor<5xi32>) -> tensor<32x8xf32>
  return
}

// -----

func.func @constant_ids(%t: tensor<32x8xf32>) {
  %i = arith.constant dense<-1> : tensor<5xi32>
  // expected-error @+1 {{expected ids in [0, 32), got -1 at element 0}}
  %y = jpmhc.embedding %t, %i : (tensor<32x8xf32>, tensor<5xi32>) -> tensor<5x8xf32>
  return
}
