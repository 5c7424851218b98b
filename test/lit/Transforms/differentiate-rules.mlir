// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: jpmhc-opt %s --jpmhc-differentiate --split-input-file --verify-roundtrip | FileCheck %s

// Each request @grad asks for the gradients of @f alone, so that the results are the gradients in order.

// A quotient uses its own result.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[Y:.*]] = arith.divf %[[A]], %[[B]]
// CHECK: %[[DA:.*]] = arith.divf %[[DY]], %[[B]]
// CHECK: %[[P:.*]] = arith.mulf %[[DA]], %[[Y]]
// CHECK: %[[DB:.*]] = arith.negf %[[P]]
// CHECK: return %[[DA]], %[[DB]]
func.func private @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.divf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%a: tensor<4xf32>, %b: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %da, %db = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0, 1]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %da, %db : tensor<4xf32>, tensor<4xf32>
}

// -----

// A maximum: to the larger operand, half each to equal ones; NaN compares as larger.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[HALF:.*]] = arith.mulf %[[DY]]
// CHECK: %[[TIE:.*]] = arith.cmpf oeq, %[[A]], %[[B]]
// CHECK: %[[S:.*]] = arith.select %[[TIE]], %[[HALF]]
// CHECK: %[[WINS:.*]] = arith.cmpf ugt, %[[A]], %[[B]]
// CHECK: %[[DA:.*]] = arith.select %[[WINS]], %[[DY]], %[[S]]
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.maximumf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%a: tensor<4xf32>, %b: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %y, %da = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %da : tensor<4xf32>
}

// -----

// A minimum.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: arith.cmpf ult, %[[B]], %[[A]]
func.func private @f(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.minimumf %a, %b : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%a: tensor<4xf32>, %b: tensor<4xf32>, %dy: tensor<4xf32>) -> tensor<4xf32> {
  %y, %db = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [1]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %db : tensor<4xf32>
}

// -----

// A choice: the condition has no gradient.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[C:.*]]: tensor<4xi1>, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[ZERO:.*]] = linalg.fill
// CHECK: %[[DA:.*]] = arith.select %[[C]], %[[DY]], %[[ZERO]]
// CHECK: %[[DB:.*]] = arith.select %[[C]], %[[ZERO]], %[[DY]]
// CHECK: return %[[DA]], %[[DB]]
func.func private @f(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %y = arith.select %c, %a, %b : tensor<4xi1>, tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%c: tensor<4xi1>, %a: tensor<4xf32>, %b: tensor<4xf32>, %dy: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %y, %da, %db = jpmhc.vjp @f(%c, %a, %b) cotangents(%dy) wrt [1, 2]
    : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %da, %db : tensor<4xf32>, tensor<4xf32>
}

// -----

// Conversions convert back.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xbf16>, %[[DY:.*]]: tensor<4xf16>)
// CHECK: %[[F:.*]] = arith.extf %[[DY]] : tensor<4xf16> to tensor<4xf32>
// CHECK: %[[DA:.*]] = arith.truncf %[[F]] : tensor<4xf32> to tensor<4xbf16>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xbf16>) -> tensor<4xf16> {
  %f = arith.extf %a : tensor<4xbf16> to tensor<4xf32>
  %y = arith.truncf %f : tensor<4xf32> to tensor<4xf16>
  return %y : tensor<4xf16>
}
func.func @grad(%a: tensor<4xbf16>, %dy: tensor<4xf16>) -> tensor<4xbf16> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<4xbf16>, tensor<4xf16>) -> (tensor<4xf16>, tensor<4xbf16>)
  return %da : tensor<4xbf16>
}

// -----

