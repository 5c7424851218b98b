// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @shape(%p: tensor<4x8xf32>, %g: tensor<32xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected g of shape [4, 8], got [32]}}
  %a:3 = jpmhc.adamw %p, %g, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32}
    : tensor<4x8xf32>, tensor<32xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  return
}

// -----

func.func @moment(%p: tensor<8xf32>, %m: tensor<9xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected m of shape [8], got [9]}}
  %a:3 = jpmhc.adam_atan2 %p, %p, %m, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<9xf32>, tensor<8xf32>
  return
}

// -----

func.func @second_moment(%p: tensor<8xf32>, %v: tensor<9xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected v of shape [8], got [9]}}
  %a:3 = jpmhc.adam_atan2 %p, %p, %p, %v lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<9xf32>
  return
}

// -----

func.func @beta1(%p: tensor<8xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected beta1 in [0, 1), got 1}}
  %a:3 = jpmhc.adamw %p, %p, %p, %p lr %lr step %t {beta1 = 1.0 : f32, beta2 = 0.9 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @beta2(%p: tensor<8xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected beta2 in [0, 1), got -5.000000e-01}}
  %a:3 = jpmhc.adam_atan2 %p, %p, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = -0.5 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @decay(%p: tensor<8xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected a finite weight_decay >= 0, got -1}}
  %a:3 = jpmhc.adam_atan2 %p, %p, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32, weight_decay = -1.0 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @eps(%p: tensor<8xf32>, %lr: f32, %t: i64) {
  // expected-error @+1 {{expected a finite eps >= 0, got -1}}
  %a:3 = jpmhc.adamw %p, %p, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32, eps = -1.0 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @table(%t: tensor<32xf32>, %i: tensor<4xi64>, %g: tensor<4x8xf32>, %lr: f32) {
  // expected-error @+1 {{expected a table of shape [V, D], got rank 1}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32xf32>, tensor<4xi64>, tensor<4x8xf32>
  return
}

// -----

func.func @ids(%t: tensor<32x8xf32>, %i: tensor<2x2xi64>, %g: tensor<4x8xf32>, %lr: f32) {
  // expected-error @+1 {{expected ids of shape [K], got rank 2}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32x8xf32>, tensor<2x2xi64>, tensor<4x8xf32>
  return
}

// -----

func.func @grad(%t: tensor<32x8xf32>, %i: tensor<4xi64>, %g: tensor<4x9xf32>, %lr: f32) {
  // expected-error @+1 {{expected grad of type 'tensor<4x8xf32>', got 'tensor<4x9xf32>'}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32x8xf32>, tensor<4xi64>, tensor<4x9xf32>
  return
}

// -----

func.func @row_decay(%t: tensor<32x8xf32>, %i: tensor<4xi64>, %g: tensor<4x8xf32>, %lr: f32) {
  // expected-error @+1 {{expected a finite weight_decay >= 0, got -1}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr {weight_decay = -1.0 : f32} : tensor<32x8xf32>, tensor<4xi64>, tensor<4x8xf32>
  return
}

// -----

func.func @step(%p: tensor<8xf32>, %lr: f32) {
  %t = arith.constant 0 : i64
  // expected-error @+1 {{expected a step of 1 or more, got 0}}
  %a:3 = jpmhc.adamw %p, %p, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @rate(%p: tensor<8xf32>, %t: i64) {
  %lr = arith.constant 0x7FC00000 : f32
  // expected-error @+1 {{expected a finite lr >= 0, got nan}}
  %a:3 = jpmhc.adam_atan2 %p, %p, %p, %p lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.9 : f32}
    : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
  return
}

// -----

func.func @row_rate(%t: tensor<32x8xf32>, %i: tensor<4xi64>, %g: tensor<4x8xf32>) {
  %lr = arith.constant -1.0 : f32
  // expected-error @+1 {{expected a finite lr >= 0, got -1}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32x8xf32>, tensor<4xi64>, tensor<4x8xf32>
  return
}

// -----

func.func @row_ids(%t: tensor<32x8xf32>, %g: tensor<4x8xf32>, %lr: f32) {
  %i = arith.constant dense<[0, 31, 32, 1]> : tensor<4xi64>
  // expected-error @+1 {{expected ids in [0, 32), got 32 at element 2}}
  %u = jpmhc.sign_sgd_rows %t, %i, %g lr %lr : tensor<32x8xf32>, tensor<4xi64>, tensor<4x8xf32>
  return
}
