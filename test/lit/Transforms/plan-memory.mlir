// RUN: jpmhc-opt %s --jpmhc-plan-memory | FileCheck %s

// The third buffer takes the place of the first, which nothing reads any more.
// CHECK: func.func private @f(%{{.*}}: memref<16xf32>, %[[ARENA:.*]]: memref<128xi8>) attributes {jpmhc.arena_bytes = 128 : i64
// CHECK: %[[A:.*]] = memref.view %[[ARENA]][%c0{{.*}}][]
// CHECK: %[[B:.*]] = memref.view %[[ARENA]][%c64{{.*}}][]
// CHECK: %[[C:.*]] = memref.view %[[ARENA]][%c0{{.*}}][]
// CHECK: memref.copy %[[B]], %[[C]]
func.func private @f(%x: memref<16xf32>) attributes {jpmhc.entry} {
  %a = memref.alloc() : memref<16xf32>
  memref.copy %x, %a : memref<16xf32> to memref<16xf32>
  %b = memref.alloc() : memref<16xf32>
  memref.copy %a, %b : memref<16xf32> to memref<16xf32>
  %c = memref.alloc() : memref<16xf32>
  memref.copy %b, %c : memref<16xf32> to memref<16xf32>
  memref.copy %c, %x : memref<16xf32> to memref<16xf32>
  return
}
