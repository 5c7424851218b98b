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

/// Mean and 1 / sqrt(var + eps) of one row; the variance is that of the row
/// less its mean, so that an offset does not cost digits.
static std::pair<Val, Val> layerStatistics(KernelBuilder &k, Value x, Val row,
                                           Val width, double eps) {
  Val count = k.toFloat(width);
  Val mean = k.sum(width, [&](Val c) { return k.load(x, {row, c}); }) / count;
  Val square = k.sum(width, [&](Val c) {
    Val v = k.load(x, {row, c}) - mean;
    return v * v;
  });
  return {mean, rsqrt(square / count + eps)};
}

/// out[c] = the sum over the rows of `parts` [partials, D].
static void sumPartials(KernelBuilder &k, Value parts, Value out) {
  k.rows(k.dim(parts, 1), [&](Val c) {
    Val total = k.sumInOrder(k.f32(0), k.dim(parts, 0), [&](Val part) {
      return k.load(parts, {part, c});
    });
    k.store(total, out, {c});
  });
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
  Value dgainParts =
      gain ? k.temporary(
                 {kPartials, cast<MemRefType>(x.getType()).getDimSize(1)})
           : Value();
  auto scaled = [&](Val row, Val c) {
    Val g = k.load(dy, {row, c});
    return gain ? g * k.load(gain, {c}) : g;
  };
  k.rowChunks(n, kPartials, [&](Val chunk, Val lower, Val upper) {
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
    sumPartials(k, dgainParts, outputs[1]);
}

void LayerNormOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                             ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value x = k.asRows(in.getX()), y = k.asRows(outputs[0]), gain = in.getGain(),
        shift = in.getShift();
  Val width = k.dim(x, 1);
  double eps = getEps().convertToDouble();
  k.rows(k.dim(x, 0), [&](Val row) {
    auto [mean, r] = layerStatistics(k, x, row, width, eps);
    k.columns(width, [&, mean = mean, r = r](Val c) {
      Val v = (k.load(x, {row, c}) - mean) * r;
      v = gain ? v * k.load(gain, {c}) : v;
      k.store(shift ? v + k.load(shift, {c}) : v, y, {row, c});
    });
  });
}

void LayerNormVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value x = k.asRows(in.getX()), dy = k.asRows(in.getDy()),
        dx = k.asRows(outputs[0]), gain = in.getGain();
  Value dgain = getDgain() ? outputs[1] : Value();
  Value dshift = getDshift() ? outputs.back() : Value();
  Val n = k.dim(x, 0), width = k.dim(x, 1);
  double eps = getEps().convertToDouble();
  auto parts = [&](Value wanted) {
    return wanted ? k.temporary({kPartials,
                                 cast<MemRefType>(x.getType()).getDimSize(1)})
                  : Value();
  };
  Value gainParts = parts(dgain), shiftParts = parts(dshift);
  k.rowChunks(n, kPartials, [&](Val chunk, Val lower, Val upper) {
    for (Value sums : {gainParts, shiftParts})
      if (sums)
        k.columns(width, [&](Val c) { k.store(k.f32(0), sums, {chunk, c}); });
    k.loop(lower, upper, [&](Val row) {
      auto [mean, r] = layerStatistics(k, x, row, width, eps);
      auto normal = [&, mean = mean, r = r](Val c) {
        return (k.load(x, {row, c}) - mean) * r;
      };
      auto scaled = [&](Val c) {
        Val g = k.load(dy, {row, c});
        return gain ? g * k.load(gain, {c}) : g;
      };
      SmallVector<Val> sums =
          k.reduceColumns(width, {Reduction::sum, Reduction::sum}, [&](Val c) {
            Val g = scaled(c);
            return SmallVector<Val>{g, g * normal(c)};
          });
      Val count = k.toFloat(width), meanG = sums[0] / count,
          meanGX = sums[1] / count;
      k.columns(width, [&, r = r](Val c) {
        Val v = normal(c), d = k.load(dy, {row, c});
        if (dgain)
          k.accumulate(d * v, gainParts, {chunk, c});
        if (dshift)
          k.accumulate(d, shiftParts, {chunk, c});
        k.store((scaled(c) - meanG - v * meanGX) * r, dx, {row, c});
      });
    });
  });
  if (dgain)
    sumPartials(k, gainParts, dgain);
  if (dshift)
    sumPartials(k, shiftParts, dshift);
}
