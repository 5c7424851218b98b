// RUN: jpmhc-opt %s --jpmhc-approximate-math | FileCheck %s

// CHECK-NOT: math.exp
// CHECK: math.fma {{.*}} : f32
// CHECK-NOT: math.tanh
// CHECK: math.fma {{.*}} : vector<16xf32>
// Upstream's polynomial is not accurate enough: a library call.
// CHECK: math.atan2
// CHECK-NOT: math.log
func.func @f(%x: f32, %v: vector<16xf32>, %y: f32) -> (f32, vector<16xf32>, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.tanh %v : vector<16xf32>
  %2 = math.atan2 %x, %y : f32
  %3 = math.log %x : f32
  return %0, %1, %2, %3 : f32, vector<16xf32>, f32, f32
}
