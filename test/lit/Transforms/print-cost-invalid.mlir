// RUN: jpmhc-opt %s --jpmhc-print-cost --split-input-file --verify-diagnostics

// expected-error@+1 {{expected functions without recursion}}
func.func private @f(%x: memref<8xf32>) attributes {jpmhc.entry} {
  func.call @f(%x) : (memref<8xf32>) -> ()
  return
}

// -----

func.func private @kernel(index, index, memref<8xf32>)
func.func @g(%i: index, %x: memref<8xf32>) attributes {jpmhc.entry} {
  // expected-error@+1 {{expected the body of kernel 'kernel', got a declaration}}
  jpmhc.launch @kernel rows(%i, %i) grain 64(%x) : memref<8xf32>
  return
}
