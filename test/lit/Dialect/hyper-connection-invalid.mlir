// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<47x64xf32>) {
  // expected-error @+1 {{expected weight of type 'tensor<48x64xf32>', got 'tensor<47x64xf32>'}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<47x64xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %a: tensor<2xf32>) {
  // expected-error @+1 {{expected alpha of type 'tensor<3xf32>', got 'tensor<2xf32>'}}
  %out = jpmhc.hyper_connection %x, %w alpha(%a) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<2xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %a: tensor<2xf32>) {
  // expected-error @+1 {{expected bias of type 'tensor<48xf32>', got 'tensor<2xf32>'}}
  %out = jpmhc.hyper_connection %x, %w bias(%a) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<2xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %a: tensor<2xf32>) {
  // expected-error @+1 {{expected gain of type 'tensor<64xf32>', got 'tensor<2xf32>'}}
  %out = jpmhc.hyper_connection %x, %w gain(%a) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<2xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %a: tensor<2xf32>) {
  // expected-error @+1 {{expected shift of type 'tensor<64xf32>', got 'tensor<2xf32>'}}
  %out = jpmhc.hyper_connection %x, %w shift(%a) <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<2xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected a finite eps > 0, got 0}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } {eps = 0.0 : f32} : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected a finite tau > 0, got -1}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } {tau = -1.0 : f32} : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x17x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected from 1 to 16 streams, got 17}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    jpmhc.yield %in : tensor<8x16xf32>
  } : (tensor<8x17x16xf32>, tensor<48x64xf32>) -> tensor<8x17x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected a region with one argument of type 'tensor<8x16xf32>', got ('tensor<8x64xf32>')}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x64xf32>):
    jpmhc.yield %in : tensor<8x64xf32>
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    // expected-error @+1 {{expected one value of type 'tensor<8x16xf32>', got ()}}
    jpmhc.yield
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x4x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x60xf32>) {
  // expected-error @+1 {{expected weight of type 'tensor<48x64xf32>', got 'tensor<48x60xf32>'}}
  %z = jpmhc.stream_logits %x, %w <rms> : (tensor<8x4x16xf32>, tensor<48x60xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{expected gain of type 'tensor<64xf32>', got 'tensor<4xf32>'}}
  %z = jpmhc.stream_logits %x, %w gain(%g) <rms> : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<4xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %g: tensor<4xf32>) {
  // expected-error @+1 {{expected shift of type 'tensor<64xf32>', got 'tensor<4xf32>'}}
  %z = jpmhc.stream_logits %x, %w shift(%g) <rms> : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<4xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected a finite eps > 0, got -1}}
  %z = jpmhc.stream_logits %x, %w <rms> {eps = -1.0 : f32} : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %dz: tensor<8x4xf32>) {
  // expected-error @+1 {{expected dz of type 'tensor<8x48xf32>', got 'tensor<8x4xf32>'}}
  %dx, %dw = jpmhc.stream_logits_vjp %x, %w, %dz <rms> : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<8x4xf32>) -> (tensor<8x4x16xf32>, tensor<48x64xf32>)
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>, %dz: tensor<8x48xf32>) {
  // expected-error @+1 {{expected dweight of type 'tensor<48x64xf32>', got 'tensor<48x6xf32>'}}
  %dx, %dw = jpmhc.stream_logits_vjp %x, %w, %dz <rms> : (tensor<8x4x16xf32>, tensor<48x64xf32>, tensor<8x48xf32>) -> (tensor<8x4x16xf32>, tensor<48x6xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x47xf32>) {
  // expected-error @+1 {{expected z of type 'tensor<?x48xf32>', got 'tensor<8x47xf32>'}}
  %r, %q, %h = jpmhc.stream_maps %z <"free"> <softmax> streams 4 : (tensor<8x47xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %a: tensor<4xf32>) {
  // expected-error @+1 {{expected alpha of type 'tensor<3xf32>', got 'tensor<4xf32>'}}
  %r, %q, %h = jpmhc.stream_maps %z alpha(%a) <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %a: tensor<4xf32>) {
  // expected-error @+1 {{expected bias of type 'tensor<48xf32>', got 'tensor<4xf32>'}}
  %r, %q, %h = jpmhc.stream_maps %z bias(%a) <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<4xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>) {
  // expected-error @+1 {{expected a finite tau > 0, got 0}}
  %r, %q, %h = jpmhc.stream_maps %z <"free"> <softmax> streams 4 {tau = 0.0 : f32} : (tensor<8x48xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>) {
  // expected-error @+1 {{expected from 1 to 16 streams, got 0}}
  %r, %q, %h = jpmhc.stream_maps %z <"free"> <softmax> streams 0 : (tensor<8x48xf32>) -> (tensor<8x0xf32>, tensor<8x0xf32>, tensor<8x0x0xf32>)
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %r: tensor<8x5xf32>, %q: tensor<8x4xf32>, %h: tensor<8x4x4xf32>) {
  // expected-error @+1 {{expected dread of type 'tensor<8x4xf32>', got 'tensor<8x5xf32>'}}
  %dz = jpmhc.stream_maps_vjp %z, %r, %q, %h <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<8x5xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %r: tensor<8x4xf32>, %q: tensor<8x5xf32>, %h: tensor<8x4x4xf32>) {
  // expected-error @+1 {{expected dwrite of type 'tensor<8x4xf32>', got 'tensor<8x5xf32>'}}
  %dz = jpmhc.stream_maps_vjp %z, %r, %q, %h <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<8x4xf32>, tensor<8x5xf32>, tensor<8x4x4xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %r: tensor<8x4xf32>, %h: tensor<8x4x5xf32>) {
  // expected-error @+1 {{expected dmixer of type 'tensor<8x4x4xf32>', got 'tensor<8x4x5xf32>'}}
  %dz = jpmhc.stream_maps_vjp %z, %r, %r, %h <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x5xf32>) -> tensor<8x48xf32>
  return
}

// -----

func.func @f(%z: tensor<8x48xf32>, %r: tensor<8x4xf32>, %h: tensor<8x4x4xf32>, %b: tensor<48xf32>) {
  // expected-error @+1 {{expected dparameters of types ('tensor<48xf32>'), got ('tensor<47xf32>')}}
  %dz, %db = jpmhc.stream_maps_vjp %z, %r, %r, %h bias(%b) <"free"> <softmax> streams 4 : (tensor<8x48xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x4x4xf32>, tensor<48xf32>) -> (tensor<8x48xf32>, tensor<47xf32>)
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %r: tensor<8x5xf32>) {
  // expected-error @+1 {{expected read of type 'tensor<8x4xf32>', got 'tensor<8x5xf32>'}}
  %i = jpmhc.stream_read %x, %r : tensor<8x4x16xf32>, tensor<8x5xf32> -> tensor<8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %r: tensor<8x4xf32>, %d: tensor<8x1xf32>) {
  // expected-error @+1 {{expected dx_in of type 'tensor<8x16xf32>', got 'tensor<8x1xf32>'}}
  %dx, %dr = jpmhc.stream_read_vjp %x, %r, %d : tensor<8x4x16xf32>, tensor<8x4xf32>, tensor<8x1xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %h: tensor<8x4x5xf32>, %q: tensor<8x4xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{expected mixer of type 'tensor<8x4x4xf32>', got 'tensor<8x4x5xf32>'}}
  %o = jpmhc.stream_write %x, %h, %q, %y : tensor<8x4x16xf32>, tensor<8x4x5xf32>, tensor<8x4xf32>, tensor<8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %h: tensor<8x4x4xf32>, %q: tensor<7x4xf32>, %y: tensor<8x16xf32>) {
  // expected-error @+1 {{expected write of type 'tensor<8x4xf32>', got 'tensor<7x4xf32>'}}
  %o = jpmhc.stream_write %x, %h, %q, %y : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<7x4xf32>, tensor<8x16xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %h: tensor<8x4x4xf32>, %q: tensor<8x4xf32>, %y: tensor<8x15xf32>) {
  // expected-error @+1 {{expected y of type 'tensor<8x16xf32>', got 'tensor<8x15xf32>'}}
  %o = jpmhc.stream_write %x, %h, %q, %y : tensor<8x4x16xf32>, tensor<8x4x4xf32>, tensor<8x4xf32>, tensor<8x15xf32>
  return
}

// -----

func.func @f(%x: tensor<8x4x16xf32>, %w: tensor<48x64xf32>) {
  // expected-error @+1 {{expected a region that ends with jpmhc.yield, got llvm.unreachable}}
  %out = jpmhc.hyper_connection %x, %w <"stiefel"> <layer> <softmax> {
  ^bb0(%in: tensor<8x16xf32>):
    llvm.unreachable
  } : (tensor<8x4x16xf32>, tensor<48x64xf32>) -> tensor<8x4x16xf32>
  return
}
