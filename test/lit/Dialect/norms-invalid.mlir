// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @scalar(%x: tensor<f32>) {
  // expected-error @+1 {{expected x of rank 1 or more, got rank 0}}
  %y = jpmhc.rms_norm %x : (tensor<f32>) -> tensor<f32>
  return
}

// -----

func.func @gain(%x: tensor<4x8xf32>, %g: tensor<7xf32>) {
  // expected-error @+1 {{expected gain of 8 elements, got 7}}
  %y = jpmhc.rms_norm %x gain(%g) : (tensor<4x8xf32>, tensor<7xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @cotangent(%x: tensor<4x8xf32>, %dy: tensor<4x7xf32>) {
  // expected-error @+1 {{expected dy of type 'tensor<4x8xf32>', got 'tensor<4x7xf32>'}}
  %y = jpmhc.rms_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x7xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_gain(%x: tensor<4x8xf32>, %g: tensor<7xf32>) {
  // expected-error @+1 {{expected gain of 8 elements, got 7}}
  %y = jpmhc.layer_norm %x gain(%g) : (tensor<4x8xf32>, tensor<7xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_shift(%x: tensor<4x8xf32>, %g: tensor<9xf32>) {
  // expected-error @+1 {{expected shift of 8 elements, got 9}}
  %y = jpmhc.layer_norm %x shift(%g) : (tensor<4x8xf32>, tensor<9xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_cotangent(%x: tensor<4x8xf32>, %dy: tensor<4x8xbf16>) {
  // expected-error @+1 {{expected dy of type 'tensor<4x8xf32>', got 'tensor<4x8xbf16>'}}
  %y = jpmhc.layer_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x8xbf16>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_dgain(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) {
  // expected-error @+1 {{expected a gain with dgain, got none}}
  %y:2 = jpmhc.layer_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> dgain tensor<8xf32>
  return
}

// -----

func.func @layer_dgain_size(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // expected-error @+1 {{expected dgain of 8 elements, got 3}}
  %y:2 = jpmhc.layer_norm_vjp %x, %dy gain(%g)
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> dgain tensor<3xf32>
  return
}

// -----

func.func @layer_dshift_size(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>) {
  // expected-error @+1 {{expected dshift of 8 elements, got 3}}
  %y:2 = jpmhc.layer_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> dshift tensor<3xf32>
  return
}

// -----

func.func @rms_eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expected a finite eps >= 0, got -1}}
  %y = jpmhc.rms_norm %x {eps = -1.0 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expected a finite eps >= 0, got INF}}
  %y = jpmhc.layer_norm %x {eps = 0x7F800000 : f32} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @rms_vjp_eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expected a finite eps >= 0, got nan}}
  %y = jpmhc.rms_norm_vjp %x, %x {eps = 0x7FC00000 : f32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}

// -----

func.func @layer_vjp_eps(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{expected a finite eps >= 0, got -2}}
  %y = jpmhc.layer_norm_vjp %x, %x {eps = -2.0 : f32} : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