// The arithmetic of a rule in bf16 is f32, rounded once.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xbf16>, %[[DY:.*]]: tensor<4xbf16>)
// CHECK: %[[AF:.*]] = arith.extf %[[A]]
// CHECK: %[[GF:.*]] = arith.extf %[[DY]]
// CHECK: %[[Q:.*]] = arith.divf %[[GF]], %[[AF]] : tensor<4xf32>
// CHECK: %[[DA:.*]] = arith.truncf %[[Q]]
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  %y = math.log %a : tensor<4xbf16>
  return %y : tensor<4xbf16>
}
func.func @grad(%a: tensor<4xbf16>, %dy: tensor<4xbf16>) -> tensor<4xbf16> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<4xbf16>, tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>)
  return %da : tensor<4xbf16>
}

// -----

// A broadcast is summed, bf16 in f32.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xbf16>, %[[DY:.*]]: tensor<?x4xbf16>)
// CHECK: %[[G:.*]] = arith.extf %[[DY]] : tensor<?x4xbf16> to tensor<?x4xf32>
// CHECK: %[[S:.*]] = linalg.reduce { arith.addf } ins(%[[G]] : tensor<?x4xf32>) outs(%{{.*}} : tensor<4xf32>) dimensions = [0]
// CHECK: %[[DA:.*]] = arith.truncf %[[S]]
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xbf16>) -> tensor<?x4xbf16> {
  %c0 = arith.constant 2 : index
  %e = tensor.empty(%c0) : tensor<?x4xbf16>
  %y = linalg.broadcast ins(%a : tensor<4xbf16>) outs(%e : tensor<?x4xbf16>) dimensions = [0]
  return %y : tensor<?x4xbf16>
}
func.func @grad(%a: tensor<4xbf16>, %dy: tensor<?x4xbf16>) -> tensor<4xbf16> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<4xbf16>, tensor<?x4xbf16>) -> (tensor<?x4xbf16>, tensor<4xbf16>)
  return %da : tensor<4xbf16>
}

// -----

// A sum is broadcast.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<?x4xf32>, %[[I:.*]]: tensor<?xf32>, %[[DY:.*]]: tensor<?xf32>)
// CHECK: %[[N:.*]] = tensor.dim %[[A]]
// CHECK: %[[E:.*]] = tensor.empty(%[[N]]) : tensor<?x4xf32>
// CHECK: %[[DA:.*]] = linalg.broadcast ins(%[[DY]] : tensor<?xf32>) outs(%[[E]] : tensor<?x4xf32>) dimensions = [1]
// CHECK: return %[[DA]], %[[DY]]
func.func private @f(%a: tensor<?x4xf32>, %i: tensor<?xf32>) -> tensor<?xf32> {
  %y = linalg.reduce { arith.addf } ins(%a : tensor<?x4xf32>) outs(%i : tensor<?xf32>) dimensions = [1]
  return %y : tensor<?xf32>
}
func.func @grad(%a: tensor<?x4xf32>, %i: tensor<?xf32>, %dy: tensor<?xf32>) -> (tensor<?x4xf32>, tensor<?xf32>) {
  %y, %da, %di = jpmhc.vjp @f(%a, %i) cotangents(%dy) wrt [0, 1]
    : (tensor<?x4xf32>, tensor<?xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?x4xf32>, tensor<?xf32>)
  return %da, %di : tensor<?x4xf32>, tensor<?xf32>
}

// -----

