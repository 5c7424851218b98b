// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecialFunctions.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace jpmhc;

/// Elements of a row of an element-wise kernel.
static constexpr int64_t kBlock = 1024;

// ---- steps with two moments

/// 1 − β^t, without cancellation for β near 1.
static Val correction(KernelBuilder &k, double beta, Val step) {
  return beta == 0 ? k.f32(1) : -expm1(step * std::log(beta));
}

namespace {
/// What is the same for all elements of a step.
struct MomentStep {
  Val lr, correction1, correction2;
};
} // namespace

/// p, m and v of one pass: `update(m, v, step)` is what is taken from the
/// decayed p.
template <typename Op>
static void
emitMomentStep(Op op, KernelBuilder &k, ValueRange inputs, ValueRange outputs,
               function_ref<Val(Val m, Val v, const MomentStep &)> update) {
  typename Op::Adaptor in(inputs, op);
  double beta1 = op.getBeta1().convertToDouble(),
         beta2 = op.getBeta2().convertToDouble(),
         decay = op.getWeightDecay().convertToDouble();
  Value g = k.asRows(in.getG(), 0);
  SmallVector<Value> state;
  for (Value buffer : outputs)
    state.push_back(k.asRows(buffer, 0));
  k.blocks(k.dim(g, 0), kBlock, [&](Val, Val first, Val count) {
    Val t = k.toFloat(k.wrap(in.getStep())), lr = k.wrap(in.getLr());
    MomentStep step{lr, correction(k, beta1, t), correction(k, beta2, t)};
    Val keep = 1.0 - lr * decay;
    k.columns(count, [&](Val c) {
      Val i = first + c, gradient = k.load(g, {i});
      Val m = k.load(state[1], {i}) * beta1 + gradient * (1 - beta1);
      Val v = k.load(state[2], {i}) * beta2 + gradient * gradient * (1 - beta2);
      k.store(m, state[1], {i});
      k.store(v, state[2], {i});
      k.store(k.load(state[0], {i}) * keep - update(m, v, step), state[0], {i});
    });
  });
}

void AdamWOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                         ValueRange outputs) {
  double eps = getEps().convertToDouble();
  emitMomentStep(*this, k, inputs, outputs,
                 [&](Val m, Val v, const MomentStep &step) {
                   Val size = sqrt(v / step.correction2) + eps;
                   return step.lr / step.correction1 * (m / size);
                 });
}

void AdamAtan2Op::emitKernel(KernelBuilder &k, ValueRange inputs,
                             ValueRange outputs) {
  bool inside = getBiasCorrection() == BiasCorrection::inside;
  emitMomentStep(
      *this, k, inputs, outputs, [&](Val m, Val v, const MomentStep &step) {
        Val size = sqrt(v) * rsqrt(step.correction2);
        if (inside)
          return step.lr * atan2RightHalf(m / step.correction1, size);
        return step.lr / step.correction1 * atan2RightHalf(m, size);
      });
}

// ---- sign_sgd_rows

/// 1, 0, −1 or NaN.
static Val sign(KernelBuilder &k, Val x) {
  Val zero = k.f32(0);
  return select(x > zero, k.f32(1), select(x < zero, k.f32(-1), x));
}

void SignSGDRowsOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                               ValueRange outputs) {
  Adaptor in(inputs, *this);
  Value table = outputs[0], ids = in.getIds(), grad = in.getGrad();
  Val vocabulary = k.dim(table, 0), n = k.dim(ids, 0), width = k.dim(table, 1);
  double decay = getWeightDecay().convertToDouble();
  Value sums = k.temporary(cast<MemRefType>(grad.getType()).getShape());
  auto idAt = [&](Val i) { return k.toIndex(k.load(ids, {i})); };
  // The first of equal ids adds up the others after it and moves the row.
  k.rows(n, [&](Val row) {
    Val id = idAt(row);
    Val earlier = k.sum(row, [&](Val i) {
      return select(equal(idAt(i), id), k.f32(1), k.f32(0));
    });
    k.ifThen(id < vocabulary && equal(earlier, k.f32(0)), [&] {
      k.columns(width, [&](Val c) { k.store(k.f32(0), sums, {row, c}); });
      k.loop(row, n, [&](Val i) {
        k.ifThen(equal(idAt(i), id), [&] {
          k.columns(width, [&](Val c) {
            k.accumulate(k.load(grad, {i, c}), sums, {row, c});
          });
        });
      });
      k.columns(width, [&](Val c) {
        Val lr = k.wrap(in.getLr()), p = k.load(table, {id, c});
        k.store(p * (1.0 - lr * decay) - lr * sign(k, k.load(sums, {row, c})),
                table, {id, c});
      });
    });
  });
}

// ---- global_norm

void GlobalNormOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  Value x = k.asRows(inputs[0], 0);
  int64_t elements = cast<MemRefType>(x.getType()).getDimSize(0);
  constexpr int64_t size = 4 * kBlock;
  Value squares = k.temporary({(elements + size - 1) / size});
  k.blocks(k.index(elements), size, [&](Val block, Val first, Val count) {
    Val square = k.sum(count, [&](Val c) {
      Val v = k.load(x, {first + c});
      return v * v;
    });
    k.store(square, squares, {block});
  });
  k.rows(k.index(1), [&](Val) {
    Val total = k.sum(k.dim(squares, 0),
                      [&](Val block) { return k.load(squares, {block}); });
    k.store(sqrt(total), outputs[0], {});
  });
}
