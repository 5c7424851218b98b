

func.func private @f(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
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
