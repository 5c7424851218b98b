// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: func.func @launch
// CHECK: jpmhc.launch @kernel rows(%{{.*}}, %{{.*}}) grain 64(%{{.*}}) : memref<8x4xf32>
func.func private @kernel(index, index, memref<8x4xf32>)
func.func @launch(%lower: index, %upper: index, %x: memref<8x4xf32>) {
  jpmhc.launch @kernel rows(%lower, %upper) grain 64(%x) : memref<8x4xf32>
  return
}

// CHECK-LABEL: func.func @gemm
// CHECK: jpmhc.gemm %{{.*}}, %{{.*}}, %{{.*}} {beta = 1.000000e+00 : f32, transB = true}
func.func @gemm(%a: memref<8x4xf32>, %b: memref<16x4xf32>, %c: memref<8x16xf32>) {
  jpmhc.gemm %a, %b, %c {transB = true, beta = 1.0 : f32} : memref<8x4xf32>, memref<16x4xf32>, memref<8x16xf32>
  return
}

// CHECK-LABEL: func.func @batches
func.func @batches(%a: memref<?x8x4xf32>, %b: memref<2x4x16xf32>, %c: memref<2x?x16xf32>) {
  jpmhc.gemm %a, %b, %c : memref<?x8x4xf32>, memref<2x4x16xf32>, memref<2x?x16xf32>
  return
}