// Elements that attain a maximum share the cotangent, the initial value too.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<3x4xf32>, %[[I:.*]]: tensor<3xf32>, %[[DY:.*]]: tensor<3xf32>)
// CHECK: %[[Y:.*]] = linalg.reduce { arith.maximumf }
// CHECK: %[[YB:.*]] = linalg.broadcast ins(%[[Y]]
// CHECK: %[[AT:.*]] = arith.cmpf ueq, %[[A]], %[[YB]]
// CHECK: %[[MASK:.*]] = arith.select %[[AT]]
// CHECK: %[[IAT:.*]] = arith.cmpf ueq, %[[I]], %[[Y]]
// CHECK: %[[IMASK:.*]] = arith.select %[[IAT]]
// CHECK: %[[COUNT:.*]] = linalg.reduce { arith.addf } ins(%[[MASK]]
// CHECK: %[[ALL:.*]] = arith.addf %[[COUNT]], %[[IMASK]]
// CHECK: %[[SHARE:.*]] = arith.divf %[[DY]], %[[ALL]]
// CHECK: %[[SPREAD:.*]] = linalg.broadcast ins(%[[SHARE]]
// CHECK: %[[DA:.*]] = arith.select %{{.*}}, %[[SPREAD]]
// CHECK: %[[DI:.*]] = arith.mulf %[[SHARE]], %[[IMASK]]
// CHECK: return %[[DA]], %[[DI]]
func.func private @f(%a: tensor<3x4xf32>, %i: tensor<3xf32>) -> tensor<3xf32> {
  %y = linalg.reduce { arith.maximumf } ins(%a : tensor<3x4xf32>) outs(%i : tensor<3xf32>) dimensions = [1]
  return %y : tensor<3xf32>
}
func.func @grad(%a: tensor<3x4xf32>, %i: tensor<3xf32>, %dy: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3xf32>) {
  %y, %da, %di = jpmhc.vjp @f(%a, %i) cotangents(%dy) wrt [0, 1]
    : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3x4xf32>, tensor<3xf32>)
  return %da, %di : tensor<3x4xf32>, tensor<3xf32>
}

// -----

// A transposition is turned back.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<2x3x4xf32>, %[[DY:.*]]: tensor<4x2x3xf32>)
// CHECK: %[[DA:.*]] = linalg.transpose ins(%[[DY]] : tensor<4x2x3xf32>) outs(%{{.*}} : tensor<2x3x4xf32>) permutation = [1, 2, 0]
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %e = tensor.empty() : tensor<4x2x3xf32>
  %y = linalg.transpose ins(%a : tensor<2x3x4xf32>) outs(%e : tensor<4x2x3xf32>) permutation = [2, 0, 1]
  return %y : tensor<4x2x3xf32>
}
func.func @grad(%a: tensor<2x3x4xf32>, %dy: tensor<4x2x3xf32>) -> tensor<2x3x4xf32> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<2x3x4xf32>, tensor<4x2x3xf32>) -> (tensor<4x2x3xf32>, tensor<2x3x4xf32>)
  return %da : tensor<2x3x4xf32>
}

// -----

// A fill and a splat of a scalar are summed to it.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[S:.*]]: f32, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[R:.*]] = linalg.reduce { arith.addf } ins(%[[DY]] : tensor<4xf32>) outs(%{{.*}} : tensor<f32>) dimensions = [0]
// CHECK: tensor.extract %[[R]][] : tensor<f32>
// CHECK: linalg.reduce { arith.addf } ins(%[[DY]] : tensor<4xf32>)
// CHECK: arith.addf %{{.*}} : f32
func.func private @f(%s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %f = linalg.fill ins(%s : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %t = tensor.splat %s : tensor<4xf32>
  %y = arith.addf %f, %t : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%s: f32, %dy: tensor<4xf32>) -> f32 {
  %y, %ds = jpmhc.vjp @f(%s) cotangents(%dy) wrt [0]
    : (f32, tensor<4xf32>) -> (tensor<4xf32>, f32)
  return %ds : f32
}

// -----

// A product: two products over the same iteration space; the initial value gets the cotangent.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<2x3xf32>, %[[B:.*]]: tensor<4x3xf32>, %[[C:.*]]: tensor<2x4xf32>, %[[DY:.*]]: tensor<2x4xf32>)
// CHECK: %[[DA:.*]] = linalg.contract indexing_maps = [#[[MN:.*]], #[[NK:.*]], #[[MK:.*]]] ins(%[[DY]], %[[B]] : tensor<2x4xf32>, tensor<4x3xf32>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: %[[DB:.*]] = linalg.contract indexing_maps = [#[[MN]], #[[MK]], #[[NK]]] ins(%[[DY]], %[[A]] : tensor<2x4xf32>, tensor<2x3xf32>) outs(%{{.*}} : tensor<4x3xf32>)
// CHECK: return %[[DA]], %[[DB]], %[[DY]]
func.func private @f(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>, %c: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<2x3xf32>, tensor<4x3xf32>) outs(%c : tensor<2x4xf32>) -> tensor<2x4xf32>
  return %y : tensor<2x4xf32>
}
func.func @grad(%a: tensor<2x3xf32>, %b: tensor<4x3xf32>, %c: tensor<2x4xf32>, %dy: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x4xf32>) {
  %y, %da, %db, %dc = jpmhc.vjp @f(%a, %b, %c) cotangents(%dy) wrt [0, 1, 2]
    : (tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x4xf32>)
  return %da, %db, %dc : tensor<2x3xf32>, tensor<4x3xf32>, tensor<2x4xf32>
}

