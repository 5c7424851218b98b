// RUN: jpmhc-opt %s --jpmhc-to-kernels --verify-diagnostics

func.func @f(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // expected-error@+2 {{expected static shapes for code generation, got a result of type 'tensor<?x8xf32>'}}
  // expected-error@+1 {{failed to bufferize op}}
  %y = jpmhc.rms_norm %x : (tensor<?x8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
