// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @block
func.func @block(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %b: tensor<48xf32>) -> tensor<8x4x16xf32> {
  // CHECK: jpmhc.hyper_connection %{{.*}}, %{{.*}} bias(%{{.*}}) <"stiefel"> <layer> <softmax> {
  // CHECK: ^bb0(%[[IN:.*]]: tensor<8x16xf32>):
  // CHECK: jpmhc.yield %{{.*}} : tensor<8x16xf32>
  // CHECK: } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<48xf32>) -> tensor<8x4x16xf32>
  %out = jpmhc.hyper_connection %x, %w bias(%b) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    %y = math.tanh %in : tensor<8x16xf32>
    jpmhc.yield %y : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<48xf32>) -> tensor<8x4x16xf32>
  return %out : tensor<8x4x16xf32>
}

// CHECK-LABEL: @every_operand
func.func @every_operand(%x: tensor<?x4x?xbf16>, %w: tensor<24x?xbf16>, %a: tensor<3xf32>, %b: tensor<24xf32>,
                         %g: tensor<?xbf16>) -> tensor<?x4x?xbf16> {
  // CHECK: jpmhc.hyper_connection %{{.*}}, %{{.*}} alpha(%{{.*}}) bias(%{{.*}}) gain(%{{.*}}) shift(%{{.*}}) <"birkhoff", {rounds = 3 : i64}> <rms> <sigmoid> {
  // CHECK: } {post_scale = 2.000000e+00 : f32, scale = 5.000000e-01 : f32, tau = 0.699999988 : f32}
  %out = jpmhc.hyper_connection %x, %w alpha(%a) bias(%b) gain(%g) shift(%g) <"birkhoff", {rounds = 3}> <rms> <sigmoid> {
  ^bb0(%in: tensor<?x?xbf16>):
    jpmhc.yield %in : tensor<?x?xbf16>
  } {post_scale = 2.0 : f32, scale = 0.5 : f32, tau = 0.7 : f32}
    : (tensor<?x4x?xbf16>, tensor<24x?xbf16>, tensor<3xf32>, tensor<24xf32>, tensor<?xbf16>, tensor<?xbf16>)
    -> tensor<?x4x?xbf16>
  return %out : tensor<?x4x?xbf16>
}

// CHECK-LABEL: @parts
func.func @parts(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %b: tensor<48xf32>, %g: tensor<64xf32>) -> tensor<8x4x16xf32> {
  // CHECK: jpmhc.stream_logits %{{.*}}, %{{.*}} gain(%{{.*}}) <layer>
  %z = jpmhc.stream_logits %x, %w gain(%g) <layer>
    : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<64xf32>) -> tensor<8x48xf32>
  // CHECK: jpmhc.stream_maps %{{.*}} bias(%{{.*}}) <"stiefel"> <softmax> streams 4
  %r, %q, %h = jpmhc.stream_maps %z bias(%b) <"stiefel"> <softmax> streams 4
    : (tensor<8x48xf32>, tensor<48xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  // CHECK: jpmhc.stream_read %{{.*}}, %{{.*}} : tensor<8x4x16xf32>, tensor<8x4xf32> -> tensor<8x16xf32>
  %in = jpmhc.stream_read %x, %r : tensor<8x4x16xf32>, tensor<8x4xf32> -> tensor<8x16xf32>
  // CHECK: jpmhc.stream_write %{{.*}} {scale = 5.000000e-01 : f32}
  %out = jpmhc.stream_write %x, %h, %q, %in {scale = 5.0e-1 : f32}
    : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<8x4xf32>, tensor<8x16xf32>
  return %out : tensor<8x4x16xf32>
}

// CHECK-LABEL: @adjoints
func.func @adjoints(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %b: tensor<48xf32>, %g: tensor<64xf32>,
                    %z: tensor<8x48xf32>, %r: tensor<8x4xf32>, %h: tensor<8x4x4xf32>, %y: tensor<8x16xf32>) {
  // CHECK: jpmhc.stream_logits_vjp %{{.*}}, %{{.*}}, %{{.*}} gain(%{{.*}}) <layer>
  %dx, %dw, %dg = jpmhc.stream_logits_vjp %x, %w, %z gain(%g) <layer>
    : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<8x48xf32>, tensor<64xf32>)
    -> (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<64xf32>)
  // CHECK: jpmhc.stream_maps_vjp %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} bias(%{{.*}}) <"stiefel"> <softmax> streams 4
  %dz, %db = jpmhc.stream_maps_vjp %z, %r, %r, %h bias(%b) <"stiefel"> <softmax> streams 4
    : (tensor<8x48xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>, tensor<48xf32>)
    -> (tensor<8x48xf32>, tensor<48xf32>)
  // CHECK: jpmhc.stream_read_vjp
  %1:2 = jpmhc.stream_read_vjp %x, %r, %y : tensor<8x4x16xf32>, tensor<8x4xf32>, tensor<8x16xf32>
  // CHECK: jpmhc.stream_write_vjp
  %2:4 = jpmhc.stream_write_vjp %x, %h, %r, %y, %x
    : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<8x4xf32>, tensor<8x16xf32>
  return
}
