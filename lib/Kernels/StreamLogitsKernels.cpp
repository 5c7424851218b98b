// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The skinny product of normalised streams: a tile of a few tokens by a few
// outputs keeps its sums in registers while it runs along the n·p numbers of a
// token, which are normalised on the way.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace jpmhc;

namespace {
constexpr int64_t kTokens = 4, kOutputs = 6;

/// Streams as rows [N, d], normalised without gain and shift.
class Rows {
public:
  Rows(KernelBuilder &k, Value x, NormKind kind, double eps)
      : k(k),
        x(memref::CollapseShapeOp::create(
            k.builder, k.loc, x, ArrayRef<ReassociationIndices>{{0}, {1, 2}})),
        kind(kind), eps(eps), width(k.dim(this->x, 1)) {}

  /// Statistics of the tokens of a tile.
  struct Tile {
    SmallVector<Val> rows, means, inverses;
  };

  Tile tile(ArrayRef<Val> rows) const {
    Tile tile{SmallVector<Val>(rows), {}, {}};
    Val size = k.toFloat(width);
    if (kind == NormKind::layer)
      for (Val sum : sums(rows.size(), [&](int64_t a, Val c) {
             return k.load(x, {rows[a], c});
           }))
        tile.means.push_back(sum / size);
    SmallVector<Val> squares = sums(rows.size(), [&](int64_t a, Val c) {
      Val v = centred(tile, a, c);
      return v * v;
    });
    if (kind == NormKind::layer) {
      // The mean of what is left after the rounded mean corrects it.
      SmallVector<Val> rest = sums(
          rows.size(), [&](int64_t a, Val c) { return centred(tile, a, c); });
      for (size_t a = 0; a < rows.size(); ++a) {
        Val correction = rest[a] / size;
        tile.means[a] = tile.means[a] + correction;
        squares[a] = squares[a] - correction * rest[a];
      }
    }
    for (Val square : squares)
      tile.inverses.push_back(rsqrt(square / size + eps));
    return tile;
  }

  /// x − mean of token a.
  Val centred(const Tile &tile, int64_t a, Val c) const {
    Val v = k.load(x, {tile.rows[a], c});
    return kind == NormKind::layer ? v - tile.means[a] : v;
  }
  Val normalised(const Tile &tile, int64_t a, Val c) const {
    return centred(tile, a, c) * tile.inverses[a];
  }

  SmallVector<Val> sums(int64_t count,
                        function_ref<Val(int64_t, Val)> term) const {
    SmallVector<Reduction> kinds(count, Reduction::sum);
    return k.reduceColumns(width, kinds, [&](Val c) {
      SmallVector<Val> terms;
      for (int64_t a = 0; a < count; ++a)
        terms.push_back(term(a, c));
      return terms;
    });
  }

  KernelBuilder &k;
  Value x;
  NormKind kind;
  double eps;
  Val width;
};

/// The weight with the gain folded in, in f32, and W · shift.
struct Weight {
  Weight(KernelBuilder &k, Value weight, Value gain, Value shift)
      : scaled(weight) {
    auto type = cast<MemRefType>(weight.getType());
    outputs = type.getDimSize(0);
    Val width = k.dim(weight, 1);
    bool copied = gain || !type.getElementType().isF32();
    if (copied)
      scaled = k.temporary(type.getShape());
    if (shift)
      shifted = k.temporary({outputs});
    if (!copied && !shift)
      return;
    k.rows(k.index(outputs), [&](Val o) {
      if (copied)
        k.columns(width, [&](Val c) {
          Val w = k.load(weight, {o, c});
          k.store(gain ? w * k.load(gain, {c}) : w, scaled, {o, c});
        });
      if (shift)
        k.store(k.sum(width,
                      [&](Val c) {
                        return k.load(weight, {o, c}) * k.load(shift, {c});
                      }),
                shifted, {o});
    });
  }

  Value scaled, shifted;
  int64_t outputs;
};
} // namespace

/// Runs the body over blocks of outputs: a loop over whole ones, and the rest.
static void outputBlocks(KernelBuilder &k, int64_t outputs,
                         function_ref<void(Val first, int64_t count)> body) {
  int64_t whole = outputs / kOutputs, rest = outputs % kOutputs;
  if (whole)
    k.loop(k.index(0), k.index(whole),
           [&](Val block) { body(block * double(kOutputs), kOutputs); });
  if (rest)
    body(k.index(whole * kOutputs), rest);
}

void StreamLogitsOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  Adaptor in(inputs, *this);
  Weight weight(k, in.getWeight(), in.getGain(), in.getShift());
  Rows rows(k, in.getX(), getNorm(), getEps().convertToDouble());
  Val n = k.dim(rows.x, 0);
  k.rowTiles(n, kTokens, [&](Val first) {
    SmallVector<Val> tokens; // those past the end repeat the last
    for (int64_t a = 0; a < kTokens; ++a)
      tokens.push_back(min(first + double(a), n - 1.0));
    Rows::Tile tile = rows.tile(tokens);
    outputBlocks(k, weight.outputs, [&](Val firstOutput, int64_t count) {
      SmallVector<Reduction> kinds(kTokens * count, Reduction::sum);
      SmallVector<Val> sums = k.reduceColumns(rows.width, kinds, [&](Val c) {
        SmallVector<Val> x, terms;
        for (int64_t a = 0; a < kTokens; ++a)
          x.push_back(rows.centred(tile, a, c));
        for (int64_t o = 0; o < count; ++o) {
          Val w = k.load(weight.scaled, {firstOutput + double(o), c});
          for (Val value : x)
            terms.push_back(value * w);
        }
        return terms;
      });
      for (int64_t o = 0; o < count; ++o)
        for (int64_t a = 0; a < kTokens; ++a) {
          Val output = firstOutput + double(o);
          Val z = sums[o * kTokens + a] * tile.inverses[a];
          if (weight.shifted)
            z = z + k.load(weight.shifted, {output});
          k.store(z, outputs[0], {tokens[a], output});
        }
    });
  });
}

namespace {
/// The adjoint, chunk by chunk of tokens: gradients of the streams, and partial
/// sums of M = Σ dz ⊗ u (u the normalised row), from which those of weight,
/// gain and shift follow.
class LogitsAdjoint {
public:
  LogitsAdjoint(KernelBuilder &k, StreamLogitsVjpOp op,
                StreamLogitsVjpOp::Adaptor in, ValueRange outputs)
      : k(k), in(in), weight(k, in.getWeight(), in.getGain(), Value()),
        rows(k, in.getX(), op.getNorm(), op.getEps().convertToDouble()),
        dx(memref::CollapseShapeOp::create(
            k.builder, k.loc, outputs[0],
            ArrayRef<ReassociationIndices>{{0}, {1, 2}})),
        dWeight(outputs[1]) {
    ValueRange rest = outputs.drop_front(2);
    dGain = in.getGain() ? rest.front() : Value();
    dShift = in.getShift() ? rest.back() : Value();
    size = cast<MemRefType>(dx.getType()).getDimSize(1);
  }

  void emit() {
    parts = k.temporary({kPartials, weight.outputs, size});
    dzParts =
        in.getShift() ? k.temporary({kPartials, weight.outputs}) : Value();
    k.rowChunks(k.dim(dx, 0), kPartials, [&](Val chunk, Val lower, Val upper) {
      zero(chunk);
      k.loop(lower, upper, k.index(kTokens), {}, [&](Val first, ArrayRef<Val>) {
        emitTile(chunk, first, upper);
        return SmallVector<Val>{};
      });
    });
    emitParameters();
  }

private:
  void zero(Val chunk) {
    k.loop(k.index(0), k.index(weight.outputs), [&](Val o) {
      k.columns(rows.width,
                [&](Val c) { k.store(k.f32(0), parts, {chunk, o, c}); });
    });
    if (dzParts)
      k.columns(k.index(weight.outputs),
                [&](Val o) { k.store(k.f32(0), dzParts, {chunk, o}); });
  }

  void emitTile(Val chunk, Val first, Val upper) {
    SmallVector<Val> tokens, exists;
    for (int64_t a = 0; a < kTokens; ++a) {
      Val token = first + double(a);
      exists.push_back(token < upper);
      tokens.push_back(min(token, upper - 1.0));
    }
    Rows::Tile tile = rows.tile(tokens);
    Value d = k.scratch({kTokens, size}); // dz W
    k.columns(rows.width, [&](Val c) {
      for (int64_t a = 0; a < kTokens; ++a)
        k.store(k.f32(0), d, {k.index(a), c});
    });
    outputBlocks(k, weight.outputs, [&](Val firstOutput, int64_t count) {
      // Tokens past the end count for nothing.
      SmallVector<SmallVector<Val>> dz(count);
      for (int64_t o = 0; o < count; ++o)
        for (int64_t a = 0; a < kTokens; ++a)
          dz[o].push_back(
              select(exists[a],
                     k.load(in.getDz(), {tokens[a], firstOutput + double(o)}),
                     k.f32(0)));
      if (dzParts)
        for (int64_t o = 0; o < count; ++o)
          k.accumulate(sumOf(dz[o]), dzParts, {chunk, firstOutput + double(o)});
      k.columns(rows.width, [&](Val c) {
        SmallVector<Val> u, pulled;
        for (int64_t a = 0; a < kTokens; ++a) {
          u.push_back(rows.normalised(tile, a, c));
          pulled.push_back(k.load(d, {k.index(a), c}));
        }
        for (int64_t o = 0; o < count; ++o) {
          Val output = firstOutput + double(o);
          Val w = k.load(weight.scaled, {output, c});
          Val part = k.load(parts, {chunk, output, c});
          for (int64_t a = 0; a < kTokens; ++a) {
            pulled[a] = pulled[a] + dz[o][a] * w;
            part = part + dz[o][a] * u[a];
          }
          k.store(part, parts, {chunk, output, c});
        }
        for (int64_t a = 0; a < kTokens; ++a)
          k.store(pulled[a], d, {k.index(a), c});
      });
    });
    emitStreams(tile, exists, d);
  }

