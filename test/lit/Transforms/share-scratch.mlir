// RUN: jpmhc-opt %s --jpmhc-share-scratch --split-input-file | FileCheck %s

// %a is dead when %c begins to live and gives it its memory; %b lives beside both; %small stays where it is.
// CHECK-LABEL: @in_turn
// CHECK: %[[SHARED:.*]] = memref.alloca() {alignment = 64 : i64} : memref<8192xi8>
// CHECK-DAG: %[[A:.*]] = memref.view %[[SHARED]]{{.*}} to memref<1024xf32>
// CHECK-DAG: %[[C:.*]] = memref.view %[[SHARED]]{{.*}} to memref<2048xf32>
// CHECK-DAG: %[[B:.*]] = memref.alloca() : memref<1024xf32>
// CHECK-DAG: %[[SMALL:.*]] = memref.alloca() : memref<4xf32>
// CHECK-NOT: memref.alloca
// CHECK: memref.store %{{.*}}, %[[A]]
// CHECK: memref.load %[[A]]
// CHECK: memref.store %{{.*}}, %[[B]]
// CHECK: memref.load %[[B]]
// CHECK: memref.store %{{.*}}, %[[C]]
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @in_turn(%v: f32, %i: index) -> f32 {
  %small = memref.alloca() : memref<4xf32>
  %a = memref.alloca() : memref<1024xf32>
  %b = memref.alloca() : memref<1024xf32>
  %c = memref.alloca() : memref<2048xf32>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  memref.store %v, %small[%c0] : memref<4xf32>
  memref.store %v, %a[%i] : memref<1024xf32>
  scf.for %j = %c0 to %c4 step %c1 {
    %0 = memref.load %a[%j] : memref<1024xf32>
    memref.store %0, %b[%j] : memref<1024xf32>
  }
  scf.for %j = %c0 to %c4 step %c1 {
    %0 = memref.load %b[%j] : memref<1024xf32>
    memref.store %0, %c[%j] : memref<2048xf32>
  }
  %r = memref.load %c[%i] : memref<2048xf32>
  return %r : f32
}
}

// -----

// Threads of a GPU would have to wait for each other between two users of the same memory.
// CHECK-LABEL: @threads
// CHECK-NOT: memref.view
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<gpu, chip = "sm_100a", lanes = 1>} {
func.func @threads(%v: f32, %i: index) -> f32 {
  %a = memref.alloca() : memref<1024xf32>
  %b = memref.alloca() : memref<1024xf32>
  memref.store %v, %a[%i] : memref<1024xf32>
  %0 = memref.load %a[%i] : memref<1024xf32>
  memref.store %0, %b[%i] : memref<1024xf32>
  %r = memref.load %b[%i] : memref<1024xf32>
  return %r : f32
}
}
