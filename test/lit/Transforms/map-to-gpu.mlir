// RUN: jpmhc-opt %s --jpmhc-map-to-gpu | FileCheck %s

// A block a row, whose threads share the columns; scratch lies in shared memory; the sum goes through shuffles.
// CHECK: gpu.module @kernels
// CHECK: gpu.func @scale({{.*}}) workgroup(%[[SCRATCH:.*]] : memref<16xf32, #gpu.address_space<workgroup>>, {{.*}} kernel
// CHECK-SAME: jpmhc.block = 128 : i64, jpmhc.rows_per_block = 1 : i64
// CHECK: %[[THREAD:.*]] = gpu.thread_id x
// CHECK: %[[BLOCK:.*]] = gpu.block_id x
// CHECK: scf.for
// CHECK: memref.store %{{.*}}, %[[SCRATCH]]
// CHECK: gpu.barrier
// CHECK-COUNT-5: gpu.shuffle xor
// CHECK: gpu.barrier
// One thread stores the row's result.
// CHECK: %[[FIRST:.*]] = arith.cmpi eq, %[[THREAD]]
// CHECK-NEXT: scf.if %[[FIRST]]
// CHECK-NEXT: memref.store
module attributes {jpmhc.target = #jpmhc.target<gpu, chip = "sm_100a", lanes = 1>} {
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
}
