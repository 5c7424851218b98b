// RUN: not jpmhc-opt %s --jpmhc-prepare-bufferization 2>&1 | FileCheck %s
// RUN: not jpmhc-opt %s --jpmhc-plan-memory 2>&1 | FileCheck %s

// The lives of buffers are those of a straight line of ops.
// CHECK: error: expected a function of one block, got 3
func.func @f(%c: i1, %x: memref<4xf32>) {
  cf.cond_br %c, ^a, ^b
^a:
  return
^b:
  return
}
