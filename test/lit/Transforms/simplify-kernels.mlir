// RUN: jpmhc-opt %s --jpmhc-simplify-kernels | FileCheck %s

// Arithmetic folds; a loop over one row and its loop over columns stay two loops.
// CHECK: scf.parallel (%[[I:.*]]) = (%c0) to (%c1)
// CHECK-NEXT: scf.parallel (%[[J:.*]]) = (%c0) to (%c16)
// CHECK-NEXT: memref.load %{{.*}}[%[[I]], %[[J]]]
// CHECK-NOT: arith.addi
func.func @f(%x: memref<1x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %two = arith.constant 2 : index
  %unused = arith.addi %c1, %two : index
  scf.parallel (%i) = (%c0) to (%c1) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c16) step (%c1) {
      %k = arith.addi %j, %c0 : index
      %v = memref.load %x[%i, %k] : memref<1x16xf32>
      memref.store %v, %x[%i, %j] : memref<1x16xf32>
      scf.reduce
    }
    scf.reduce
  }
  return
}
