// RUN: jpmhc-opt %s --jpmhc-fuse-tiles --split-input-file | FileCheck %s

// Rows, then groups of 16 tokens, then twice as many rows of half the width: one loop over tiles. What lies between them
// shrinks to a tile of 16 tokens.
// CHECK-LABEL: @chain
// CHECK: scf.parallel (%[[T:.*]]) = (%{{.*}}) to (%{{.*}}) step (%{{.*}}) {
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<512xi8>
// CHECK: memref.view {{.*}} to memref<16x8xf32>
// CHECK: scf.for %[[R:.*]] = %[[T]]
// CHECK: %[[X:.*]] = memref.load %arg0[%[[R]],
// CHECK: arith.subi %[[R]]
// CHECK: memref.store %[[X]], %{{.*}} : memref<16x8xf32>
// CHECK: scf.for
// CHECK: arith.divui
// CHECK: memref.store {{.*}} : memref<1024x4xf32>
// CHECK: jpmhc.kernel = "first_second", jpmhc.tokens
// CHECK-NOT: scf.parallel
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @chain(%x: memref<512x8xf32>, %out: memref<1024x4xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c512 = arith.constant 512 : index
  %c1024 = arith.constant 1024 : index
  %a = memref.alloc() : memref<512x8xf32>
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %x[%r, %c0] : memref<512x8xf32>
    memref.store %v, %a[%r, %c0] : memref<512x8xf32>
  } {jpmhc.kernel = "first"}
  scf.parallel (%r) = (%c0) to (%c1024) step (%c1) {
    %i = arith.divui %r, %c2 : index
    %v = memref.load %a[%i, %c0] : memref<512x8xf32>
    memref.store %v, %out[%r, %c0] : memref<1024x4xf32>
  } {jpmhc.kernel = "second"}
  return
}
}

// -----

// A loop that reads the row of another token keeps the loops apart.
// CHECK-LABEL: @neighbour
// CHECK: memref.alloc()
// CHECK: scf.parallel
// CHECK: scf.parallel
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @neighbour(%x: memref<512x8xf32>, %out: memref<512x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c511 = arith.constant 511 : index
  %c512 = arith.constant 512 : index
  %a = memref.alloc() : memref<512x8xf32>
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %x[%r, %c0] : memref<512x8xf32>
    memref.store %v, %a[%r, %c0] : memref<512x8xf32>
  }
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %n = arith.subi %c511, %r : index
    %v = memref.load %a[%n, %c0] : memref<512x8xf32>
    memref.store %v, %out[%r, %c0] : memref<512x8xf32>
  }
  return
}
}

// -----

// What lies between uses what either loop makes and needs: they stay apart.
// CHECK-LABEL: @between
// CHECK: scf.parallel
// CHECK: memref.copy
// CHECK: scf.parallel
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @between(%x: memref<512x8xf32>, %out: memref<512x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c512 = arith.constant 512 : index
  %a = memref.alloc() : memref<512x8xf32>
  %b = memref.alloc() : memref<512x8xf32>
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %x[%r, %c0] : memref<512x8xf32>
    memref.store %v, %a[%r, %c0] : memref<512x8xf32>
  }
  memref.copy %a, %b : memref<512x8xf32> to memref<512x8xf32>
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %a[%r, %c0] : memref<512x8xf32>
    %w = memref.load %b[%r, %c0] : memref<512x8xf32>
    %s = arith.addf %v, %w : f32
    memref.store %s, %out[%r, %c0] : memref<512x8xf32>
  }
  return
}
}

// -----

// A loop that only lays out a parameter in another way moves out from between two others, which become one.
// CHECK-LABEL: @preparation
// CHECK: scf.parallel
// CHECK: memref.load %arg1
// CHECK: jpmhc.prepares
// CHECK: scf.parallel
// CHECK: jpmhc.kernel = "first_second", jpmhc.tokens
// CHECK-NOT: scf.parallel
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @preparation(%x: memref<512x8xf32>, %w: memref<8xf32>, %out: memref<512x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c512 = arith.constant 512 : index
  %a = memref.alloc() : memref<512x8xf32>
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %x[%r, %c0] : memref<512x8xf32>
    memref.store %v, %a[%r, %c0] : memref<512x8xf32>
  } {jpmhc.kernel = "first"}
  %p = memref.alloc() : memref<8xf32>
  scf.parallel (%r) = (%c0) to (%c8) step (%c1) {
    %v = memref.load %w[%r] : memref<8xf32>
    memref.store %v, %p[%r] : memref<8xf32>
  } {jpmhc.kernel = "layout", jpmhc.prepares}
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %v = memref.load %a[%r, %c0] : memref<512x8xf32>
    %u = memref.load %p[%c1] : memref<8xf32>
    %s = arith.addf %v, %u : f32
    memref.store %s, %out[%r, %c0] : memref<512x8xf32>
  } {jpmhc.kernel = "second"}
  return
}
}

// -----

// Two preparations that compute the same become one; one of another parameter stays.
// CHECK-LABEL: @same_preparation
// CHECK: %[[P:.*]] = memref.alloc() : memref<8xf32>
// CHECK: memref.load %arg1
// CHECK: memref.store %{{.*}}, %[[P]]
// CHECK: jpmhc.prepares
// CHECK: memref.load %arg2
// CHECK: jpmhc.prepares
// CHECK-NOT: jpmhc.prepares
// CHECK: memref.load %[[P]]
// CHECK: memref.load %[[P]]
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @same_preparation(%x: memref<512x8xf32>, %w: memref<8xf32>, %v: memref<8xf32>, %out: memref<512x8xf32>, %other: memref<512x8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c512 = arith.constant 512 : index
  %p = memref.alloc() : memref<8xf32>
  scf.parallel (%r) = (%c0) to (%c8) step (%c1) {
    %0 = memref.load %w[%r] : memref<8xf32>
    memref.store %0, %p[%r] : memref<8xf32>
  } {jpmhc.kernel = "layout", jpmhc.prepares}
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %0 = memref.load %p[%c0] : memref<8xf32>
    memref.store %0, %out[%r, %c0] : memref<512x8xf32>
  } {jpmhc.kernel = "first"}
  %q = memref.alloc() : memref<8xf32>
  scf.parallel (%r) = (%c0) to (%c8) step (%c1) {
    %0 = memref.load %v[%r] : memref<8xf32>
    memref.store %0, %q[%r] : memref<8xf32>
  } {jpmhc.kernel = "layout", jpmhc.prepares}
  %s = memref.alloc() : memref<8xf32>
  scf.parallel (%r) = (%c0) to (%c8) step (%c1) {
    %0 = memref.load %w[%r] : memref<8xf32>
    memref.store %0, %s[%r] : memref<8xf32>
  } {jpmhc.kernel = "layout", jpmhc.prepares}
  scf.parallel (%r) = (%c0) to (%c512) step (%c1) {
    %0 = memref.load %s[%c0] : memref<8xf32>
    %1 = memref.load %q[%c0] : memref<8xf32>
    %2 = arith.addf %0, %1 : f32
    memref.store %2, %other[%r, %c0] : memref<512x8xf32>
  } {jpmhc.kernel = "second"}
  return
}
}
