// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

// expected-error @+1 {{expected a manifold (birkhoff, free, grassmann, identity, permutation, stiefel), got "birkoff"; did you mean "birkhoff"?}}
func.func private @f() attributes {m = #jpmhc.manifold<"birkoff">}

// -----

// expected-error @+1 {{expected a manifold (birkhoff, free, grassmann, identity, permutation, stiefel), got "sphere"}}
func.func private @f() attributes {m = #jpmhc.manifold<"sphere">}

// -----

// expected-error @+1 {{expected a parameter of stiefel (cayley_alpha, steps, exact), got "alpha"}}
func.func private @f() attributes {m = #jpmhc.manifold<"stiefel", {alpha = 0.1}>}

// -----

// expected-error @+1 {{expected a parameter of birkhoff (rounds, backward), got "round"; did you mean "rounds"?}}
func.func private @f() attributes {m = #jpmhc.manifold<"birkhoff", {round = 3}>}

// -----

// expected-error @+1 {{expected a parameter of free (it has none), got "rounds"}}
func.func private @f() attributes {m = #jpmhc.manifold<"free", {rounds = 3}>}

// -----

// expected-error @+1 {{expected rounds of birkhoff to be an integer from 1 to 512, got 0 : i64}}
func.func private @f() attributes {m = #jpmhc.manifold<"birkhoff", {rounds = 0}>}

// -----

// expected-error @+1 {{expected backward of birkhoff to be "exact", got "implicit"}}
func.func private @f() attributes {m = #jpmhc.manifold<"birkhoff", {backward = "implicit"}>}

// -----

// expected-error @+1 {{expected cayley_alpha of stiefel to be a finite number > 0, got -1.000000e-01 : f64}}
func.func private @f() attributes {m = #jpmhc.manifold<"stiefel", {cayley_alpha = -0.1}>}

// -----

// expected-error @+1 {{expected exact of stiefel to be true or false, got 1 : i64}}
func.func private @f() attributes {m = #jpmhc.manifold<"stiefel", {exact = 1}>}

// -----

// expected-error @+1 {{expected basis of permutation to be "all" or a list of permutations of equal size, got [}}
func.func private @f() attributes {m = #jpmhc.manifold<"permutation", {basis = [[0, 0]]}>}

// -----

// expected-error @+1 {{expected basis of permutation to be "all" or a list of permutations of equal size, got [}}
func.func private @f() attributes {m = #jpmhc.manifold<"permutation", {basis = [[0, 1], [0]]}>}

// -----

// expected-error @+1 {{expected basis or count of permutation, got both}}
func.func private @f() attributes {m = #jpmhc.manifold<"permutation", {basis = "all", count = 3}>}

// -----

func.func @f(%raw: tensor<2x9xf32>) {
  // expected-error @+1 {{expected raw of 16 numbers a token for free with 4 streams, got 9}}
  %h = jpmhc.project %raw <"free"> streams 4 : tensor<2x9xf32> -> tensor<2x4x4xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x0xf32>) {
  // expected-error @+1 {{expected from 1 to 16 streams, got 17}}
  %h = jpmhc.project %raw <"identity"> streams 17 : tensor<2x0xf32> -> tensor<2x17x17xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x1xf32>) {
  // expected-error @+1 {{expected 2 or more streams for grassmann, got 1}}
  %h = jpmhc.project %raw <"grassmann", {rank = 1}> streams 1 : tensor<2x1xf32> -> tensor<2x1x1xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x15xf32>) {
  // expected-error @+1 {{expected rank of grassmann to be at most 3 for 3 streams, got 5}}
  %h = jpmhc.project %raw <"grassmann", {rank = 5}> streams 3 : tensor<2x15xf32> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x7xf32>) {
  // expected-error @+1 {{expected count of permutation to be at most 6 for 3 streams, got 7}}
  %h = jpmhc.project %raw <"permutation", {count = 7}> streams 3 : tensor<2x7xf32> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x2xf32>) {
  // expected-error @+1 {{expected basis of permutation to permute 3 streams, got 2}}
  %h = jpmhc.project %raw <"permutation", {basis = [[0, 1], [1, 0]]}> streams 3 : tensor<2x2xf32> -> tensor<2x3x3xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x720xf32>) {
  // expected-error @+1 {{expected at most 5 streams with all permutations, got 6}}
  %h = jpmhc.project %raw <"permutation", {basis = "all"}> streams 6 : tensor<2x720xf32> -> tensor<2x6x6xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x4xf32>) {
  // expected-error @+2 {{failed to infer returned types}}
  // expected-error @+1 {{inferred type(s) 'tensor<2x2x2xf32>' are incompatible with return type(s) of operation 'tensor<3x2x2xf32>'}}
  %h = jpmhc.project %raw <"free"> streams 2 : tensor<2x4xf32> -> tensor<3x2x2xf32>
  return
}

// -----

func.func @f(%raw: tensor<2x4xf32>, %dh: tensor<2x3x3xf32>) {
  // expected-error @+1 {{expected dmixer of type 'tensor<2x2x2xf32>', got 'tensor<2x3x3xf32>'}}
  %d = jpmhc.project_vjp %raw, %dh <"free"> streams 2 : tensor<2x4xf32>, tensor<2x3x3xf32> -> tensor<2x4xf32>
  return
}
