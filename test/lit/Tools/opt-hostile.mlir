// What the parser would end the process on is said in one line.
// RUN: rm -rf %t && mkdir %t
// RUN: seq 600 | sed 's/.*/module {/' > %t/regions.mlir
// RUN: seq 600 | sed 's/.*/tuple</' > %t/angles.mlir
// RUN: seq 2000 | sed 's/.*/-d0+/; 1s/^/#m = affine_map<(d0) -> (/' > %t/sum.mlir
// RUN: seq 2000 | sed 's/.*/func.func private @f&()/' > %t/long.mlir
// RUN: printf 'a\0b' > %t/binary.mlir
// RUN: not jpmhc-opt %t/regions.mlir 2>&1 | FileCheck %s --check-prefix=REGIONS
// RUN: not jpmhc-opt %t/angles.mlir 2>&1 | FileCheck %s --check-prefix=ANGLES
// RUN: not jpmhc-opt %t/sum.mlir 2>&1 | FileCheck %s --check-prefix=SUM
// RUN: not jpmhc-opt %t/none.mlir 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not jpmhc-opt %t/binary.mlir 2>&1 | FileCheck %s --check-prefix=BINARY
// RUN: not jpmhc-opt %s -o %t/out 2>&1 | FileCheck %s --check-prefix=LIST
// RUN: not ls %t/out
// RUN: jpmhc-opt %t/long.mlir -o /dev/null
// RUN: jpmhc-opt --show-dialects | FileCheck %s --check-prefix=DIALECTS

// REGIONS: error: {{.*}}regions.mlir:513: expected at most 512 nested brackets, got more
// ANGLES: error: {{.*}}angles.mlir:{{[0-9]+}}: expected at most 512 nested brackets, got more
// SUM: error: {{.*}}sum.mlir:{{[0-9]+}}: expected a separator after at most 4096 characters, got more
// NONE: error: cannot open input file '{{.*}}none.mlir': No such file or directory
// BINARY: error: expected text or bytecode of MLIR in {{.*}}binary.mlir, got other bytes
// LIST: error: {{.*}}opt-hostile.mlir:[[@LINE+7]]: expected a list of integers such as [1, 0]
// DIALECTS: jpmhc
func.func @f(%x: tensor<8x4xf32>) -> tensor<4x8xf32> {
  %e = tensor.empty() : tensor<4x8xf32>
  %good = linalg.transpose ins(%x : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>) permutation = [1, 0]
  // permutation = x
  %bad = linalg.transpose ins(%x : tensor<8x4xf32>) outs(%e : tensor<4x8xf32>)
    permutation = x
  return %bad : tensor<4x8xf32>
}
