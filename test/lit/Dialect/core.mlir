// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --canonicalize | FileCheck %s --check-prefix=CANON

// CHECK-LABEL: func.func @stop_gradient
// CHECK: jpmhc.stop_gradient %{{.*}} : tensor<?x8xbf16>
// The op must outlive everything before differentiation.
// CANON-LABEL: func.func @stop_gradient
// CANON: jpmhc.stop_gradient
func.func @stop_gradient(%x: tensor<?x8xbf16>) -> tensor<?x8xbf16> {
  %y = jpmhc.stop_gradient %x : tensor<?x8xbf16>
  return %y : tensor<?x8xbf16>
}

func.func private @loss(%w: tensor<4xf32>, %ids: tensor<?xi32>, %scale: f32) -> (tensor<f32>, tensor<?xi32>) {
  %0 = arith.constant dense<0.0> : tensor<f32>
  return %0, %ids : tensor<f32>, tensor<?xi32>
}

// CHECK-LABEL: func.func @vjp
// CHECK: %{{.*}}:4 = jpmhc.vjp @loss(%{{.*}}, %{{.*}}, %{{.*}}) cotangents(%{{.*}}) wrt [0, 2] :
// CHECK-SAME: (tensor<4xf32>, tensor<?xi32>, f32, tensor<f32>) -> (tensor<f32>, tensor<?xi32>, tensor<4xf32>, f32)
func.func @vjp(%w: tensor<4xf32>, %ids: tensor<?xi32>, %scale: f32, %one: tensor<f32>)
    -> (tensor<f32>, tensor<4xf32>, f32) {
  %loss, %aux, %dw, %dscale = jpmhc.vjp @loss(%w, %ids, %scale) cotangents(%one) wrt [0, 2]
    : (tensor<4xf32>, tensor<?xi32>, f32, tensor<f32>) -> (tensor<f32>, tensor<?xi32>, tensor<4xf32>, f32)
  return %loss, %dw, %dscale : tensor<f32>, tensor<4xf32>, f32
}

// CHECK-LABEL: func.func @nothing_to_differentiate
// CHECK: jpmhc.vjp @loss(%{{.*}}) cotangents() wrt []
func.func @nothing_to_differentiate(%w: tensor<4xf32>, %ids: tensor<?xi32>, %scale: f32) -> tensor<f32> {
  %loss, %aux = jpmhc.vjp @loss(%w, %ids, %scale) cotangents() wrt []
    : (tensor<4xf32>, tensor<?xi32>, f32) -> (tensor<f32>, tensor<?xi32>)
  return %loss : tensor<f32>
}
