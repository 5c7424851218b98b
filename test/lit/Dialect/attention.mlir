// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --canonicalize --verify-roundtrip | FileCheck %s --check-prefix=CANON

// CHECK-LABEL: func @grouped
// CHECK: jpmhc.attention %{{.*}}, %{{.*}}, %{{.*}} segments(%{{.*}}) {causal = true, window = 16 : i64}
// CHECK-SAME: -> (tensor<2x64x4x8xf32>, tensor<2x4x64xf32>)
func.func @grouped(%q: tensor<2x64x4x8xf32>, %k: tensor<2x64x2x8xf32>, %v: tensor<2x64x2x8xf32>,
                   %ids: tensor<2x64xi32>) -> (tensor<2x64x4x8xf32>, tensor<2x4x64xf32>) {
  %out, %lse = jpmhc.attention %q, %k, %v segments(%ids) {causal = true, window = 16 : i64}
    : (tensor<2x64x4x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64x2x8xf32>, tensor<2x64xi32>)
    -> (tensor<2x64x4x8xf32>, tensor<2x4x64xf32>)
  return %out, %lse : tensor<2x64x4x8xf32>, tensor<2x4x64xf32>
}

// Defaults are not printed; any storage type; dynamic sizes.
// CHECK-LABEL: func @dynamic
// CHECK: jpmhc.attention %{{[^{]*}} : (tensor<?x?x4x8xbf16>
func.func @dynamic(%q: tensor<?x?x4x8xbf16>, %k: tensor<?x?x?x8xbf16>, %v: tensor<?x?x?x?xbf16>)
    -> (tensor<?x?x?x8xbf16>, tensor<?x4x?xf32>) {
  %out, %lse = jpmhc.attention %q, %k, %v
    : (tensor<?x?x4x8xbf16>, tensor<?x?x?x8xbf16>, tensor<?x?x?x?xbf16>)
    -> (tensor<?x?x?x8xbf16>, tensor<?x4x?xf32>)
  return %out, %lse : tensor<?x?x?x8xbf16>, tensor<?x4x?xf32>
}

// CHECK-LABEL: func @vjp
// CHECK: jpmhc.attention_vjp
// CHECK-SAME: segments(%{{.*}}) {causal = true}
func.func @vjp(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>,
               %out: tensor<2x5x4x8xf32>, %lse: tensor<2x4x5xf32>, %dout: tensor<2x5x4x8xf32>,
               %ids: tensor<2x5xi64>) -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>) {
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout segments(%ids) {causal = true}
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>,
       tensor<2x5x4x8xf32>, tensor<2x5xi64>)
    -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
  return %dq, %dk, %dv : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>
}

// A window of all tokens hides nothing.
// CANON-LABEL: func @wide_window
// CANON: jpmhc.attention %{{.*}} {causal = true} :
func.func @wide_window(%q: tensor<1x5x1x4xf32>) -> tensor<1x5x1x4xf32> {
  %out, %lse = jpmhc.attention %q, %q, %q {causal = true, window = 5 : i64}
    : (tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>) -> (tensor<1x5x1x4xf32>, tensor<1x1x5xf32>)
  return %out : tensor<1x5x1x4xf32>
}

// A narrower one does.
// CANON-LABEL: func @narrow_window
// CANON: jpmhc.attention %{{.*}} {causal = true, window = 4 : i64}
func.func @narrow_window(%q: tensor<1x5x1x4xf32>) -> tensor<1x5x1x4xf32> {
  %out, %lse = jpmhc.attention %q, %q, %q {causal = true, window = 4 : i64}
    : (tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>) -> (tensor<1x5x1x4xf32>, tensor<1x1x5xf32>)
  return %out : tensor<1x5x1x4xf32>
}

// A single token has no later one.
// CANON-LABEL: func @single_token
// CANON: jpmhc.attention %{{[^{]*}} :
func.func @single_token(%q: tensor<3x1x1x4xf32>) -> tensor<3x1x1x4xf32> {
  %out, %lse = jpmhc.attention %q, %q, %q {causal = true, window = 2 : i64}
    : (tensor<3x1x1x4xf32>, tensor<3x1x1x4xf32>, tensor<3x1x1x4xf32>) -> (tensor<3x1x1x4xf32>, tensor<3x1x1xf32>)
  return %out : tensor<3x1x1x4xf32>
}

// Without a use of either result nothing is left.
// CANON-LABEL: func @unused
// CANON-NOT: jpmhc.attention
// CANON: return
func.func @unused(%q: tensor<1x5x1x4xf32>) {
  %out, %lse = jpmhc.attention %q, %q, %q
    : (tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>, tensor<1x5x1x4xf32>) -> (tensor<1x5x1x4xf32>, tensor<1x1x5xf32>)
  return
}
