// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @rms_norm
func.func @rms_norm(%x: tensor<?x8xf32>, %g: tensor<8xf32>) -> tensor<?x8xf32> {
  // CHECK: jpmhc.rms_norm %{{.*}} gain(%{{.*}}) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  %y = jpmhc.rms_norm %x gain(%g) : (tensor<?x8xf32>, tensor<8xf32>) -> tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}