// -----

// A bf16 product accumulated in f32: the cotangent enters as bf16, the gradient is rounded at the end.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<2x3xbf16>, %[[B:.*]]: tensor<4x3xbf16>, %[[DY:.*]]: tensor<2x4xbf16>)
// CHECK: %[[P:.*]] = linalg.contract {{.*}} ins(%[[DY]], %[[B]] : tensor<2x4xbf16>, tensor<4x3xbf16>) outs(%{{.*}} : tensor<2x3xf32>)
// CHECK: %[[DA:.*]] = arith.truncf %[[P]] : tensor<2x3xf32> to tensor<2x3xbf16>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<2x3xbf16>, %b: tensor<4x3xbf16>) -> tensor<2x4xbf16> {
  %c = arith.constant dense<0.0> : tensor<2x4xf32>
  %p = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>] ins(%a, %b : tensor<2x3xbf16>, tensor<4x3xbf16>) outs(%c : tensor<2x4xf32>) -> tensor<2x4xf32>
  %y = arith.truncf %p : tensor<2x4xf32> to tensor<2x4xbf16>
  return %y : tensor<2x4xbf16>
}
func.func @grad(%a: tensor<2x3xbf16>, %b: tensor<4x3xbf16>, %dy: tensor<2x4xbf16>) -> tensor<2x3xbf16> {
  %y, %da = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0]
    : (tensor<2x3xbf16>, tensor<4x3xbf16>, tensor<2x4xbf16>) -> (tensor<2x4xbf16>, tensor<2x3xbf16>)
  return %da : tensor<2x3xbf16>
}

// -----

// Reshapes.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<?x6xf32>, %[[DY:.*]]: tensor<?xf32>)
// CHECK: %[[X:.*]] = tensor.expand_shape %[[DY]] {{\[\[}}0, 1, 2]] output_shape [%{{.*}}, 2, 3] : tensor<?xf32> into tensor<?x2x3xf32>
// CHECK: %[[DA:.*]] = tensor.collapse_shape %[[X]] {{\[\[}}0], [1, 2]] : tensor<?x2x3xf32> into tensor<?x6xf32>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<?x6xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %n = tensor.dim %a, %c0 : tensor<?x6xf32>
  %x = tensor.expand_shape %a [[0], [1, 2]] output_shape [%n, 2, 3] : tensor<?x6xf32> into tensor<?x2x3xf32>
  %y = tensor.collapse_shape %x [[0, 1, 2]] : tensor<?x2x3xf32> into tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @grad(%a: tensor<?x6xf32>, %dy: tensor<?xf32>) -> tensor<?x6xf32> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<?x6xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<?x6xf32>)
  return %da : tensor<?x6xf32>
}

// -----

