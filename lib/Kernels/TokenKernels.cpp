// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecialFunctions.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace jpmhc;

static int64_t sizeOf(Value memref, unsigned dimension) {
  return cast<MemRefType>(memref.getType()).getDimSize(dimension);
}

// ---- rope

/// base^i in f64 for an index 0 <= i < n, as the product of base^(2^b) over the
/// bits of i.
static Val power(KernelBuilder &k, double base, Val i, int64_t n) {
  FloatType f64 = k.builder.getF64Type();
  auto constant = [&](double value) {
    return k.wrap(arith::ConstantOp::create(k.builder, k.loc,
                                            FloatAttr::get(f64, value)));
  };
  Val result = constant(1);
  for (int64_t bit = 0; (int64_t(1) << bit) < n; ++bit) {
    Val isSet = equal((i >> bit) % k.index(2), k.index(1));
    result = result * select(isSet, constant(base), constant(1));
    base *= base;
  }
  return result;
}

void RopeOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                        ValueRange outputs) {
  Value x = k.asRows(inputs[0], 2), y = k.asRows(outputs[0], 2);
  int64_t positions = sizeOf(inputs[0], 1), half = sizeOf(inputs[0], 3) / 2;
  Val heads = k.dim(x, 1), halfSize = k.index(half);
  // A table of cosines and sines serves all batches and heads.
  Value cosines = k.temporary({positions, half}),
        sines = k.temporary({positions, half});
  double ratio =
      half ? std::pow(getTheta().convertToDouble(), -1.0 / half) : 1.0;
  k.rows(k.index(positions), [&](Val t) {
    k.columns(halfSize, [&](Val i) {
      Val angle =
          k.toFloat(t, k.builder.getF64Type()) * power(k, ratio, i, half);
      auto [sine, cosine] = sinCos(angle);
      k.store(cosine, cosines, {t, i});
      k.store(getInverse() ? -sine : sine, sines, {t, i});
    });
  });
  k.rows(k.dim(x, 0), [&](Val row) {
    Val t = row % k.index(positions);
    k.loop(k.index(0), heads, [&](Val head) {
      k.columns(halfSize, [&](Val i) {
        Val j = i + double(half);
        Val a = k.load(x, {row, head, i}), b = k.load(x, {row, head, j}),
            c = k.load(cosines, {t, i}), s = k.load(sines, {t, i});
        k.store(a * c - b * s, y, {row, head, i});
        k.store(b * c + a * s, y, {row, head, j});
      });
    });
  });
}

// ---- embedding

void EmbeddingOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                             ValueRange outputs) {
  Value table = inputs[0], ids = k.asRows(inputs[1], 0),
        y = k.asRows(outputs[0]);
  int64_t vocabulary = sizeOf(table, 0);
  Val nan = k.f32(std::nan(""));
  k.rows(k.dim(y, 0), [&](Val row) {
    Val id = k.toIndex(k.load(ids, {row}));
    Val known = id < k.index(vocabulary);
    Val safe = select(known, id, k.index(0));
    k.columns(k.dim(y, 1), [&](Val c) {
      Val value = vocabulary == 0 ? nan : k.load(table, {safe, c});
      k.store(select(known, value, nan), y, {row, c});
    });
  });
}

void EmbeddingVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  Value dy = k.asRows(inputs[0]), ids = k.asRows(inputs[1], 0),
        out = outputs[0];
  bool isF32 = cast<MemRefType>(out.getType()).getElementType().isF32();
  int64_t vocabulary = sizeOf(out, 0), width = sizeOf(out, 1);
  Value sums = isF32 ? out : k.temporary({vocabulary, width});
  // A row of the kernel owns some columns of the table and adds up all tokens
  // in order: no two rows touch the same element.
  constexpr int64_t columnsPerRow = 64;
  k.blocks(k.index(width), columnsPerRow, [&](Val, Val first, Val count) {
    k.loop(k.index(0), k.index(vocabulary), [&](Val v) {
      k.columns(count, [&](Val c) { k.store(k.f32(0), sums, {v, first + c}); });
    });
    k.loop(k.index(0), k.dim(dy, 0), [&](Val row) {
      Val id = k.toIndex(k.load(ids, {row}));
      k.ifThen(id < k.index(vocabulary), [&] {
        k.columns(count, [&](Val c) {
          k.accumulate(k.load(dy, {row, first + c}), sums, {id, first + c});
        });
      });
    });
  });
  if (isF32)
    return;
  k.rows(k.index(vocabulary), [&](Val v) {
    k.columns(k.index(width),
              [&](Val c) { k.store(k.load(sums, {v, c}), out, {v, c}); });
  });
}
