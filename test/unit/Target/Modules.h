// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Modules that are compiled for the CPU and for the emulator.
#ifndef JPMHC_TEST_UNIT_TARGET_MODULES_H
#define JPMHC_TEST_UNIT_TARGET_MODULES_H

#include "llvm/ADT/StringExtras.h"
#include <string>

namespace jpmhc::test {

/// f(x [5, d], g [d], w [3, d]) -> [5, 3]: a norm of rows fused with
/// element-wise work, then a product by a library.
inline std::string normAddProduct(int d) {
  std::string text = R"mlir(
    func.func @f(%x: tensor<5xDxf32>, %g: tensor<Dxf32>, %w: tensor<3xDxf32>) -> tensor<5x3xf32> {
      %y = jpmhc.rms_norm %x gain(%g) : (tensor<5xDxf32>, tensor<Dxf32>) -> tensor<5xDxf32>
      %z = arith.addf %y, %x : tensor<5xDxf32>
      %e = tensor.empty() : tensor<5x3xf32>
      %c = arith.constant 0.0 : f32
      %i = linalg.fill ins(%c : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
      %r = linalg.contract indexing_maps = [affine_map<(m,n,k)->(m,k)>, affine_map<(m,n,k)->(n,k)>,
                                            affine_map<(m,n,k)->(m,n)>]
        ins(%z, %w : tensor<5xDxf32>, tensor<3xDxf32>) outs(%i : tensor<5x3xf32>) -> tensor<5x3xf32>
      return %r : tensor<5x3xf32>
    })mlir";
  for (size_t at; (at = text.find('D')) != std::string::npos;)
    text.replace(at, 1, std::to_string(d));
  return text;
}

/// f(x [40, 6]) -> sums along rows [40] and along columns [6].
inline constexpr const char *kReductions = R"mlir(
  #row = affine_map<(t, c) -> (t)>
  #col = affine_map<(t, c) -> (c)>
  #all = affine_map<(t, c) -> (t, c)>
  func.func @f(%x: tensor<40x6xf32>) -> (tensor<40xf32>, tensor<6xf32>) {
    %zero = arith.constant 0.0 : f32
    %er = tensor.empty() : tensor<40xf32>
    %ir = linalg.fill ins(%zero : f32) outs(%er : tensor<40xf32>) -> tensor<40xf32>
    %rows = linalg.generic {indexing_maps = [#all, #row], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<40x6xf32>) outs(%ir : tensor<40xf32>) {
      ^bb0(%a: f32, %acc: f32):
        %s = arith.addf %acc, %a : f32
        linalg.yield %s : f32
    } -> tensor<40xf32>
    %ec = tensor.empty() : tensor<6xf32>
    %ic = linalg.fill ins(%zero : f32) outs(%ec : tensor<6xf32>) -> tensor<6xf32>
    %cols = linalg.generic {indexing_maps = [#all, #col], iterator_types = ["reduction", "parallel"]}
      ins(%x : tensor<40x6xf32>) outs(%ic : tensor<6xf32>) {
      ^bb0(%a: f32, %acc: f32):
        %s = arith.addf %acc, %a : f32
        linalg.yield %s : f32
    } -> tensor<6xf32>
    return %rows, %cols : tensor<40xf32>, tensor<6xf32>
  })mlir";

} // namespace jpmhc::test

#endif // JPMHC_TEST_UNIT_TARGET_MODULES_H
