// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

// Operands have four dimensions.
func.func @f(%q: tensor<2x5x8xf32>, %k: tensor<2x5x8xf32>, %v: tensor<2x5x8xf32>) {
  // expected-error @+1 {{operand #0 must be 4D tensor of f32, bf16 or f16 values, but got 'tensor<2x5x8xf32>'}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x8xf32>, tensor<2x5x8xf32>, tensor<2x5x8xf32>) -> (tensor<2x5x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<3x5x2x8xf32>, %v: tensor<3x5x2x8xf32>) {
  // expected-error @+1 {{expected q and k of the same batch size, got 2 and 3}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<3x5x2x8xf32>, tensor<3x5x2x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x6x2x8xf32>, %v: tensor<2x6x2x8xf32>) {
  // expected-error @+1 {{expected q and k of the same number of tokens (cross-attention is not served), got 5 and 6}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x6x2x8xf32>, tensor<2x6x2x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x9xf32>, %v: tensor<2x5x2x9xf32>) {
  // expected-error @+1 {{expected q and k of the same head size, got 8 and 9}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x2x9xf32>, tensor<2x5x2x9xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x3x8xf32>, %v: tensor<2x5x3x8xf32>) {
  // expected-error @+1 {{expected a number of query heads that is a multiple of the key heads, got 4 and 3}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x3x8xf32>, tensor<2x5x3x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x0x8xf32>, %v: tensor<2x5x0x8xf32>) {
  // expected-error @+1 {{expected at least one head, got 'tensor<2x5x0x8xf32>'}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x0x8xf32>, tensor<2x5x0x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x0xf32>, %k: tensor<2x5x2x0xf32>, %v: tensor<2x5x2x0xf32>) {
  // expected-error @+1 {{expected at least one channel a head, got 'tensor<2x5x4x0xf32>'}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x0xf32>, tensor<2x5x2x0xf32>, tensor<2x5x2x0xf32>) -> (tensor<2x5x4x0xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xbf16>, %v: tensor<2x5x2x8xbf16>) {
  // expected-error @+1 {{expected q and k of the same element type, got 'f32' and 'bf16'}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xbf16>, tensor<2x5x2x8xbf16>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x4x8xf32>) {
  // expected-error @+1 {{expected v of type 'tensor<2x5x2x8xf32>', got 'tensor<2x5x4x8xf32>'}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>) {
  // expected-error @+1 {{expected a window of 1 or more, or 0 for none, got -1}}
  %out, %lse = jpmhc.attention %q, %k, %v {window = -1 : i64} : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %ids: tensor<2x4xi32>) {
  // expected-error @+1 {{expected segment ids of shape [2, 5], got [2, 4]}}
  %out, %lse = jpmhc.attention %q, %k, %v segments(%ids) : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x4xi32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %ids: tensor<2x5xf32>) {
  // expected-error @+1 {{operand #3 must be 2D tensor of 32-bit signless integer or 64-bit signless integer values}}
  %out, %lse = jpmhc.attention %q, %k, %v segments(%ids) : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x4x5xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x5x4x8xf32>', 'tensor<2x4x5xf32>' are incompatible with return type(s) of operation 'tensor<2x5x4x8xf32>', 'tensor<2x5x4xf32>'}}
  // expected-error @+1 {{failed to infer returned types}}
  %out, %lse = jpmhc.attention %q, %k, %v : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x5x4xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %out: tensor<2x5x2x8xf32>, %lse: tensor<2x4x5xf32>,
        %dout: tensor<2x5x4x8xf32>) {
  // expected-error @+1 {{expected out of type 'tensor<2x5x4x8xf32>', got 'tensor<2x5x2x8xf32>'}}
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x4x5xf32>,
       tensor<2x5x4x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %out: tensor<2x5x4x8xf32>, %lse: tensor<2x5x4xf32>,
        %dout: tensor<2x5x4x8xf32>) {
  // expected-error @+1 {{expected lse of type 'tensor<2x4x5xf32>', got 'tensor<2x5x4xf32>'}}
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4xf32>,
       tensor<2x5x4x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %out: tensor<2x5x4x8xf32>, %lse: tensor<2x4x5xf32>,
        %dout: tensor<2x5x4x8xbf16>) {
  // expected-error @+1 {{expected dout of type 'tensor<2x5x4x8xf32>', got 'tensor<2x5x4x8xbf16>'}}
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>,
       tensor<2x5x4x8xbf16>) -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %out: tensor<2x5x4x8xf32>, %lse: tensor<2x4x5xf32>,
        %dout: tensor<2x5x4x8xf32>) {
  // expected-error @+1 {{expected a window of 1 or more, or 0 for none, got -3}}
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout {window = -3 : i64}
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>,
       tensor<2x5x4x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>)
  return
}

// -----

func.func @f(%q: tensor<2x5x4x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>, %out: tensor<2x5x4x8xf32>, %lse: tensor<2x4x5xf32>,
        %dout: tensor<2x5x4x8xf32>) {
  // expected-error @+2 {{inferred type(s) 'tensor<2x5x4x8xf32>', 'tensor<2x5x2x8xf32>', 'tensor<2x5x2x8xf32>' are incompatible with return type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout
    : (tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x4x8xf32>, tensor<2x4x5xf32>,
       tensor<2x5x4x8xf32>) -> (tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>)
  return
}
