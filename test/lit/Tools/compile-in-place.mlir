// RUN: rm -rf %t && jpmhc-compile %s --target=cpu --name=adam -o %t 2>&1 | count 0
// RUN: FileCheck %s --input-file=%t/adam.h

// An optimiser step writes to the caller's arrays and needs no memory of its own.
// CHECK: buffers[0]  f32[50], read and overwritten
// CHECK: buffers[1]  f32[50]
// CHECK: buffers[2]  f32[50], read and overwritten
// CHECK: buffers[3]  f32[50], read and overwritten
// CHECK: #define STEP_SCRATCH_BYTES 0
func.func @step(%p: tensor<50xf32> {jpmhc.inplace}, %g: tensor<50xf32>, %m: tensor<50xf32> {jpmhc.inplace},
                %v: tensor<50xf32> {jpmhc.inplace}, %lr: f32, %t: i64)
    -> (tensor<50xf32>, tensor<50xf32>, tensor<50xf32>) {
  %r:3 = jpmhc.adamw %p, %g, %m, %v lr %lr step %t {beta1 = 0.9 : f32, beta2 = 0.999 : f32}
    : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
  return %r#0, %r#1, %r#2 : tensor<50xf32>, tensor<50xf32>, tensor<50xf32>
}
