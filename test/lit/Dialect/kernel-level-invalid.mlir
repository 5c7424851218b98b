// RUN: jpmhc-opt %s --split-input-file --verify-diagnostics

func.func @launch(%i: index) {
  // expected-error@+1 {{expected the name of a kernel, got @nothing}}
  jpmhc.launch @nothing rows(%i, %i) grain 1(%i) : index
  return
}

// -----

func.func private @kernel(index, index, memref<4xf32>)
func.func @launch(%i: index, %x: memref<4xf32>) {
  // expected-error@+1 {{expected 3 arguments including the bounds, got 4}}
  jpmhc.launch @kernel rows(%i, %i) grain 1(%x, %x) : memref<4xf32>, memref<4xf32>
  return
}

// -----

func.func private @kernel(index, index, memref<4xf32>)
func.func @launch(%i: index, %x: memref<5xf32>) {
  // expected-error@+1 {{expected an argument of type 'memref<4xf32>', got 'memref<5xf32>'}}
  jpmhc.launch @kernel rows(%i, %i) grain 1(%x) : memref<5xf32>
  return
}

// -----

func.func private @kernel(index, index, memref<4xf32>)
func.func @launch(%i: index, %x: memref<4xf32>) {
  // expected-error@+1 {{expected a grain of at least 1, got 0}}
  jpmhc.launch @kernel rows(%i, %i) grain 0(%x) : memref<4xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<4xf32>, %c: memref<8x16xf32>) {
  // expected-error@+1 {{expected three operands of rank 2 or of rank 3, got ranks 2, 1 and 2}}
  jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<4xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<4x16xbf16>, %c: memref<8x16xf32>) {
  // expected-error@+1 {{expected factors of one element type, got 'f32' and 'bf16'}}
  jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<4x16xbf16>, memref<8x16xf32>
  return
}

// -----

func.func @gemm(%a: memref<2x8x4xf32>, %b: memref<3x4x16xf32>, %c: memref<2x8x16xf32>) {
  // expected-error@+1 {{expected equal batches, got 2, 3 and 2}}
  jpmhc.gemm %a, %b, %c : memref<2x8x4xf32>, memref<3x4x16xf32>, memref<2x8x16xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<5x16xf32>, %c: memref<8x16xf32>) {
  // expected-error@+1 {{expected equal inner sizes, got 4 and 5}}
  jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<5x16xf32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<4x16xf32>, %c: memref<8x15xf32>) {
  // expected-error@+1 {{expected a result of 8x16, got 8x15}}
  jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<4x16xf32>, memref<8x15xf32>
  return
}

// -----

func.func private @kernel(index, index, memref<4xf32>)
func.func @launch(%i: index, %x: memref<4xf32>) {
  // expected-error@+1 {{expected jpmhc.written for 1 arguments, got 2}}
  jpmhc.launch @kernel rows(%i, %i) grain 1(%x) {jpmhc.written = array<i1: true, false>} : memref<4xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xi32>, %b: memref<4x16xi32>, %c: memref<8x16xf32>) {
  // expected-error@+1 {{expected A of f32, bf16, f16 or f64, got 'i32'}}
  jpmhc.gemm %a, %b, %c : memref<8x4xi32>, memref<4x16xi32>, memref<8x16xf32>
  return
}

// -----

func.func @gemm(%a: memref<8x4xf32>, %b: memref<4x16xf32, strided<[32, 2]>>, %c: memref<8x16xf32>) {
  // expected-error@+1 {{expected B with a contiguous last dimension, got 'memref<4x16xf32, strided<[32, 2]>>'}}
  jpmhc.gemm %a, %b, %c : memref<8x4xf32>, memref<4x16xf32, strided<[32, 2]>>, memref<8x16xf32>
  return
}

// -----

// expected-error@+1 {{expected a known attribute of the jpmhc dialect, got "jpmhc.arena"}}
func.func private @f() attributes {jpmhc.arena = 64 : i64}

// -----

// expected-error@+1 {{expected jpmhc.arena_bytes to be an integer, got "64"}}
func.func private @f() attributes {jpmhc.arena_bytes = "64"}

// -----

// expected-error@+1 {{expected jpmhc.inplace to be a unit attribute, got true}}
func.func private @f(tensor<4xf32> {jpmhc.inplace = true})
