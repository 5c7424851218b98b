// RUN: jpmhc-opt %s --verify-roundtrip | FileCheck %s

// CHECK-LABEL: @defaults
func.func @defaults(%raw: tensor<8x16xf32>) -> tensor<8x4x4xf32> {
  // CHECK: jpmhc.project %{{.*}} <"birkhoff"> streams 4 : tensor<8x16xf32> -> tensor<8x4x4xf32>
  %h = jpmhc.project %raw <"birkhoff"> streams 4 : tensor<8x16xf32> -> tensor<8x4x4xf32>
  return %h : tensor<8x4x4xf32>
}

// CHECK-LABEL: @every_manifold
func.func @every_manifold(%raw: tensor<?x16xbf16>, %v: tensor<?x8xbf16>, %z: tensor<?x6xbf16>, %e: tensor<?x0xbf16>) {
  // CHECK: <"birkhoff", {rounds = 5 : i64}>
  %0 = jpmhc.project %raw <"birkhoff", {rounds = 5}> streams 4 : tensor<?x16xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"stiefel", {cayley_alpha = 2.000000e-01 : f64, steps = 3 : i64}>
  %1 = jpmhc.project %raw <"stiefel", {cayley_alpha = 0.2, steps = 3}> streams 4 : tensor<?x16xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"stiefel", {cayley_alpha = 1 : i64, exact = true}>
  %2 = jpmhc.project %raw <"stiefel", {cayley_alpha = 1, exact = true}> streams 4 : tensor<?x16xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"grassmann">
  %3 = jpmhc.project %v <"grassmann"> streams 4 : tensor<?x8xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"grassmann", {rank = 1 : i64}> streams 8
  %4 = jpmhc.project %v <"grassmann", {rank = 1}> streams 8 : tensor<?x8xbf16> -> tensor<?x8x8xbf16>
  // CHECK: <"permutation">
  %5 = jpmhc.project %z <"permutation"> streams 4 : tensor<?x6xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"permutation", {basis = "all"}> streams 3
  %6 = jpmhc.project %z <"permutation", {basis = "all"}> streams 3 : tensor<?x6xbf16> -> tensor<?x3x3xbf16>
  // CHECK: <"permutation", {count = 8 : i64}>
  %7 = jpmhc.project %v <"permutation", {count = 8}> streams 4 : tensor<?x8xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"free">
  %8 = jpmhc.project %raw <"free"> streams 4 : tensor<?x16xbf16> -> tensor<?x4x4xbf16>
  // CHECK: <"identity"> streams 7
  %9 = jpmhc.project %e <"identity"> streams 7 : tensor<?x0xbf16> -> tensor<?x7x7xbf16>
  return
}

// CHECK-LABEL: @basis
func.func @basis(%z: tensor<8x?xf16>, %dh: tensor<8x2x2xf16>) -> tensor<8x?xf16> {
  // CHECK: jpmhc.project_vjp %{{.*}}, %{{.*}} <"permutation", {basis = {{\[\[}}1, 0], [0, 1]]}> streams 2
  // CHECK-SAME: : tensor<8x?xf16>, tensor<8x2x2xf16> -> tensor<8x?xf16>
  %dz = jpmhc.project_vjp %z, %dh <"permutation", {basis = [[1, 0], [0, 1]]}> streams 2
    : tensor<8x?xf16>, tensor<8x2x2xf16> -> tensor<8x?xf16>
  return %dz : tensor<8x?xf16>
}