// A slice goes into zeros, its rank reduced or not.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<4x8xf32>
// CHECK: %[[DA:.*]] = tensor.insert_slice %[[DY]] into %[[ZERO]][1, 0] [1, 4] [1, 2] : tensor<4xf32> into tensor<4x8xf32>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4x8xf32>) -> tensor<4xf32> {
  %y = tensor.extract_slice %a[1, 0] [1, 4] [1, 2] : tensor<4x8xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%a: tensor<4x8xf32>, %dy: tensor<4xf32>) -> tensor<4x8xf32> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<4x8xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4x8xf32>)
  return %da : tensor<4x8xf32>
}

// -----

// An insertion: its slice, and the rest with the slice cleared.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4x8xf32>, %[[DY:.*]]: tensor<4x8xf32>)
// CHECK: %[[DA:.*]] = tensor.extract_slice %[[DY]][1, 0] [1, 4] [1, 2] : tensor<4x8xf32> to tensor<4xf32>
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: %[[DB:.*]] = tensor.insert_slice %[[ZERO]] into %[[DY]][1, 0] [1, 4] [1, 2]
// CHECK: return %[[DA]], %[[DB]]
func.func private @f(%a: tensor<4xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tensor.insert_slice %a into %b[1, 0] [1, 4] [1, 2] : tensor<4xf32> into tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
func.func @grad(%a: tensor<4xf32>, %b: tensor<4x8xf32>, %dy: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4x8xf32>) {
  %y, %da, %db = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0, 1]
    : (tensor<4xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4xf32>, tensor<4x8xf32>)
  return %da, %db : tensor<4xf32>, tensor<4x8xf32>
}

// -----

// A concatenation is cut again.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<2x?xf32>, %[[B:.*]]: tensor<2x3xf32>, %[[DY:.*]]: tensor<2x?xf32>)
// CHECK: %[[N:.*]] = tensor.dim %[[A]]
// CHECK: %[[DA:.*]] = tensor.extract_slice %[[DY]][0, 0] [2, %[[N]]] [1, 1] : tensor<2x?xf32> to tensor<2x?xf32>
// CHECK: %[[DB:.*]] = tensor.extract_slice %[[DY]][0, %[[N]]] [2, 3] [1, 1] : tensor<2x?xf32> to tensor<2x3xf32>
// CHECK: return %[[DA]], %[[DB]]
func.func private @f(%a: tensor<2x?xf32>, %b: tensor<2x3xf32>) -> tensor<2x?xf32> {
  %y = tensor.concat dim(1) %a, %b : (tensor<2x?xf32>, tensor<2x3xf32>) -> tensor<2x?xf32>
  return %y : tensor<2x?xf32>
}
func.func @grad(%a: tensor<2x?xf32>, %b: tensor<2x3xf32>, %dy: tensor<2x?xf32>) -> (tensor<2x?xf32>, tensor<2x3xf32>) {
  %y, %da, %db = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0, 1]
    : (tensor<2x?xf32>, tensor<2x3xf32>, tensor<2x?xf32>) -> (tensor<2x?xf32>, tensor<2x?xf32>, tensor<2x3xf32>)
  return %da, %db : tensor<2x?xf32>, tensor<2x3xf32>
}

// -----

// A cast of sizes is cast back.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<?xf32>)
// CHECK: %[[DA:.*]] = tensor.cast %[[DY]] : tensor<?xf32> to tensor<4xf32>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xf32>) -> tensor<?xf32> {
  %y = tensor.cast %a : tensor<4xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}
func.func @grad(%a: tensor<4xf32>, %dy: tensor<?xf32>) -> tensor<4xf32> {
  %y, %da = jpmhc.vjp @f(%a) cotangents(%dy) wrt [0]
    : (tensor<4xf32>, tensor<?xf32>) -> (tensor<?xf32>, tensor<4xf32>)
  return %da : tensor<4xf32>
}

// -----

