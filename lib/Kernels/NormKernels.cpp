// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace jpmhc;

/// 1 / sqrt(mean(x²) + eps) of one row.
static Val inverseRms(KernelBuilder &k, Value x, Val row, Val width,
                      double eps) {
  Val square = k.sum(width, [&](Val c) {
    Val v = k.load(x, {row, c});
    return v * v;
  });
  return rsqrt(square / k.toFloat(width) + eps);
}

void RMSNormOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                           ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value x = k.asRows(in.getX()), y = k.asRows(outputs[0]), gain = in.getGain();
  Val width = k.dim(x, 1);
  double eps = getEps().convertToDouble();
  k.rows(k.dim(x, 0), [&](Val row) {
    Val r = inverseRms(k, x, row, width, eps);
    k.columns(width, [&](Val c) {
      Val v = k.load(x, {row, c}) * r;
      k.store(gain ? v * k.load(gain, {c}) : v, y, {row, c});
    });
  });
}

void RMSNormVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value x = k.asRows(in.getX()), dy = k.asRows(in.getDy()),
        dx = k.asRows(outputs[0]), gain = in.getGain();
  Val n = k.dim(x, 0), width = k.dim(x, 1);
  double eps = getEps().convertToDouble();
  int64_t partials = 16;
  Value dgainParts =
      gain
          ? k.temporary({partials, cast<MemRefType>(x.getType()).getDimSize(1)})
          : Value();
  auto scaled = [&](Val row, Val c) {
    Val g = k.load(dy, {row, c});
    return gain ? g * k.load(gain, {c}) : g;
  };
  k.rowChunks(n, partials, [&](Val chunk, Val lower, Val upper) {
    if (gain)
      k.columns(width,
                [&](Val c) { k.store(k.f32(0), dgainParts, {chunk, c}); });
    k.loop(lower, upper, [&](Val row) {
      Val r = inverseRms(k, x, row, width, eps);
      Val dot = k.sum(
          width, [&](Val c) { return scaled(row, c) * k.load(x, {row, c}); });
      Val shift = dot * r * r / k.toFloat(width);
      k.columns(width, [&](Val c) {
        Val v = k.load(x, {row, c});
        if (gain)
          k.accumulate(k.load(dy, {row, c}) * v * r, dgainParts, {chunk, c});
        k.store((scaled(row, c) - v * shift) * r, dx, {row, c});
      });
    });
  });
  if (gain)
    k.rows(width, [&](Val c) {
      k.store(k.loop(k.index(0), k.index(partials), k.index(1), {k.f32(0)},
                     [&](Val p, ArrayRef<Val> acc) {
                       return SmallVector<Val>{acc[0] +
                                               k.load(dgainParts, {p, c})};
                     })[0],
              outputs[1], {c});
    });
}
