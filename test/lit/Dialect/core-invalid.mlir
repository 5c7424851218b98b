// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @stop_gradient(%x: tensor<4xf32>) {
  // expected-error @+1 {{failed to verify that all of {x, y} have same type}}
  %y = "jpmhc.stop_gradient"(%x) : (tensor<4xf32>) -> tensor<5xf32>
  return
}

// -----

func.func @unknown(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected the name of a function, got @nobody}}
  %y = jpmhc.vjp @nobody(%x) cotangents(%x) wrt [] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(tensor<4xf32>) -> tensor<4xf32>
func.func @declaration(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected a function with a body, got @f}}
  %y = jpmhc.vjp @f(%x) cotangents(%x) wrt [] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @input_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 1 inputs, got 2}}
  %y = jpmhc.vjp @f(%x, %x) cotangents() wrt [] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @input_type(%x: tensor<5xf32>) {
  // expected-error @+1 {{expected input 0 of type 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %y = jpmhc.vjp @f(%x) cotangents() wrt [] : (tensor<5xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @cotangent_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected at most 1 cotangents, got 2}}
  %y = jpmhc.vjp @f(%x) cotangents(%x, %x) wrt [] : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xi32>) -> tensor<4xi32> { return %x : tensor<4xi32> }
func.func @integer_result(%x: tensor<4xi32>) {
  // expected-error @+1 {{expected result 0 with a cotangent to be floating-point, got 'tensor<4xi32>'}}
  %y = jpmhc.vjp @f(%x) cotangents(%x) wrt [] : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @cotangent_type(%x: tensor<4xf32>, %dy: tensor<4xbf16>) {
  // expected-error @+1 {{expected cotangent 0 of type 'tensor<4xf32>', got 'tensor<4xbf16>'}}
  %y = jpmhc.vjp @f(%x) cotangents(%dy) wrt [] : (tensor<4xf32>, tensor<4xbf16>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @position(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected positions of wrt in [0, 1), got 1}}
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [1] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @same_position(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected different positions of wrt, got 0 twice}}
  %y, %a, %b = jpmhc.vjp @f(%x) cotangents(%x) wrt [0, 0]
    : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func private @f(%x: tensor<4xf32>, %i: tensor<4xi32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @integer_input(%x: tensor<4xf32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{expected input 1 of wrt to be floating-point, got 'tensor<4xi32>'}}
  %y, %di = jpmhc.vjp @f(%x, %i) cotangents(%x) wrt [1]
    : (tensor<4xf32>, tensor<4xi32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>)
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @result_count(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected 2 results, got 1}}
  %y = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }
func.func @result_type(%x: tensor<4xf32>) {
  // expected-error @+1 {{expected result 1 of type 'tensor<4xf32>', got 'tensor<5xf32>'}}
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<5xf32>)
  return
}
