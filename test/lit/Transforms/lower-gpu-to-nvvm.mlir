// RUN: jpmhc-opt %s --pass-pipeline='builtin.module(gpu.module(jpmhc-lower-gpu-to-nvvm))' | FileCheck %s

// CHECK: llvm.func @copy(%[[X:.*]]: !llvm.ptr, %[[Y:.*]]: !llvm.ptr) attributes {gpu.kernel, nvvm.kernel}
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: llvm.load %{{.*}} : !llvm.ptr -> f32
// CHECK: nvvm.barrier
// CHECK: llvm.store %{{.*}}, %{{.*}} : f32, !llvm.ptr
gpu.module @kernels {
  gpu.func @copy(%x: memref<64xf32>, %y: memref<64xf32>) kernel {
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %v = memref.load %x[%t] : memref<64xf32>
    gpu.barrier
    memref.store %v, %y[%b] : memref<64xf32>
    gpu.return
  }
}