// Single elements.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[I:.*]]: index, %[[DY:.*]]: tensor<2xf32>)
// CHECK: tensor.extract %[[DY]][%{{.*}}] : tensor<2xf32>
// CHECK: tensor.extract %[[DY]][%{{.*}}] : tensor<2xf32>
// CHECK: %[[SUM:.*]] = arith.addf %{{.*}} : f32
// CHECK: %[[DX:.*]] = arith.addf %[[SUM]], %{{.*}} : f32
// CHECK: %[[ZERO:.*]] = linalg.fill {{.*}} -> tensor<4xf32>
// CHECK: %[[DA:.*]] = tensor.insert %[[DX]] into %[[ZERO]][%[[I]]] : tensor<4xf32>
// CHECK: return %[[DA]]
func.func private @f(%a: tensor<4xf32>, %i: index) -> tensor<2xf32> {
  %x = tensor.extract %a[%i] : tensor<4xf32>
  %s = arith.mulf %x, %x : f32
  %y = tensor.from_elements %x, %s : tensor<2xf32>
  return %y : tensor<2xf32>
}
func.func @grad(%a: tensor<4xf32>, %i: index, %dy: tensor<2xf32>) -> tensor<4xf32> {
  %y, %da = jpmhc.vjp @f(%a, %i) cotangents(%dy) wrt [0]
    : (tensor<4xf32>, index, tensor<2xf32>) -> (tensor<2xf32>, tensor<4xf32>)
  return %da : tensor<4xf32>
}

// -----

// An inserted element, and what it replaces.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[S:.*]]: f32, %[[A:.*]]: tensor<4xf32>, %[[I:.*]]: index, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[DS:.*]] = tensor.extract %[[DY]][%[[I]]]
// CHECK: %[[DA:.*]] = tensor.insert %{{.*}} into %[[DY]][%[[I]]]
// CHECK: return %[[DS]], %[[DA]]
func.func private @f(%s: f32, %a: tensor<4xf32>, %i: index) -> tensor<4xf32> {
  %y = tensor.insert %s into %a[%i] : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%s: f32, %a: tensor<4xf32>, %i: index, %dy: tensor<4xf32>) -> (f32, tensor<4xf32>) {
  %y, %ds, %da = jpmhc.vjp @f(%s, %a, %i) cotangents(%dy) wrt [0, 1]
    : (f32, tensor<4xf32>, index, tensor<4xf32>) -> (tensor<4xf32>, f32, tensor<4xf32>)
  return %ds, %da : f32, tensor<4xf32>
}

// -----

// A generic that maps: the same iteration space, the operand's own map; what it does not have is summed.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<3x4xf32>, %[[B:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<3x4xf32>)
// CHECK: %[[DA:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[A]], %[[B]], %{{.*}}, %[[DY]] :
// CHECK: math.exp
// CHECK: arith.mulf
// CHECK: linalg.yield
// CHECK: %[[DB:.*]] = linalg.generic {{.*}} iterator_types = ["reduction", "parallel"]} ins(%[[A]], %[[B]], %{{.*}}, %[[DY]] :
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: linalg.yield
// CHECK: return %[[DA]], %[[DB]]
func.func private @f(%a: tensor<3x4xf32>, %b: tensor<4xf32>) -> tensor<3x4xf32> {
  %e = tensor.empty() : tensor<3x4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%a, %b : tensor<3x4xf32>, tensor<4xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%x: f32, %w: f32, %o: f32):
    %p = arith.mulf %x, %w : f32
    %q = math.exp %p : f32
    linalg.yield %q : f32
  } -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
func.func @grad(%a: tensor<3x4xf32>, %b: tensor<4xf32>, %dy: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
  %y, %da, %db = jpmhc.vjp @f(%a, %b) cotangents(%dy) wrt [0, 1]
    : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>)
  return %da, %db : tensor<3x4xf32>, tensor<4xf32>
}

// -----

