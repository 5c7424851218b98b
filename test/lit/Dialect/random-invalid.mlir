// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @bits(%k: i64) {
  // expected-error @+1 {{expected at most 17179869184 elements, got 'tensor<4294967296x5xi32>'}}
  %a = jpmhc.random_bits seed %k step %k site %k : tensor<4294967296x5xi32>
  return
}

// -----

func.func @uniform(%k: i64) {
  // expected-error @+1 {{expected at most 17179869184 elements, got 'tensor<17179869185xf32>'}}
  %a = jpmhc.random_uniform seed %k step %k site %k : tensor<17179869185xf32>
  return
}

// -----

func.func @normal(%k: i64) {
  // expected-error @+1 {{expected at most 17179869184 elements, got 'tensor<17179869185xf32>'}}
  %a = jpmhc.random_normal seed %k step %k site %k : tensor<17179869185xf32>
  return
}

// -----

func.func @dropout(%x: tensor<17179869185xf32>, %k: i64) {
  // expected-error @+1 {{expected at most 17179869184 elements, got 'tensor<17179869185xf32>'}}
  %a = jpmhc.dropout %x seed %k step %k site %k {rate = 0.5 : f32} : tensor<17179869185xf32>
  return
}

// -----

func.func @rate(%x: tensor<4xf32>, %k: i64) {
  // expected-error @+1 {{expected a rate in [0, 1), got 1}}
  %a = jpmhc.dropout %x seed %k step %k site %k {rate = 1.0 : f32} : tensor<4xf32>
  return
}
