// RUN: jpmhc-opt %s --jpmhc-wrap-kernels | FileCheck %s

// Buffers are passed as they are, scalars behind a pointer.
// CHECK: llvm.func @scale(%[[LOWER:.*]]: i64, %[[UPPER:.*]]: i64, %[[ARGUMENTS:.*]]: !llvm.ptr) {
// CHECK: %[[X:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: %[[PLACE:.*]] = llvm.load %{{.*}} : !llvm.ptr -> !llvm.ptr
// CHECK: %[[F:.*]] = llvm.load %[[PLACE]] : !llvm.ptr -> f32
// CHECK: llvm.call @scale.rows(%[[LOWER]], %[[UPPER]], %[[X]], %[[F]])
// CHECK: llvm.func internal @scale.rows
llvm.func @scale(%lo: i64, %hi: i64, %x: !llvm.ptr, %f: f32) attributes {jpmhc.kernel} {
  llvm.return
}
