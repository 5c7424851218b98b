// RUN: rm -rf %t && jpmhc-compile %s --target=cpu --name=scale -o %t
// RUN: FileCheck %s --check-prefix=HEADER --input-file=%t/scale.h
// RUN: FileCheck %s --check-prefix=MANIFEST --input-file=%t/manifest.json
// RUN: llvm-nm -D %t/libscale.so | FileCheck %s --check-prefix=SYMBOLS
// RUN: not jpmhc-compile %s --chip=pentium99 -o %t 2>&1 | FileCheck %s --check-prefix=CHIP

// HEADER: buffers[0]  f32[300]
// HEADER: buffers[1]  f32[300], written
// HEADER: int32_t twice(jpmhcContext *context, void **buffers);

// MANIFEST: "format": 1
// MANIFEST: "name": "elementwise_0"
// MANIFEST: "library": "libscale.so"

// Kernels and host code call the launch ABI and nothing else.
// SYMBOLS-NOT: U
// SYMBOLS: U jpmhcLaunch
// SYMBOLS-NOT: U
// SYMBOLS: T twice

// CHIP: expected a processor of x86_64 that LLVM knows (llc -mcpu=help lists them), got 'pentium99'
func.func @twice(%x: tensor<300xf32>) -> tensor<300xf32> {
  %y = arith.addf %x, %x : tensor<300xf32>
  return %y : tensor<300xf32>
}
