// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Philox.h"
#include "SpecialFunctions.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace jpmhc;

namespace {
/// The numbers that every random op is keyed by, i64.
struct RandomKey {
  Value seed, step, site;
};
} // namespace

/// Calls `body(words, first, count)` for each four elements [first, first + 4)
/// of `n`; fewer, `count`, at the end.
static void
forEachFour(KernelBuilder &k, int64_t n, RandomKey numbers,
            function_ref<void(const RandomWords &, Val, int64_t)> body) {
  IntegerType word = k.builder.getI32Type();
  auto low = [&](Value v) { return k.toInteger(k.wrap(v), word); };
  auto high = [&](Value v) { return k.toInteger(k.wrap(v) >> 32, word); };
  auto draw = [&](Val block) {
    return philox({k.toInteger(block, word), low(numbers.site),
                   low(numbers.step), high(numbers.step)},
                  {low(numbers.seed), high(numbers.seed)});
  };
  constexpr int64_t perRow = 512;
  k.blocks(k.index(n / 4), perRow, [&](Val, Val first, Val count) {
    k.columns(count, [&](Val c) {
      Val block = first + c;
      body(draw(block), block * 4.0, 4);
    });
  });
  if (n % 4 != 0)
    k.rows(k.index(1),
           [&](Val) { body(draw(k.index(n / 4)), k.index(n / 4 * 4), n % 4); });
}

static int64_t elementsOf(Value memref) {
  return cast<MemRefType>(memref.getType()).getNumElements();
}

/// Stores `distribution(words)`.
static void fill(KernelBuilder &k, RandomKey numbers, Value out,
                 function_ref<RandomWords(const RandomWords &)> distribution) {
  Value flat = k.asRows(out, 0);
  forEachFour(k, elementsOf(out), numbers,
              [&](const RandomWords &words, Val first, int64_t count) {
                RandomWords values = distribution(words);
                for (int64_t i = 0; i < count; ++i)
                  k.store(values[i], flat, {first + double(i)});
              });
}

/// In [0, 1): the upper 24 bits.
static Val uniform(Val word) {
  return word.builder().toFloat(word >> 8) * 0x1p-24;
}

/// Two normal numbers (Box and Muller).
static std::pair<Val, Val> normals(Val word0, Val word1) {
  KernelBuilder &k = word0.builder();
  Val u = k.toFloat((word0 >> 8) + 1.0) * 0x1p-24; // (0, 1]
  Val radius = sqrt(max(-2.0 * log(u), k.f32(0)));
  constexpr double quarter = llvm::numbers::pi / 2;
  Val rest = k.toFloat((word1 * 4.0) >> 8) * (quarter * 0x1p-24) - quarter / 2;
  auto [sine, cosine] = sinCos(word1 >> 30, rest);
  return {radius * cosine, radius * sine};
}

void RandomBitsOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  fill(k, {inputs[0], inputs[1], inputs[2]}, outputs[0],
       [](const RandomWords &words) { return words; });
}

void RandomUniformOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                 ValueRange outputs) {
  fill(k, {inputs[0], inputs[1], inputs[2]}, outputs[0],
       [](const RandomWords &w) -> RandomWords {
         return {uniform(w[0]), uniform(w[1]), uniform(w[2]), uniform(w[3])};
       });
}

void RandomNormalOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  fill(k, {inputs[0], inputs[1], inputs[2]}, outputs[0],
       [](const RandomWords &w) -> RandomWords {
         auto [a, b] = normals(w[0], w[1]);
         auto [c, d] = normals(w[2], w[3]);
         return {a, b, c, d};
       });
}

void DropoutOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                           ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value x = k.asRows(in.getX(), 0), y = k.asRows(outputs[0], 0);
  double rate = getRate().convertToDouble();
  forEachFour(
      k, elementsOf(outputs[0]), {in.getSeed(), in.getStep(), in.getSite()},
      [&](const RandomWords &words, Val first, int64_t count) {
        for (int64_t i = 0; i < count; ++i) {
          Val at = first + double(i);
          Val kept = k.load(x, {at}) * (1 / (1 - rate));
          k.store(select(uniform(words[i]) >= k.f32(rate), kept, k.f32(0)), y,
                  {at});
        }
      });
}
