// RUN: jpmhc-opt %s --jpmhc-to-cpu | FileCheck %s
// RUN: jpmhc-opt %s --jpmhc-to-ptx=chip=sm_90a | FileCheck %s --check-prefix=GPU

// Functions may be called like kernels, like the module of the kernels, or like what compiled code calls.
// CHECK-DAG: llvm.func @elementwise_0.entry(
// CHECK-DAG: llvm.func internal @elementwise_0.step(
// CHECK-DAG: llvm.func @elementwise_1(%{{.*}}: i64, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
// CHECK-DAG: llvm.func @jpmhcLaunch.entry(
// CHECK-DAG: llvm.func internal @kernels.step(
// CHECK-DAG: llvm.call @kernels.step(
// CHECK-DAG: llvm.func @jpmhcLaunch(!llvm.ptr, {{.*}}) -> i32
// GPU-DAG: gpu.binary @kernels_0
// GPU-DAG: llvm.mlir.global external @elementwise_1()
func.func @elementwise_0(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  %z = func.call @kernels(%y) : (tensor<8xf32>) -> tensor<8xf32>
  return %z : tensor<8xf32>
}
func.func private @kernels(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.mulf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
func.func @jpmhcLaunch(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
