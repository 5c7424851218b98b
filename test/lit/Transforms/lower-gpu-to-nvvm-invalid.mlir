// RUN: jpmhc-opt %s --pass-pipeline='builtin.module(gpu.module(jpmhc-lower-gpu-to-nvvm))' --split-input-file --verify-diagnostics

gpu.module @kernels {
  gpu.func @sine(%x: memref<4xf32>) kernel {
    %i = gpu.thread_id x
    %a = memref.load %x[%i] : memref<4xf32>
    // expected-error@+1 {{math.sin is not served on a GPU for elements of 'f32'}}
    %b = math.sin %a : f32
    memref.store %b, %x[%i] : memref<4xf32>
    gpu.return
  }
}

// -----

gpu.module @kernels {
  gpu.func @power(%x: memref<4xi32>) kernel {
    %i = gpu.thread_id x
    %a = memref.load %x[%i] : memref<4xi32>
    // expected-error@+1 {{math.ipowi is not served on a GPU for elements of 'i32'}}
    %b = math.ipowi %a, %a : i32
    memref.store %b, %x[%i] : memref<4xi32>
    gpu.return
  }
}
