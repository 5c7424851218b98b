// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Philox.h"

using namespace mlir;
using namespace jpmhc;

/// High and low half of the product of an i32 and a constant.
static std::pair<Val, Val> multiply(Val a, uint32_t factor) {
  KernelBuilder &k = a.builder();
  Value constant = arith::ConstantOp::create(
      k.builder, k.loc,
      k.builder.getI32IntegerAttr(static_cast<int32_t>(factor)));
  auto product = arith::MulUIExtendedOp::create(k.builder, k.loc, a, constant);
  return {k.wrap(product.getHigh()), k.wrap(product.getLow())};
}

RandomWords jpmhc::philox(RandomWords c, std::array<Val, 2> key) {
  constexpr int rounds = 10;
  for (int round = 0; round < rounds; ++round) {
    auto [high0, low0] = multiply(c[0], 0xD2511F53);
    auto [high1, low1] = multiply(c[2], 0xCD9E8D57);
    c = {high1 ^ c[1] ^ key[0], low1, high0 ^ c[3] ^ key[1], low0};
    key = {key[0] + double(0x9E3779B9), key[1] + double(0xBB67AE85)};
  }
  return c;
}
