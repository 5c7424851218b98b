// RUN: jpmhc-opt %s --pass-pipeline='builtin.module(func.func(jpmhc-lower-linalg))' --split-input-file --verify-diagnostics

#id = affine_map<(i) -> (i)>
func.func @dynamic(%x: memref<?xf32>, %y: memref<?xf32>) {
  // expected-error@+1 {{expected static shapes for code generation}}
  linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel"]}
    ins(%x : memref<?xf32>) outs(%y : memref<?xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
  }
  return
}

// -----

#id = affine_map<(i) -> (i)>
#next = affine_map<(i) -> (i + 1)>
func.func @shifted(%x: memref<5xf32>, %y: memref<4xf32>) {
  // expected-error@+1 {{expected indexing maps of plain dimensions}}
  linalg.generic {indexing_maps = [#next, #id], iterator_types = ["parallel"]}
    ins(%x : memref<5xf32>) outs(%y : memref<4xf32>) {
    ^bb0(%a: f32, %b: f32):
      linalg.yield %a : f32
  }
  return
}