  /// dx = (g − mean(g) − u mean(g u)) / σ.
  void emitStreams(const Rows::Tile &tile, ArrayRef<Val> exists, Value d) {
    Val width = k.toFloat(rows.width);
    auto g = [&](int64_t a, Val c) { return k.load(d, {k.index(a), c}); };
    SmallVector<Val> along = rows.sums(kTokens, [&](int64_t a, Val c) {
      return g(a, c) * rows.normalised(tile, a, c);
    });
    SmallVector<Val> sum;
    if (rows.kind == NormKind::layer)
      sum = rows.sums(kTokens, g);
    for (int64_t a = 0; a < kTokens; ++a)
      k.ifThen(exists[a], [&] {
        Val slope = along[a] / width;
        Val mean = sum.empty() ? Val() : sum[a] / width;
        k.columns(rows.width, [&](Val c) {
          Val value = g(a, c) - rows.normalised(tile, a, c) * slope;
          if (mean)
            value = value - mean;
          k.store(value * tile.inverses[a], dx, {tile.rows[a], c});
        });
      });
  }

  static Val sumOf(ArrayRef<Val> values) {
    Val total = values[0];
    for (Val value : values.drop_front())
      total = total + value;
    return total;
  }

  Val totalOverChunks(function_ref<Val(Val)> part) {
    return k.sumInOrder(k.f32(0), k.index(kPartials), part);
  }

  /// dW = M ∘ gain + s ⊗ shift with s = Σ dz; dgain = Σ_o W ∘ M,
  /// dshift = Wᵀ s.
  void emitParameters() {
    int64_t m = weight.outputs;
    Value sums = dShift ? k.temporary({m}) : Value();
    Value products = dGain ? k.temporary({m, size}) : Value();
    k.rows(k.index(m), [&](Val o) {
      Val s;
      if (dShift) {
        s = totalOverChunks(
            [&](Val chunk) { return k.load(dzParts, {chunk, o}); });
        k.store(s, sums, {o});
      }
      k.columns(rows.width, [&](Val c) {
        Val total = k.load(parts, {k.index(0), o, c});
        for (int64_t chunk = 1; chunk < kPartials; ++chunk)
          total = total + k.load(parts, {k.index(chunk), o, c});
        if (dGain)
          k.store(total * k.load(in.getWeight(), {o, c}), products, {o, c});
        Val value = dGain ? total * k.load(in.getGain(), {c}) : total;
        if (dShift)
          value = value + s * k.load(in.getShift(), {c});
        k.store(value, dWeight, {o, c});
      });
    });
    if (!dGain && !dShift)
      return;
    auto totalOverOutputs = [&](function_ref<Val(Val)> term) {
      return k.sumInOrder(k.f32(0), k.index(m), term);
    };
    k.rows(rows.width, [&](Val c) {
      if (dGain)
        k.store(
            totalOverOutputs([&](Val o) { return k.load(products, {o, c}); }),
            dGain, {c});
      if (dShift)
        k.store(totalOverOutputs([&](Val o) {
                  return k.load(sums, {o}) * k.load(in.getWeight(), {o, c});
                }),
                dShift, {c});
    });
  }

  KernelBuilder &k;
  StreamLogitsVjpOp::Adaptor in;
  Weight weight;
  Rows rows;
  Value dx, dWeight, dGain, dShift, parts, dzParts;
  int64_t size;
};
} // namespace

void StreamLogitsVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                   ValueRange outputs) {
  LogitsAdjoint(k, *this, Adaptor(inputs, *this), outputs).emit();
}
