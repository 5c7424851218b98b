// RUN: jpmhc-opt %s --jpmhc-to-ptx=chip=sm_100a --verify-roundtrip | FileCheck %s
// RUN: jpmhc-opt %s --jpmhc-to-ptx=chip=sm_90 | FileCheck %s --check-prefix=HOPPER
// RUN: not jpmhc-opt %s --jpmhc-to-ptx=chip=sm_7 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not jpmhc-opt %s --jpmhc-set-target=kind=tpu 2>&1 | FileCheck %s --check-prefix=KIND
// RUN: not jpmhc-opt %s --jpmhc-kernels-to-ptx 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: jpmhc-opt --help | FileCheck %s --check-prefix=HELP

// UNKNOWN: error: unknown chip: expected one of sm_80, {{.*}}sm_100a, {{.*}}sm_121a, got 'sm_7'
// KIND: error: unknown kind of target: expected cpu or gpu, got 'tpu'
// NONE: error: expected a module with a GPU as jpmhc.target

// HELP: --jpmhc-kernels-to-ptx {{.*}} turn the gpu.module of the kernels into PTX
// HELP: --jpmhc-to-cpu {{.*}} tensors to host code and kernels in the LLVM dialect for a CPU
// HELP-NEXT: --chip=<string> {{.*}} processor by LLVM's name; this machine's by default
// HELP: --jpmhc-to-ptx {{.*}} tensors to host code in the LLVM dialect and kernels in PTX
// HELP-NEXT: --chip=<string> {{.*}} GPU, such as sm_90a

// CHECK: jpmhc.target = #jpmhc.target<gpu, chip = "sm_100a", lanes = 1>
// CHECK: llvm.func @f.entry(
// CHECK: llvm.call @jpmhcLaunch
// CHECK: gpu.binary @kernels [#gpu.object<#nvvm.target<chip = "sm_100a">, assembly = "{{.*}}.target sm_100a{{.*}}.entry rms_norm_elementwise_0(
// HOPPER: .target sm_90
func.func @f(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
  %y = jpmhc.rms_norm %x gain(%g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
  %z = arith.addf %y, %x : tensor<4x8xf32>
  return %z : tensor<4x8xf32>
}
