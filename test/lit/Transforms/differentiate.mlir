// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: jpmhc-opt %s --jpmhc-differentiate --split-input-file --verify-roundtrip | FileCheck %s

// A product and two uses of one value: the cotangents are added up. What stands in the middle is inlined.
// CHECK-LABEL: func.func @shared
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK: %[[Y:.*]] = arith.mulf %[[E]], %[[X]]
// CHECK: %[[DE:.*]] = arith.mulf %[[DY]], %[[X]]
// CHECK: %[[A:.*]] = arith.mulf %[[DY]], %[[E]]
// CHECK: %[[B:.*]] = arith.mulf %[[DE]], %[[E]]
// CHECK: %[[DX:.*]] = arith.addf %[[A]], %[[B]]
// CHECK: return %[[Y]], %[[DX]]
// CHECK-NOT: func.func
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = math.exp %x : tensor<4xf32>
  %y = arith.mulf %e, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @shared(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%dy) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %y, %dx : tensor<4xf32>, tensor<4xf32>
}

// -----

// The same array passed twice is differentiated by once.
// CHECK-LABEL: func.func @same_input_twice
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[DX:.*]] = arith.mulf %[[DY]], %[[X]]
// CHECK: return %[[DX]]
func.func private @f(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.mulf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @same_input_twice(%x: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x, %x) cotangents(%dy) wrt [0]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

// Gradients that do not exist are zeros; an auxiliary result has none, an argument returned as it is has the cotangent.
// CHECK-LABEL: func.func @zeros
// CHECK-SAME: (%[[X:.*]]: tensor<?x4xbf16>, %[[Z:.*]]: tensor<?x4xbf16>, %[[DX:.*]]: tensor<?x4xbf16>)
// CHECK: %[[SIN:.*]] = math.sin %[[X]]
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : bf16
// CHECK: %[[N:.*]] = tensor.dim %[[Z]]
// CHECK: %[[EMPTY:.*]] = tensor.empty(%[[N]]) : tensor<?x4xbf16>
// CHECK: %[[DZ:.*]] = linalg.fill ins(%[[ZERO]] : bf16) outs(%[[EMPTY]] : tensor<?x4xbf16>)
// CHECK: return %[[SIN]], %[[DX]], %[[DZ]]
func.func private @f(%x: tensor<?x4xbf16>, %z: tensor<?x4xbf16>) -> (tensor<?x4xbf16>, tensor<?x4xbf16>) {
  %s = math.sin %x : tensor<?x4xbf16>
  return %x, %s : tensor<?x4xbf16>, tensor<?x4xbf16>
}
func.func @zeros(%x: tensor<?x4xbf16>, %z: tensor<?x4xbf16>, %dy: tensor<?x4xbf16>)
    -> (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>) {
  %y, %s, %dx, %dz = jpmhc.vjp @f(%x, %z) cotangents(%dy) wrt [0, 1]
    : (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>)
   -> (tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>)
  return %s, %dx, %dz : tensor<?x4xbf16>, tensor<?x4xbf16>, tensor<?x4xbf16>
}

// -----

// Integers and comparisons carry no gradient; stop_gradient cuts it and disappears.
// CHECK-LABEL: func.func @stopped
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[I:.*]]: tensor<4xi32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[F:.*]] = arith.sitofp %[[I]]
// CHECK: %[[POSITIVE:.*]] = arith.cmpf ogt, %[[X]], %[[F]]
// CHECK: %[[E:.*]] = math.exp %[[X]]
// CHECK-NOT: stop_gradient
// CHECK: arith.select %[[POSITIVE]], %[[DY]]
// CHECK-NOT: arith.addf
// CHECK: return
func.func private @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> tensor<4xf32> {
  %f = arith.sitofp %i : tensor<4xi32> to tensor<4xf32>
  %positive = arith.cmpf ogt, %x, %f : tensor<4xf32>
  %e = math.exp %x : tensor<4xf32>
  %s = jpmhc.stop_gradient %e : tensor<4xf32>
  %y = arith.select %positive, %x, %s : tensor<4xi1>, tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @stopped(%x: tensor<4xf32>, %i: tensor<4xi32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %dx = jpmhc.vjp @f(%x, %i) cotangents(%dy) wrt [0]
    : (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %y, %dx : tensor<4xf32>, tensor<4xf32>
}

// -----

// A block used three times is differentiated for each set of active arguments; its parameter gets two contributions. The
// product is kept, what is element-wise is computed again, arguments come from the caller. The call without a gradient
// stays.
// CHECK-LABEL: func.func private @block(
// CHECK: func.func private @block_backward
// CHECK: math.exp
// CHECK: func.func private @block_forward
// CHECK-SAME: -> (tensor<4x4xf32>, tensor<4x4xf32>)
// CHECK: %[[P:.*]] = linalg.contract
// CHECK: %[[E:.*]] = math.exp %[[P]]
// CHECK: %[[T:.*]] = math.tanh %[[E]]
// CHECK: return %[[T]], %[[P]]
// CHECK-LABEL: func.func @weight_tying
// CHECK-SAME: (%[[W:.*]]: tensor<4x4xf32>, %[[X:.*]]: tensor<4x4xf32>, %[[DY:.*]]: tensor<4x4xf32>)
// CHECK: %[[H0:.*]] = call @block(%[[X]], %[[W]])
// CHECK: %[[F1:.*]]:2 = call @block_forward{{.*}}(%[[H0]], %[[W]])
// CHECK: %[[F2:.*]]:2 = call @block_forward{{.*}}(%[[F1]]#0, %[[W]])
// CHECK: %[[B2:.*]]:2 = call @block_backward{{.*}}(%[[W]], %[[F1]]#0, %[[F2]]#1, %[[DY]])
// CHECK: %[[B1:.*]] = call @block_backward{{.*}}(%[[H0]], %[[F1]]#1, %[[B2]]#0)
// CHECK: %[[DW:.*]] = arith.addf %[[B2]]#1, %[[B1]]
// CHECK: return %[[F2]]#0, %[[DW]]
func.func private @block(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x4xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>,
                                        affine_map<(m, n, k) -> (m, n)>]
    ins(%x, %w : tensor<4x4xf32>, tensor<4x4xf32>) outs(%zero : tensor<4x4xf32>) -> tensor<4x4xf32>
  %e = math.exp %p : tensor<4x4xf32>
  %t = math.tanh %e : tensor<4x4xf32>
  return %t : tensor<4x4xf32>
}
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = func.call @block(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %s = jpmhc.stop_gradient %a : tensor<4x4xf32>
  %b = func.call @block(%s, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %c = func.call @block(%b, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %c : tensor<4x4xf32>
}
func.func @weight_tying(%w: tensor<4x4xf32>, %x: tensor<4x4xf32>, %dy: tensor<4x4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %y, %dw = jpmhc.vjp @f(%x, %w) cotangents(%dy) wrt [1]
    : (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>)
  return %y, %dw : tensor<4x4xf32>, tensor<4x4xf32>
}

// -----

// A derivative can be differentiated: for y = x² x the first is x² + 2x x, the second 2x + 2x + 2x.
// CHECK-LABEL: func.func @second
// CHECK-SAME: (%[[X:.*]]: tensor<f32>)
// CHECK-COUNT-5: arith.addf
// CHECK: return
func.func private @cube(%x: tensor<f32>) -> tensor<f32> {
  %s = arith.mulf %x, %x : tensor<f32>
  %y = arith.mulf %s, %x : tensor<f32>
  return %y : tensor<f32>
}
func.func private @first(%x: tensor<f32>) -> tensor<f32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %y, %dx = jpmhc.vjp @cube(%x) cotangents(%one) wrt [0] : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dx : tensor<f32>
}
func.func @second(%x: tensor<f32>) -> tensor<f32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  %y, %dx = jpmhc.vjp @first(%x) cotangents(%one) wrt [0] : (tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return %dx : tensor<f32>
}

// -----

// bf16 cotangents are added up in f32 and rounded once.
// CHECK-LABEL: func.func @half_sums
// CHECK: %[[A:.*]] = arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
// CHECK: %[[B:.*]] = arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
// CHECK: %[[AB:.*]] = arith.addf %[[A]], %[[B]] : tensor<4xf32>
// CHECK: %[[C:.*]] = arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
// CHECK: %[[ABC:.*]] = arith.addf %[[AB]], %[[C]] : tensor<4xf32>
// CHECK: %[[DX:.*]] = arith.truncf %[[ABC]]
// CHECK: return %[[DX]]
func.func private @f(%x: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>) {
  return %x, %x, %x : tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>
}
func.func @half_sums(%x: tensor<4xbf16>, %dy: tensor<4xbf16>) -> tensor<4xbf16> {
  %0, %1, %2, %dx = jpmhc.vjp @f(%x) cotangents(%dy, %dy, %dy) wrt [0]
    : (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>)
   -> (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>)
  return %dx : tensor<4xbf16>
}

// -----

// Cotangents that come back as they are need no backward function, and equal gradients are one result of it.
// CHECK-LABEL: func.func private @scaled_backward
// CHECK-SAME: -> tensor<4xf32>
// CHECK-LABEL: func.func @passed_on
// CHECK-SAME: (%[[X:.*]]: tensor<4xf32>, %[[W:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: call @sum(
// CHECK: call @scaled(
// CHECK-NOT: @sum
// CHECK: %[[D:.*]] = call @scaled_backward(%[[DY]]) : (tensor<4xf32>) -> tensor<4xf32>
// CHECK: %[[DW:.*]] = arith.addf %[[D]], %[[D]]
// CHECK: return %{{.*}}, %[[D]], %[[DW]]
func.func private @sum(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.addf %x, %w : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @scaled(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %half = arith.constant dense<0.5> : tensor<4xf32>
  %s = arith.addf %x, %w : tensor<4xf32>
  %y = arith.mulf %s, %half : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @f(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %s = func.call @sum(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  %y = func.call @scaled(%s, %w) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @passed_on(%x: tensor<4xf32>, %w: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %y, %dx, %dw = jpmhc.vjp @f(%x, %w) cotangents(%dy) wrt [0, 1]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %y, %dx, %dw : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
