// RUN: jpmhc-opt %s --jpmhc-fuse-elementwise | FileCheck %s

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
