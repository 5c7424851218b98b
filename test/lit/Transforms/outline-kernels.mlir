// RUN: jpmhc-opt %s --jpmhc-outline-kernels | FileCheck %s

// Two loops that are equal but for what they capture share one kernel; the third is another.
// CHECK-LABEL: func.func @step
// CHECK: jpmhc.launch @scale_0 rows({{.*}}) grain {{[0-9]+}}(%{{.*}}, %{{.*}})
// CHECK: jpmhc.launch @scale_0
// CHECK: jpmhc.launch @loop_0
// CHECK: func.func private @scale_0(%{{.*}}: index, %{{.*}}: index, %{{.*}}: memref<8xf32> {llvm.noalias}, %{{.*}}: memref<8xf32> {llvm.noalias})
// CHECK: func.func private @loop_0
// CHECK-NOT: func.func
func.func @step(%a: memref<8xf32>, %b: memref<8xf32>, %c: memref<8xf32>) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %eight = arith.constant 8 : index
  scf.parallel (%i) = (%zero) to (%eight) step (%one) {
    %v = memref.load %a[%i] : memref<8xf32>
    %w = arith.mulf %v, %v : f32
    memref.store %w, %b[%i] : memref<8xf32>
  } {jpmhc.kernel = "scale"}
  scf.parallel (%i) = (%zero) to (%eight) step (%one) {
    %v = memref.load %b[%i] : memref<8xf32>
    %w = arith.mulf %v, %v : f32
    memref.store %w, %c[%i] : memref<8xf32>
  } {jpmhc.kernel = "scale"}
  scf.parallel (%i) = (%zero) to (%eight) step (%one) {
    %v = memref.load %c[%i] : memref<8xf32>
    %w = arith.addf %v, %v : f32
    memref.store %w, %a[%i] : memref<8xf32>
  }
  return
}
