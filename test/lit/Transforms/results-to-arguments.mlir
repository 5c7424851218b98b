// RUN: jpmhc-opt %s --jpmhc-results-to-arguments --split-input-file --verify-diagnostics | FileCheck %s

// The new buffer becomes an argument; the updated one is an argument already.
// CHECK: func.func private @f(%[[X:.*]]: memref<4xf32>, %[[P:.*]]: memref<4xf32>, %[[OUT:.*]]: memref<4xf32>) attributes {jpmhc.aliases = array<i64: -1, 1>
// CHECK-NOT: memref.alloc
// CHECK: memref.store %{{.*}}, %[[OUT]]
// CHECK: memref.store %{{.*}}, %[[P]]
// CHECK: return
func.func private @f(%x: memref<4xf32>, %p: memref<4xf32> {jpmhc.inplace}) -> (memref<4xf32>, memref<4xf32>) attributes {jpmhc.entry} {
  %c0 = arith.constant 0 : index
  %a = memref.alloc() : memref<4xf32>
  %v = memref.load %x[%c0] : memref<4xf32>
  memref.store %v, %a[%c0] : memref<4xf32>
  memref.store %v, %p[%c0] : memref<4xf32>
  return %a, %p : memref<4xf32>, memref<4xf32>
}

// -----

// expected-error @+1 {{expected argument 0 to be updated in place and returned, got a result in a buffer of its own}}
func.func private @lost(%p: memref<4xf32> {jpmhc.inplace}) -> memref<4xf32> attributes {jpmhc.entry} {
  %a = memref.alloc() : memref<4xf32>
  memref.copy %p, %a : memref<4xf32> to memref<4xf32>
  return %a : memref<4xf32>
}

// -----

// Two results in one buffer: the second is a copy of the first.
// CHECK: func.func private @twice(%[[A:.*]]: memref<6xf32>, %[[FIRST:.*]]: memref<6xf32>, %[[SECOND:.*]]: memref<6xf32>) attributes {jpmhc.aliases = array<i64: -1, -1>
// CHECK: memref.copy %[[A]], %[[FIRST]]
// CHECK: memref.copy %[[FIRST]], %[[SECOND]]
func.func private @twice(%a: memref<6xf32>) -> (memref<6xf32>, memref<6xf32>) attributes {jpmhc.entry} {
  %0 = memref.alloc() : memref<6xf32>
  memref.copy %a, %0 : memref<6xf32> to memref<6xf32>
  return %0, %0 : memref<6xf32>, memref<6xf32>
}
