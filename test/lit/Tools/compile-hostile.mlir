// What is wrong with the files is said in one line that names the file.
// RUN: rm -rf %t && mkdir %t && touch %t/file && echo 'module {}' > %t/empty.mlir
// RUN: printf 'a\0b' > %t/binary.mlir
// RUN: seq 600 | sed 's/.*/module {/' > %t/deep.mlir
// RUN: not jpmhc-compile %s --target=cpu -o %t/file 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not jpmhc-compile %s --target=ptx -o %t/file 2>&1 | FileCheck %s --check-prefix=FILE
// RUN: not jpmhc-compile %t/empty.mlir --target=cpu -o %t/out 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not jpmhc-compile %t/empty.mlir --target=ptx -o %t/out 2>&1 | FileCheck %s --check-prefix=EMPTY
// RUN: not jpmhc-compile %t/none.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not jpmhc-compile %t/binary.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=BINARY
// RUN: not jpmhc-compile %t/deep.mlir -o %t/out 2>&1 | FileCheck %s --check-prefix=DEEP
// RUN: not ls %t/out

// FILE: jpmhc-compile: expected a folder {{.*}}file, got: Not a directory
// EMPTY: jpmhc-compile: expected a module with a public function, got none
// NONE: jpmhc-compile: cannot open input file '{{.*}}none.mlir': No such file or directory
// BINARY: jpmhc-compile: expected text or bytecode of MLIR in {{.*}}binary.mlir, got other bytes
// DEEP: jpmhc-compile: {{.*}}deep.mlir:513: expected at most 512 nested brackets, got more
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = arith.addf %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}
