// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: jpmhc.rms_norm %{{.*}} gain(%{{.*}}) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = jpmhc.rms_norm %x gain(%g) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// CHECK-LABEL: @layer_norm
func.func @layer_norm(%x: tensor<2x?x8xbf16>, %g: tensor<8xf32>, %b: tensor<8xbf16>)
    -> (tensor<2x?x8xbf16>, tensor<2x?x8xbf16>) {
  // CHECK: jpmhc.layer_norm %{{.*}} gain(%{{.*}}) shift(%{{.*}}) : (tensor<2x?x8xbf16>, tensor<8xf32>, tensor<8xbf16>)
  %y = jpmhc.layer_norm %x gain(%g) shift(%b) {eps = 1.0e-5 : f32}
    : (tensor<2x?x8xbf16>, tensor<8xf32>, tensor<8xbf16>) -> tensor<2x?x8xbf16>
  // CHECK: jpmhc.layer_norm %{{.*}} shift(%{{.*}}) {eps = 1.000000e-03 : f32} : (tensor<2x?x8xbf16>, tensor<8xbf16>)
  %z = jpmhc.layer_norm %x shift(%b) {eps = 1.0e-3 : f32} : (tensor<2x?x8xbf16>, tensor<8xbf16>) -> tensor<2x?x8xbf16>
  return %y, %z : tensor<2x?x8xbf16>, tensor<2x?x8xbf16>
}

// CHECK-LABEL: @layer_norm_vjp
func.func @layer_norm_vjp(%x: tensor<4x8xf32>, %dy: tensor<4x8xf32>, %g: tensor<8xf32>) {
  // CHECK: -> tensor<4x8xf32> dgain tensor<8xf32> dshift tensor<8xf32>
  %a:3 = jpmhc.layer_norm_vjp %x, %dy gain(%g)
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32> dgain tensor<8xf32> dshift tensor<8xf32>
  // CHECK: (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> dshift tensor<8xf32>
  %b:2 = jpmhc.layer_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32> dshift tensor<8xf32>
  // CHECK: (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %c = jpmhc.layer_norm_vjp %x, %dy : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return
}