// A generic that sums: the cotangent belongs to the term; the initial value gets it too.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<3x4xf32>, %[[C:.*]]: tensor<3xf32>, %[[DY:.*]]: tensor<3xf32>)
// CHECK: %[[DA:.*]] = linalg.generic {{.*}} iterator_types = ["parallel", "parallel"]} ins(%[[A]], %[[DY]] :
// CHECK: ^bb0(%[[X:.*]]: f32, %[[G:.*]]: f32, %{{.*}}: f32):
// CHECK: %[[L:.*]] = arith.mulf %[[G]], %[[X]]
// CHECK: %[[R:.*]] = arith.mulf %[[G]], %[[X]]
// CHECK: %[[S:.*]] = arith.addf %[[L]], %[[R]]
// CHECK: linalg.yield %[[S]]
// CHECK: return %[[DA]], %[[DY]]
func.func private @f(%a: tensor<3x4xf32>, %c: tensor<3xf32>) -> tensor<3xf32> {
  %y = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%a : tensor<3x4xf32>) outs(%c : tensor<3xf32>) {
  ^bb0(%x: f32, %o: f32):
    %p = arith.mulf %x, %x : f32
    %q = arith.addf %o, %p : f32
    linalg.yield %q : f32
  } -> tensor<3xf32>
  return %y : tensor<3xf32>
}
func.func @grad(%a: tensor<3x4xf32>, %c: tensor<3xf32>, %dy: tensor<3xf32>) -> (tensor<3x4xf32>, tensor<3xf32>) {
  %y, %da, %dc = jpmhc.vjp @f(%a, %c) cotangents(%dy) wrt [0, 1]
    : (tensor<3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3x4xf32>, tensor<3xf32>)
  return %da, %dc : tensor<3x4xf32>, tensor<3xf32>
}

// -----

// A scalar operand of a generic.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[A:.*]]: tensor<4xf32>, %[[S:.*]]: f32, %[[DY:.*]]: tensor<4xf32>)
// CHECK: %[[T:.*]] = linalg.generic {{.*}} iterator_types = ["reduction"]}
// CHECK: %[[DS:.*]] = tensor.extract %[[T]][] : tensor<f32>
// CHECK: return %[[DS]]
func.func private @f(%a: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%a, %s : tensor<4xf32>, f32) outs(%e : tensor<4xf32>) {
  ^bb0(%x: f32, %w: f32, %o: f32):
    %p = arith.mulf %x, %w : f32
    linalg.yield %p : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @grad(%a: tensor<4xf32>, %s: f32, %dy: tensor<4xf32>) -> f32 {
  %y, %ds = jpmhc.vjp @f(%a, %s) cotangents(%dy) wrt [1]
    : (tensor<4xf32>, f32, tensor<4xf32>) -> (tensor<4xf32>, f32)
  return %ds : f32
}

// -----

// A norm of rows has its own op.
// CHECK-LABEL: func.func @grad(
// CHECK-SAME: %[[X:.*]]: tensor<3x4xf32>, %[[W:.*]]: tensor<4xf32>, %[[DY:.*]]: tensor<3x4xf32>)
// CHECK: %[[DX:.*]], %[[DW:.*]] = jpmhc.rms_norm_vjp %[[X]], %[[DY]] gain(%[[W]])
// CHECK: return %[[DX]], %[[DW]]
func.func private @f(%x: tensor<3x4xf32>, %w: tensor<4xf32>) -> tensor<3x4xf32> {
  %y = jpmhc.rms_norm %x gain(%w) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %y : tensor<3x4xf32>
}
func.func @grad(%x: tensor<3x4xf32>, %w: tensor<4xf32>, %dy: tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<4xf32>) {
  %y, %dx, %dw = jpmhc.vjp @f(%x, %w) cotangents(%dy) wrt [0, 1]
    : (tensor<3x4xf32>, tensor<4xf32>, tensor<3x4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>, tensor<4xf32>)
  return %dx, %dw : tensor<3x4xf32>, tensor<4xf32>
}
