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

// -----

func.func private @step(%lo: index, %hi: index, %s: index, %x: memref<8xf32>) attributes {jpmhc.kernel} {
  %zero = arith.constant 0.0 : f32
  // expected-error@+1 {{expected the step of a kernel's rows to be constant}}
  scf.parallel (%i) = (%lo) to (%hi) step (%s) {
    memref.store %zero, %x[%i] : memref<8xf32>
  }
  return
}

// -----

func.func private @choice(%lo: index, %hi: index, %x: memref<8x4xf32>) attributes {jpmhc.kernel} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %zero = arith.constant 0.0 : f32
  scf.parallel (%i) = (%lo) to (%hi) step (%c1) {
    scf.parallel (%j) = (%c0) to (%c4) step (%c1) {
      memref.store %zero, %x[%i, %j] : memref<8x4xf32>
    }
    // expected-error@+1 {{expected a loop or a condition in a row of a kernel}}
    scf.index_switch %i
    default {
      scf.yield
    }
  }
  return
}
