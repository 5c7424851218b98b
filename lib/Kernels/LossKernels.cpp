// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cross-entropies. With weights w_c > 0 of the classes (softmax: exp(x_c −
// max), stablemax: s(x_c)) and `rest` the sum of all but the target's, the loss
// of a row is log1p(rest / w_t) and the target's gradient −rest/(rest + w_t):
// neither cancels where the target is nearly certain.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace jpmhc;

namespace {
/// The target of one row.
struct Target {
  Val position; ///< the class; any number where it is none
  Val isClass;
  Val isIgnored;
  Val logit; ///< NaN where the target is no class
};
} // namespace

static Val notANumber(KernelBuilder &k) { return k.f32(std::nan("")); }

static Target targetOf(KernelBuilder &k, Value logits, Value target, Val row,
                       int64_t ignoreIndex) {
  int64_t classes = cast<MemRefType>(logits.getType()).getDimSize(1);
  Val position = k.toIndex(k.load(target, {row}));
  Val isClass = position < k.index(classes);
  Val safe = select(isClass, position, k.index(0));
  Val logit = classes == 0 ? notANumber(k) : k.load(logits, {row, safe});
  return {position, isClass, equal(position, k.index(ignoreIndex)),
          select(isClass, logit, notANumber(k))};
}

/// Sum over a row of `weight(logit)` of all classes but the target.
static Val restOf(KernelBuilder &k, Value logits, Val row, Val target,
                  function_ref<Val(Val)> weight) {
  return k.sum(k.dim(logits, 1), [&](Val c) {
    return select(equal(c, target), k.f32(0), weight(k.load(logits, {row, c})));
  });
}

/// Mean of `rowLoss` over the rows that are not ignored; 0 without any.
static void emitMeanLoss(KernelBuilder &k, Value logits, Value target,
                         Value loss, int64_t ignoreIndex,
                         function_ref<Val(Val row, const Target &)> rowLoss) {
  Value losses =
      k.temporary({cast<MemRefType>(logits.getType()).getDimSize(0)});
  Val n = k.dim(logits, 0);
  k.rows(n, [&](Val row) {
    Target t = targetOf(k, logits, target, row, ignoreIndex);
    k.store(rowLoss(row, t), losses, {row});
  });
  k.rows(k.index(1), [&](Val) {
    SmallVector<Val> sums =
        k.reduceColumns(n, {Reduction::sum, Reduction::sum}, [&](Val row) {
          Val ignored =
              equal(k.toIndex(k.load(target, {row})), k.index(ignoreIndex));
          return SmallVector<Val>{
              select(ignored, k.f32(0), k.load(losses, {row})),
              select(ignored, k.f32(0), k.f32(1))};
        });
    k.store(select(sums[1] > k.f32(0), sums[0] / sums[1], k.f32(0)), loss, {});
  });
}

/// Stores `gradient(logit)` off the target, `onTarget` on it, both times
/// dloss/count; `row` prepares them for a row.
static void emitGradient(
    KernelBuilder &k, Value logits, Value target, Value dloss, Value dlogits,
    int64_t ignoreIndex,
    function_ref<std::pair<Val, std::function<Val(Val)>>(Val, const Target &)>
        prepare) {
  Val n = k.dim(logits, 0);
  Value scale = k.temporary({1});
  k.rows(k.index(1), [&](Val row) {
    Val count = k.sum(n, [&](Val i) {
      return select(equal(k.toIndex(k.load(target, {i})), k.index(ignoreIndex)),
                    k.f32(0), k.f32(1));
    });
    k.store(k.load(dloss, {}) / max(count, k.f32(1)), scale, {row});
  });
  k.rows(n, [&](Val row) {
    Target t = targetOf(k, logits, target, row, ignoreIndex);
    auto [onTarget, offTarget] = prepare(row, t);
    Val factor = k.load(scale, {k.index(0)});
    k.columns(k.dim(logits, 1), [&, on = onTarget, &off = offTarget](Val c) {
      Val g = select(equal(c, t.position), on, off(k.load(logits, {row, c})));
      g = select(t.isClass, g * factor, notANumber(k));
      k.store(select(t.isIgnored, k.f32(0), g), dlogits, {row, c});
    });
  });
}

// ---- softmax

namespace {
struct SoftmaxRow {
  Val largest, rest;
  Val weight; ///< of the target
};
} // namespace

static SoftmaxRow softmaxRow(KernelBuilder &k, Value logits, Val row,
                             const Target &t) {
  Val largest = k.maximum(k.dim(logits, 1),
                          [&](Val c) { return k.load(logits, {row, c}); });
  Val rest = restOf(k, logits, row, t.position,
                    [&](Val x) { return exp(x - largest); });
  return {largest, rest, exp(t.logit - largest)};
}

void SoftmaxCrossEntropyOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                       ValueRange outputs) {
  emitMeanLoss(k, inputs[0], inputs[1], outputs[0], getIgnoreIndex(),
               [&](Val row, const Target &t) {
                 auto [largest, rest, weight] =
                     softmaxRow(k, inputs[0], row, t);
                 // log of the sum of all weights, which is at least 1.
                 Val others = select(equal(t.logit, largest), rest,
                                     rest + (weight - 1.0));
                 return (largest - t.logit) + log1p(others);
               });
}

void SoftmaxCrossEntropyVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                          ValueRange outputs) {
  emitGradient(k, inputs[0], inputs[1], inputs[2], outputs[0], getIgnoreIndex(),
               [&](Val row, const Target &t) {
                 auto [largest, rest, weight] =
                     softmaxRow(k, inputs[0], row, t);
                 Val inverse = 1.0 / (rest + weight);
                 return std::pair<Val, std::function<Val(Val)>>(
                     -rest * inverse, [=, largest = largest](Val x) {
                       return exp(x - largest) * inverse;
                     });
               });
}

// ---- stablemax

/// s(x) = x + 1 (x >= 0), 1/(1 − x) (x < 0); s' = s / (1 + |x|).
static Val stablemax(Val x) {
  Val a = 1.0 + abs(x);
  return select(x < x.builder().f32(0), 1.0 / a, a);
}

/// An infinite logit has no probability.
static Val nanIfInfinite(Val weight, Val value) {
  KernelBuilder &k = weight.builder();
  Val infinity = k.f32(std::numeric_limits<double>::infinity());
  return select(equal(weight, infinity), notANumber(k), value);
}

void StablemaxCrossEntropyOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                         ValueRange outputs) {
  emitMeanLoss(k, inputs[0], inputs[1], outputs[0], getIgnoreIndex(),
               [&](Val row, const Target &t) {
                 Val rest = restOf(k, inputs[0], row, t.position, stablemax);
                 Val weight = stablemax(t.logit);
                 return nanIfInfinite(weight, log1p(rest / weight));
               });
}

void StablemaxCrossEntropyVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                            ValueRange outputs) {
  emitGradient(k, inputs[0], inputs[1], inputs[2], outputs[0], getIgnoreIndex(),
               [&](Val row, const Target &t) {
                 Val rest = restOf(k, inputs[0], row, t.position, stablemax);
                 Val total = rest + stablemax(t.logit);
                 Val inverse = nanIfInfinite(total, 1.0 / total);
                 return std::pair<Val, std::function<Val(Val)>>(
                     -rest * inverse / (1.0 + abs(t.logit)), [=](Val x) {
                       return stablemax(x) * inverse / (1.0 + abs(x));
                     });
               });
}
