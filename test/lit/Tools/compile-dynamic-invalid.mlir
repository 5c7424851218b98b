// RUN: split-file %s %t
// RUN: not jpmhc-compile %t/argument.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=ARGUMENT
// RUN: not jpmhc-compile %t/result.mlir --target=ptx -o %t/out 2>&1 | FileCheck %s --check-prefix=RESULT
// RUN: not jpmhc-compile %t/inside.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=INSIDE

// One diagnostic, without the op in generic form.
// ARGUMENT: argument.mlir:1:{{[0-9]+}}: error: expected static shapes, got a dynamic dimension 1 of argument 0 of function 'f', 'tensor<4x?xf32>'
// ARGUMENT-NOT: error
// ARGUMENT-NOT: note
// RESULT: result.mlir:1:{{[0-9]+}}: error: expected static shapes, got a dynamic dimension 0 of result 0 of function 'g', 'tensor<?xf32>'
// INSIDE: inside.mlir:2:{{[0-9]+}}: error: expected static shapes, got a dynamic dimension 0 of a result of 'tensor.empty' in function 'h', 'tensor<?xf32>'
//--- argument.mlir
func.func @f(%x: tensor<4x?xf32>) -> tensor<4x?xf32> {
  %y = jpmhc.rms_norm %x : (tensor<4x?xf32>) -> tensor<4x?xf32>
  return %y : tensor<4x?xf32>
}
//--- result.mlir
func.func @g(%x: tensor<4xf32>) -> tensor<?xf32> {
  %y = tensor.cast %x : tensor<4xf32> to tensor<?xf32>
  return %y : tensor<?xf32>
}
//--- inside.mlir
func.func @h(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  return %x : tensor<4xf32>
}
