// RUN: jpmhc-opt %s --jpmhc-map-to-gpu --split-input-file --verify-diagnostics

// expected-error@+1 {{expected a kernel with one loop over rows}}
func.func private @none(%lo: index, %hi: index, %x: memref<8xf32>) attributes {jpmhc.kernel} {
  return
}

// -----

// expected-error@+1 {{expected a kernel with one loop over rows}}
func.func private @two(%lo: index, %hi: index, %x: memref<8xf32>) attributes {jpmhc.kernel} {
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%i) = (%lo) to (%hi) step (%c1) {
    memref.store %zero, %x[%i] : memref<8xf32>
  }
  scf.parallel (%i) = (%lo) to (%hi) step (%c1) {
    memref.store %zero, %x[%i] : memref<8xf32>
  }
  return
}
