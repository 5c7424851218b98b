// RUN: jpmhc-opt %s --jpmhc-fuse-elementwise | FileCheck %s
// RUN: jpmhc-opt %s --convert-elementwise-to-linalg --jpmhc-fuse-elementwise | FileCheck %s --check-prefix=PATHS

// One pass over memory: the sum is never stored.
// CHECK-LABEL: func.func @chain
// CHECK: linalg.generic
// CHECK: %[[SUM:.*]] = arith.addf
// CHECK-NEXT: %[[EXP:.*]] = math.exp %[[SUM]]
// CHECK-NEXT: linalg.yield %[[EXP]]
// CHECK-NOT: linalg.generic
#map = affine_map<(i, j) -> (i, j)>
func.func @chain(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %0 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%x, %y : tensor<4x8xf32>, tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<4x8xf32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%a: f32, %c: f32):
    %s = math.exp %a : f32
    linalg.yield %s : f32
  } -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// Many paths lead to the logistic's exponential; each op is computed once, and
// of the intermediate values, a comparison among them, none is stored.
// PATHS-LABEL: func.func @paths
// PATHS: linalg.generic
// PATHS-NEXT: ^bb0
// PATHS-NEXT: arith.negf
// PATHS-NEXT: arith.cmpf
// PATHS-NEXT: arith.select
// PATHS-NEXT: math.exp
// PATHS-NEXT: arith.addf
// PATHS-NEXT: arith.select
// PATHS-NEXT: arith.divf
// PATHS-NEXT: arith.mulf
// PATHS-NEXT: linalg.yield
// PATHS-NOT: linalg.generic
func.func @paths(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %zero = arith.constant dense<0.0> : tensor<4x8xf32>
  %one = arith.constant dense<1.0> : tensor<4x8xf32>
  %minus = arith.negf %x : tensor<4x8xf32>
  %positive = arith.cmpf oge, %x, %zero : tensor<4x8xf32>
  %tail = arith.select %positive, %minus, %x : tensor<4x8xi1>, tensor<4x8xf32>
  %e = math.exp %tail : tensor<4x8xf32>
  %below = arith.addf %e, %one : tensor<4x8xf32>
  %above = arith.select %positive, %one, %e : tensor<4x8xi1>, tensor<4x8xf32>
  %sigmoid = arith.divf %above, %below : tensor<4x8xf32>
  %silu = arith.mulf %x, %sigmoid : tensor<4x8xf32>
  return %silu : tensor<4x8xf32>
}
