// RUN: jpmhc-opt %s --jpmhc-print-cost --verify-diagnostics

// expected-error@+1 {{expected functions without recursion}}
func.func private @f(%x: memref<8xf32>) attributes {jpmhc.entry} {
  func.call @f(%x) : (memref<8xf32>) -> ()
  return
}
