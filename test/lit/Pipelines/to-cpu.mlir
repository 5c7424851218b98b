// RUN: jpmhc-opt %s --jpmhc-to-cpu=chip=skylake-avx512 --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --jpmhc-to-cpu | FileCheck %s --check-prefix=HERE
// RUN: not jpmhc-opt %s --jpmhc-to-cpu=chip=z80 2>&1 | FileCheck %s --check-prefix=UNKNOWN

// UNKNOWN: error: expected a processor of x86_64 that LLVM knows (llc -mcpu=help lists them), got 'z80'

// Host code calls the runtime and only declares the kernels; each of those lies in a module of its own.
// CHECK: module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "skylake-avx512", lanes = 16>}
// CHECK: llvm.func @f.entry(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @jpmhcLaunch
// CHECK: {{^}}  module {
// CHECK-NEXT: llvm.func @rms_norm_elementwise_0(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr) {
// CHECK: llvm.func internal @rms_norm_elementwise_0.rows
// CHECK: {{^}}  llvm.func @rms_norm_elementwise_0(i64, i64, !llvm.ptr)
// HERE: jpmhc.target = #jpmhc.target<cpu
func.func @f(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = jpmhc.rms_norm %x gain(%g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = arith.addf %y, %x : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
