// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// RUN: jpmhc-opt %s --jpmhc-differentiate --split-input-file --verify-diagnostics

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a differentiable op, got 'arith.remf'}}
  %y = arith.remf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @no_rule(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

// An op without a rule is no error where no gradient passes.
func.func private @f(%x: tensor<4xf32>, %c: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %constant = arith.remf %c, %c : tensor<4xf32>
  %unused = arith.remf %x, %x : tensor<4xf32>
  %stopped = jpmhc.stop_gradient %x : tensor<4xf32>
  %s = arith.remf %stopped, %c : tensor<4xf32>
  %t = arith.mulf %constant, %s : tensor<4xf32>
  %y = arith.mulf %t, %x : tensor<4xf32>
  return %y, %unused : tensor<4xf32>, tensor<4xf32>
}
func.func @inactive(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %u, %dx = jpmhc.vjp @f(%x, %x) cotangents(%x) wrt [0]
    : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @g(tensor<4xf32>) -> tensor<4xf32>
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a function with a body, got 'g'}}
  %y = func.call @g(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @external(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a function without recursion, got 'f'}}
  %y = func.call @f(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @recursion(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{expected a function that does not differentiate itself, got 'f'}}
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

// expected-error @+1 {{expected a differentiated function of one block, got 2}}
func.func private @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  cf.br ^next(%x : tensor<4xf32>)
^next(%y: tensor<4xf32>):
  return %y : tensor<4xf32>
}
func.func @blocks(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%x) wrt [0] : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{expected a reduction by a single arith.addf, arith.maximumf or arith.minimumf, got 'arith.mulf'}}
  %y = linalg.reduce { arith.mulf } ins(%x : tensor<4xf32>) outs(%zero : tensor<f32>) dimensions = [0]
  return %y : tensor<f32>
}
func.func @product(%x: tensor<4xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%one) wrt [0] : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<f32> {
  %zero = arith.constant dense<0.0> : tensor<f32>
  // expected-error @+1 {{expected a reduction by a single arith.addf, arith.maximumf or arith.minimumf, got another body}}
  %y = linalg.reduce ins(%x : tensor<4xf32>) outs(%zero : tensor<f32>) dimensions = [0]
    (%a: f32, %acc: f32) {
      %b = arith.mulf %a, %a : f32
      %s = arith.addf %b, %acc : f32
      linalg.yield %s : f32
    }
  return %y : tensor<f32>
}
func.func @body(%x: tensor<4xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%one) wrt [0] : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>) -> tensor<f32> {
  %one = arith.constant dense<1.0> : tensor<f32>
  // expected-error @+1 {{expected a linalg.generic that sums into its outputs with a single arith.addf}}
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> ()>], iterator_types = ["reduction"]}
    ins(%x : tensor<4xf32>) outs(%one : tensor<f32>) {
    ^bb0(%a: f32, %acc: f32):
      %p = arith.mulf %a, %acc : f32
      linalg.yield %p : f32
  } -> tensor<f32>
  return %y : tensor<f32>
}
func.func @generic_product(%x: tensor<4xf32>, %one: tensor<f32>) -> tensor<4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%one) wrt [0] : (tensor<4xf32>, tensor<f32>) -> (tensor<f32>, tensor<4xf32>)
  return %dx : tensor<4xf32>
}

// -----

func.func private @f(%x: tensor<4x4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{expected indexing maps of different plain dimensions, got affine_map<(d0) -> (d0, d0)>}}
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i, i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4x4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @diagonal(%x: tensor<4x4xf32>, %dy: tensor<4xf32>) -> tensor<4x4xf32> {
  %y, %dx = jpmhc.vjp @f(%x) cotangents(%dy) wrt [0] : (tensor<4x4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>)
  return %dx : tensor<4x4xf32>
}

// -----

func.func private @f(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  // expected-error @+1 {{expected its regions to capture no value with a gradient, got one of type 'f32'}}
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
    ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      %p = arith.mulf %a, %s : f32
      linalg.yield %p : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func @captured(%x: tensor<4xf32>, %s: f32) -> f32 {
  %y, %ds = jpmhc.vjp @f(%x, %s) cotangents(%x) wrt [1] : (tensor<4xf32>, f32, tensor<4xf32>) -> (tensor<4xf32>, f32)
  return %ds : f32
}

// -----

func.func private @f(%q: tensor<1x4x2x8xf32>) -> tensor<1x2x4xf32> {
  // expected-error @+1 {{expected no gradient with respect to the log-sum-exp, which has no reverse-mode rule}}
  %out, %lse = jpmhc.attention %q, %q, %q : (tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>, tensor<1x4x2x8xf32>) -> (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>)
  return %lse : tensor<1x2x4xf32>
}
func.func @log_sum_exp(%q: tensor<1x4x2x8xf32>, %d: tensor<1x2x4xf32>) -> tensor<1x4x2x8xf32> {
  %y, %dq = jpmhc.vjp @f(%q) cotangents(%d) wrt [0] : (tensor<1x4x2x8xf32>, tensor<1x2x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x4x2x8xf32>)
  return %dq : tensor<1x4x2x8xf32>
}
