// RUN: jpmhc-opt %s --jpmhc-to-kernels --jpmhc-kernels-to-nvvm | FileCheck %s

module attributes {jpmhc.target = #jpmhc.target<gpu, chip = "sm_90a", lanes = 1>} {
  // A block a row: the sum of squares goes through shuffles, then shared memory.
  // CHECK: gpu.module @kernels
  // CHECK-NOT: __nv_
  // CHECK: llvm.func @rms_norm_elementwise_0({{.*}}) attributes {{{.*}}jpmhc.block = 128 : i64, jpmhc.rows_per_block = 1 : i64
  // CHECK: nvvm.shfl.sync
  // CHECK: nvvm.barrier
  // CHECK: llvm.intr.sqrt
  func.func @f(%x: tensor<4x8xf32>, %g: tensor<8xf32>) -> tensor<4x8xf32> {
    %y = jpmhc.rms_norm %x gain(%g) : (tensor<4x8xf32>, tensor<8xf32>) -> tensor<4x8xf32>
    %z = arith.addf %y, %x : tensor<4x8xf32>
    return %z : tensor<4x8xf32>
  }

  // A thread a row where a row has no columns.
  // CHECK: llvm.func @elementwise_0({{.*}}) attributes {{{.*}}jpmhc.block = 128 : i64, jpmhc.rows_per_block = 128 : i64
  func.func @g(%x: tensor<300xf32>) -> tensor<300xf32> {
    %y = arith.addf %x, %x : tensor<300xf32>
    return %y : tensor<300xf32>
  }
}
