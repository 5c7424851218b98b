// RUN: jpmhc-opt %s --jpmhc-fuse-rows | FileCheck %s

// CHECK-LABEL: func.func @exponential_then_double
// CHECK: math.exp
// CHECK: arith.addf
// CHECK: jpmhc.kernel = "first_second"
// CHECK-NOT: jpmhc.kernel
// A row that another one has written: two loops.
// CHECK-LABEL: func.func @other_row
// CHECK: jpmhc.kernel = "first"}
// CHECK: jpmhc.kernel = "second"}
func.func @exponential_then_double(%x: memref<8x16xf32>, %y: memref<8x16xf32>, %z: memref<8x16xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c16 = arith.constant 16 : index
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c16) step (%c1) {
      %v = memref.load %x[%i, %j] : memref<8x16xf32>
      %e = math.exp %v : f32
      memref.store %e, %y[%i, %j] : memref<8x16xf32>
      scf.reduce
    }
    scf.reduce
  } {jpmhc.kernel = "first"}
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c16) step (%c1) {
      %v = memref.load %y[%i, %j] : memref<8x16xf32>
      %e = arith.addf %v, %v : f32
      memref.store %e, %z[%i, %j] : memref<8x16xf32>
      scf.reduce
    }
    scf.reduce
  } {jpmhc.kernel = "second"}
  return
}
func.func @other_row(%x: memref<8xf32>, %y: memref<8xf32>, %z: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c7 = arith.constant 7 : index
  %c8 = arith.constant 8 : index
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %x[%i] : memref<8xf32>
    memref.store %v, %y[%i] : memref<8xf32>
    scf.reduce
  } {jpmhc.kernel = "first"}
  scf.parallel (%i) = (%c0) to (%c8) step (%c1) {
    %k = arith.subi %c7, %i : index
    %v = memref.load %y[%k] : memref<8xf32>
    memref.store %v, %z[%i] : memref<8xf32>
    scf.reduce
  } {jpmhc.kernel = "second"}
  return
}
