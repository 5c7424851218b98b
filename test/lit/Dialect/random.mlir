// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --canonicalize | FileCheck %s --check-prefix=FOLD

// CHECK-LABEL: @numbers
func.func @numbers(%s: i64, %t: i64, %k: i64) -> (tensor<4x?xi32>, tensor<7xf32>, tensor<2x3xf32>) {
  // CHECK: jpmhc.random_bits seed %{{.*}} step %{{.*}} site %{{.*}} : tensor<4x?xi32>
  %a = jpmhc.random_bits seed %s step %t site %k : tensor<4x?xi32>
  // CHECK: jpmhc.random_uniform seed %{{.*}} step %{{.*}} site %{{.*}} : tensor<7xf32>
  %b = jpmhc.random_uniform seed %s step %t site %k : tensor<7xf32>
  // CHECK: jpmhc.random_normal seed %{{.*}} step %{{.*}} site %{{.*}} : tensor<2x3xf32>
  %c = jpmhc.random_normal seed %s step %t site %k : tensor<2x3xf32>
  return %a, %b, %c : tensor<4x?xi32>, tensor<7xf32>, tensor<2x3xf32>
}

// CHECK-LABEL: @dropout
func.func @dropout(%x: tensor<4x?xbf16>, %s: i64, %t: i64, %k: i64) -> tensor<4x?xbf16> {
  // CHECK: jpmhc.dropout %{{.*}} seed %{{.*}} step %{{.*}} site %{{.*}} {rate = 2.500000e-01 : f32} : tensor<4x?xbf16>
  %y = jpmhc.dropout %x seed %s step %t site %k {rate = 0.25 : f32} : tensor<4x?xbf16>
  return %y : tensor<4x?xbf16>
}

// FOLD-LABEL: @no_dropout
// FOLD-NOT: jpmhc.dropout
func.func @no_dropout(%x: tensor<4x8xf32>, %s: i64, %t: i64, %k: i64) -> tensor<4x8xf32> {
  %y = jpmhc.dropout %x seed %s step %t site %k {rate = 0.0 : f32} : tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}
