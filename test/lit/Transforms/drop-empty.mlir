// RUN: jpmhc-opt %s --jpmhc-drop-empty | FileCheck %s

// Rows that do not exist are no kernel, and the type of the argument has a
// pointer.
// CHECK-LABEL: func @no_rows(
// CHECK-SAME: memref<0xf32>, %{{.*}}: memref<0xf32>)
// CHECK-NOT: scf.parallel
// CHECK-NOT: collapse_shape
// CHECK: return
func.func @no_rows(%x: memref<2x0x4xf32>, %y: memref<2x0x4xf32>) attributes {jpmhc.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rows = memref.collapse_shape %x [[0, 1], [2]] : memref<2x0x4xf32> into memref<0x4xf32>
  %out = memref.collapse_shape %y [[0, 1], [2]] : memref<2x0x4xf32> into memref<0x4xf32>
  scf.parallel (%r) = (%c0) to (%c0) step (%c1) {
    %v = memref.load %rows[%r, %c0] : memref<0x4xf32>
    memref.store %v, %out[%r, %c0] : memref<0x4xf32>
    scf.reduce
  }
  return
}

// A sum of nothing is what it began with; a load behind bounds that are not
// known never happens.
// CHECK-LABEL: func @sum_of_nothing
// CHECK: scf.parallel
// CHECK-NEXT: %[[SUM:.*]] = scf.for
// CHECK-NOT: memref.load
// CHECK: memref.store %[[SUM]]
func.func @sum_of_nothing(%x: memref<4x0xf32>, %y: memref<4xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%r) = (%c0) to (%c4) step (%c1) {
    %static = scf.for %c = %c0 to %c0 step %c1 iter_args(%acc = %zero) -> (f32) {
      %v = memref.load %x[%r, %c] : memref<4x0xf32>
      %s = arith.addf %acc, %v : f32
      scf.yield %s : f32
    }
    %dynamic = scf.for %c = %c0 to %n step %c1 iter_args(%acc = %static) -> (f32) {
      %v = memref.load %x[%r, %c] : memref<4x0xf32>
      %s = arith.addf %acc, %v : f32
      scf.yield %s : f32
    }
    memref.store %dynamic, %y[%r] : memref<4xf32>
    scf.reduce
  }
  return
}

// A product over no terms is a fill, or nothing where it would be added.
// CHECK-LABEL: func @no_terms
// CHECK-NOT: jpmhc.gemm
// CHECK: scf.parallel
// CHECK: scf.parallel
// CHECK: memref.store %{{.*}}, %arg2
// CHECK-NOT: scf.parallel
// CHECK: return
func.func @no_terms(%a: memref<3x0xf32>, %b: memref<0x5xf32>, %c: memref<3x5xf32>, %d: memref<3x5xf32>) {
  jpmhc.gemm %a, %b, %c : memref<3x0xf32>, memref<0x5xf32>, memref<3x5xf32>
  jpmhc.gemm %a, %b, %d {beta = 1.0 : f32} : memref<3x0xf32>, memref<0x5xf32>, memref<3x5xf32>
  return
}

// What is handed on stays an argument.
// CHECK-LABEL: func @hands_on
// CHECK: %[[OWN:.*]] = memref.alloc() : memref<0xf32>
// CHECK: call @no_rows(%{{.*}}, %[[OWN]]) : (memref<0xf32>, memref<0xf32>)
func.func @hands_on(%x: memref<2x0x4xf32>) attributes {jpmhc.entry} {
  %own = memref.alloc() : memref<2x0x4xf32>
  func.call @no_rows(%x, %own) : (memref<2x0x4xf32>, memref<2x0x4xf32>) -> ()
  return
}
