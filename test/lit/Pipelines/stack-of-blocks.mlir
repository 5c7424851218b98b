// RUN: jpmhc-opt %s --jpmhc-to-kernels --split-input-file | FileCheck %s

// Between two products the streams are walked once: a block's write, the next block's logits, maps and read, and what is
// element-wise are one kernel. Two blocks around products are three kernels and two products forward.
// CHECK-LABEL: func.func private @forward
// CHECK: jpmhc.launch @stream_logits_stream_maps_stream_read_elementwise_0
// CHECK: jpmhc.gemm
// CHECK-NOT: jpmhc.launch @stream_read
// CHECK: jpmhc.launch @stream_write_stream_logits_stream_maps_stream_read_0
// CHECK: jpmhc.gemm
// CHECK: jpmhc.launch @stream_write_0
// CHECK-NOT: jpmhc.launch
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func @forward(%x: tensor<512x4x96xf32>, %w: tensor<24x384xf32>, %f: tensor<96x96xf32>) -> tensor<512x4x96xf32> {
  %a = jpmhc.hyper_connection %x, %w <"birkhoff"> <rms> <sigmoid> {
  ^bb0(%in: tensor<512x96xf32>):
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<512x96xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x96xf32>) -> tensor<512x96xf32>
    %y = linalg.matmul ins(%in, %f : tensor<512x96xf32>, tensor<96x96xf32>) outs(%init : tensor<512x96xf32>) -> tensor<512x96xf32>
    jpmhc.yield %y : tensor<512x96xf32>
  } : (tensor<512x4x96xf32>, tensor<24x384xf32>) -> tensor<512x4x96xf32>
  %b = jpmhc.hyper_connection %a, %w <"birkhoff"> <rms> <sigmoid> {
  ^bb0(%in: tensor<512x96xf32>):
    %zero = arith.constant 0.0 : f32
    %empty = tensor.empty() : tensor<512x96xf32>
    %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<512x96xf32>) -> tensor<512x96xf32>
    %y = linalg.matmul ins(%in, %f : tensor<512x96xf32>, tensor<96x96xf32>) outs(%init : tensor<512x96xf32>) -> tensor<512x96xf32>
    jpmhc.yield %y : tensor<512x96xf32>
  } : (tensor<512x4x96xf32>, tensor<24x384xf32>) -> tensor<512x4x96xf32>
  return %b : tensor<512x4x96xf32>
}
}

// -----

// Forward and backward of a block around something element-wise are one pass over the streams.
// CHECK-LABEL: func.func private @gradient
// CHECK: jpmhc.launch @stream_logits_stream_maps_stream_read_elementwise_stream_write_vjp_{{.*}}stream_maps_vjp_stream_logits_vjp_elementwise_0
// CHECK-NOT: jpmhc.launch @stream_{{(read|write)}}
// CHECK: return
module attributes {jpmhc.target = #jpmhc.target<cpu, chip = "native", lanes = 16>} {
func.func private @block(%x: tensor<512x4x96xf32>, %w: tensor<24x384xf32>) -> tensor<512x4x96xf32> {
  %a = jpmhc.hyper_connection %x, %w <"birkhoff"> <rms> <sigmoid> {
  ^bb0(%in: tensor<512x96xf32>):
    %y = math.tanh %in : tensor<512x96xf32>
    jpmhc.yield %y : tensor<512x96xf32>
  } : (tensor<512x4x96xf32>, tensor<24x384xf32>) -> tensor<512x4x96xf32>
  return %a : tensor<512x4x96xf32>
}
func.func @gradient(%x: tensor<512x4x96xf32>, %w: tensor<24x384xf32>, %d: tensor<512x4x96xf32>) -> (tensor<512x4x96xf32>, tensor<24x384xf32>) {
  %y, %dx, %dw = jpmhc.vjp @block(%x, %w) cotangents(%d) wrt [0, 1]
    : (tensor<512x4x96xf32>, tensor<24x384xf32>, tensor<512x4x96xf32>) -> (tensor<512x4x96xf32>, tensor<512x4x96xf32>, tensor<24x384xf32>)
  return %dx, %dw : tensor<512x4x96xf32>, tensor<24x384xf32>
}
}
