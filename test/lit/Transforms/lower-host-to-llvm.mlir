// RUN: jpmhc-opt %s --jpmhc-lower-host-to-llvm | FileCheck %s

// What the runtime's check and the emulator know of the arguments.
// CHECK-DAG: @scale.argument_kinds(dense<[0, 1]> : tensor<2xi8>)
// CHECK-DAG: @scale.argument_bytes(dense<[32, 4]> : tensor<2xi64>)
// CHECK-DAG: @scale.argument_writes(dense<[1, 0]> : tensor<2xi8>)
// CHECK-DAG: @text.{{.*}}("{{.*}}lower-host-to-llvm.mlir:[[# @LINE + 15]]:5\00")

// CHECK: llvm.func @f.entry(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr) -> i32
// CHECK: llvm.call @f.step
// CHECK: llvm.func internal @f.step
// CHECK: %[[STATUS:.*]] = llvm.call @jpmhcLaunch
// Nothing runs after a failure.
// CHECK: %[[FINE:.*]] = llvm.icmp "eq" %[[STATUS]]
// CHECK: llvm.cond_br %[[FINE]]
// CHECK: llvm.call @jpmhcGemm
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "generic", lanes = 4>} {
  func.func private @scale(index, index, memref<8xf32>, f32) attributes {jpmhc.kernel}
  func.func private @f(%x: memref<8xf32>, %f: f32, %a: memref<8x4xf32>, %b: memref<4x8xf32>, %c: memref<8x8xf32>, %arena: memref<64xi8>) attributes {jpmhc.entry, jpmhc.aliases = array<i64>, jpmhc.arena_bytes = 64 : i64} {
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    jpmhc.launch @scale rows(%c0, %c8) grain 4(%x, %f) {jpmhc.written = array<i1: true, false>} : memref<8xf32>, f32
    jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<4x8xf32>, memref<8x8xf32>
    return
  }
}
