// RUN: rm -rf %t && not jpmhc-compile %s --target=cpu -o %t 2>&1 | FileCheck %s
// RUN: not jpmhc-compile %s --target=ptx -o %t 2>&1 | FileCheck %s

// The header declares the functions.
// CHECK: expected public functions with names of C, got 'a.b'
func.func @a.b(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
