// RUN: jpmhc-opt %s --jpmhc-lower-parallel-to-for | FileCheck %s

// CHECK: func.func private @scale(%[[LOWER:.*]]: index, %[[UPPER:.*]]: index,
// Scratch of a row is taken once.
// CHECK-NEXT: memref.alloca() : memref<16xf32>
// CHECK: scf.for %{{.*}} = %[[LOWER]] to %[[UPPER]]
// CHECK: scf.for
// CHECK: %[[SUM:.*]] = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}) -> (f32)
// CHECK: memref.store %[[SUM]]
// CHECK-NOT: scf.parallel
func.func private @scale(%lo: index, %hi: index, %x: memref<8x16xf32>, %f: f32, %y: memref<8xf32>) attributes {jpmhc.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%i) = (%lo) to (%hi) step (%c1) {
    %scratch = memref.alloca() : memref<16xf32>
    scf.parallel (%j) = (%c0) to (%c16) step (%c1) {
      %v = memref.load %x[%i, %j] : memref<8x16xf32>
      %e = arith.mulf %v, %f : f32
      memref.store %e, %scratch[%j] : memref<16xf32>
      scf.reduce
    }
    %sum = scf.parallel (%j) = (%c0) to (%c16) step (%c1) init (%zero) -> f32 {
      %v = memref.load %scratch[%j] : memref<16xf32>
      scf.reduce(%v : f32) {
      ^bb0(%a: f32, %b: f32):
        %s = arith.addf %a, %b : f32
        scf.reduce.return %s : f32
      }
    }
    memref.store %sum, %y[%i] : memref<8xf32>
    scf.reduce
  }
  return
}
