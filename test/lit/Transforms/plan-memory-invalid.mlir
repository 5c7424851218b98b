// RUN: jpmhc-opt %s --jpmhc-plan-memory --split-input-file --verify-diagnostics

func.func @dynamic(%n: index) {
  // expected-error@+1 {{expected a static shape to plan memory, got 'memref<?xf32>'}}
  %x = memref.alloc(%n) : memref<?xf32>
  return
}

// -----

func.func private @f(%x: memref<4xf32>) {
  return
}
func.func @nested(%c: i1, %x: memref<4xf32>) {
  scf.if %c {
    // expected-error@+1 {{expected calls at the top level of a function}}
    func.call @f(%x) : (memref<4xf32>) -> ()
  }
  return
}

// -----

// expected-error@-2 {{expected functions without recursion}}
func.func private @f(%x: memref<4xf32>) {
  func.call @f(%x) : (memref<4xf32>) -> ()
  return
}
