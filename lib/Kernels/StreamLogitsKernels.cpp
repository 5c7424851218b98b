// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The skinny product of normalised streams along rows: a tile of a few tokens
// by a few outputs keeps its sums in registers while it runs along the n·p
// numbers of a token.
#include "StreamLogits.h"

using namespace mlir;
using namespace jpmhc;
using namespace jpmhc::stream_logits;

static constexpr int64_t kTokens = 4, kOutputs = 6;

// ---- shared

static Value asRows(KernelBuilder &k, Value streams) {
  return memref::CollapseShapeOp::create(
      k.builder, k.loc, streams, ArrayRef<ReassociationIndices>{{0}, {1, 2}});
}

Rows::Rows(KernelBuilder &k, Value x, NormKind kind, double eps)
    : k(k), x(asRows(k, x)), kind(kind), eps(eps), width(k.dim(this->x, 1)) {}

int64_t Rows::size() const {
  return cast<MemRefType>(x.getType()).getDimSize(1);
}

Value stream_logits::shiftedWeight(KernelBuilder &k, Value weight,
                                   Value shift) {
  int64_t outputs = cast<MemRefType>(weight.getType()).getDimSize(0);
  Value shifted = k.temporary({outputs});
  k.rows(k.index(outputs), [&](Val o) {
    k.store(k.sum(k.dim(weight, 1),
                  [&](Val c) {
                    return k.load(weight, {o, c}) * k.load(shift, {c});
                  }),
            shifted, {o});
  });
  return shifted;
}

Adjoint::Adjoint(KernelBuilder &k, StreamLogitsVjpOp op,
                 StreamLogitsVjpOp::Adaptor in, ValueRange results)
    : k(k), in(in),
      rows(k, in.getX(), op.getNorm(), op.getEps().convertToDouble()),
      dx(asRows(k, results[0])), dWeight(results[1]), size(rows.size()),
      outputs(cast<MemRefType>(in.getWeight().getType()).getDimSize(0)) {
  ValueRange rest = results.drop_front(2);
  dGain = in.getGain() ? rest.front() : Value();
  dShift = in.getShift() ? rest.back() : Value();
  dzParts = dShift ? k.temporary({kPartials, outputs}) : Value();
}

void Adjoint::emitParameters(function_ref<Val(Val chunk, Val o, Val c)> part) {
  auto totalOverChunks = [&](function_ref<Val(Val)> part) {
    return k.sumInOrder(k.f32(0), k.index(kPartials), part);
  };
  Value sums = dShift ? k.temporary({outputs}) : Value();
  Value products = dGain ? k.temporary({outputs, size}) : Value();
  k.rows(k.index(outputs), [&](Val o) {
    Val s;
    if (dShift) {
      s = totalOverChunks(
          [&](Val chunk) { return k.load(dzParts, {chunk, o}); });
      k.store(s, sums, {o});
    }
    k.columns(rows.width, [&](Val c) {
      Val total = part(k.index(0), o, c);
      for (int64_t chunk = 1; chunk < kPartials; ++chunk)
        total = total + part(k.index(chunk), o, c);
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
    return k.sumInOrder(k.f32(0), k.index(outputs), term);
  };
  k.rows(rows.width, [&](Val c) {
    if (dGain)
      k.store(totalOverOutputs([&](Val o) { return k.load(products, {o, c}); }),
              dGain, {c});
    if (dShift)
      k.store(totalOverOutputs([&](Val o) {
                return k.load(sums, {o}) * k.load(in.getWeight(), {o, c});
              }),
              dShift, {c});
  });
}

// ---- tiles of rows

namespace {
/// A few tokens of the rows with their statistics.
class Tile {
public:
  Tile(const Rows &rows, ArrayRef<Val> tokens)
      : k(rows.k), rows(rows), tokens(tokens) {
    Val size = k.toFloat(rows.width);
    if (rows.kind == NormKind::layer)
      for (Val sum : sums(
               [&](int64_t a, Val c) { return k.load(rows.x, {token(a), c}); }))
        means.push_back(sum / size);
    SmallVector<Val> squares = sums([&](int64_t a, Val c) {
      Val v = centred(a, c);
      return v * v;
    });
    if (rows.kind == NormKind::layer) {
      // The mean of what is left after the rounded mean corrects it.
      SmallVector<Val> rest =
          sums([&](int64_t a, Val c) { return centred(a, c); });
      for (auto [mean, square, left] : llvm::zip(means, squares, rest)) {
        Val correction = left / size;
        mean = mean + correction;
        square = square - correction * left;
      }
    }
    for (Val square : squares)
      inverses.push_back(rsqrt(square / size + rows.eps));
  }

  Val token(int64_t a) const { return tokens[a]; }
  Val inverse(int64_t a) const { return inverses[a]; }

  /// x − mean of token a.
  Val centred(int64_t a, Val c) const {
    Val v = k.load(rows.x, {tokens[a], c});
    return rows.kind == NormKind::layer ? v - means[a] : v;
  }
  Val normalised(int64_t a, Val c) const { return centred(a, c) * inverses[a]; }

  /// A sum over columns for each token.
  SmallVector<Val> sums(function_ref<Val(int64_t a, Val c)> term) const {
    SmallVector<Reduction> kinds(tokens.size(), Reduction::sum);
    return k.reduceColumns(rows.width, kinds, [&](Val c) {
      SmallVector<Val> terms;
      for (size_t a = 0; a < tokens.size(); ++a)
        terms.push_back(term(a, c));
      return terms;
    });
  }

private:
  KernelBuilder &k;
  const Rows &rows;
  SmallVector<Val> tokens, means, inverses;
};
} // namespace

/// The weight with the gain folded in, in f32.
static Value scaledWeight(KernelBuilder &k, Value weight, Value gain) {
  auto type = cast<MemRefType>(weight.getType());
  if (!gain && type.getElementType().isF32())
    return weight;
  Value scaled = k.temporary(type.getShape());
  k.rows(k.index(type.getDimSize(0)), [&](Val o) {
    k.columns(k.dim(weight, 1), [&](Val c) {
      Val w = k.load(weight, {o, c});
      k.store(gain ? w * k.load(gain, {c}) : w, scaled, {o, c});
    });
  });
  return scaled;
}

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
                                ValueRange results) {
  Adaptor in(inputs, *this);
  Rows rows(k, in.getX(), getNorm(), getEps().convertToDouble());
  if (fitPanels(k, in.getX()))
    return emitInPanels(in, rows, results[0]);
  int64_t outputs = cast<MemRefType>(in.getWeight().getType()).getDimSize(0);
  Value weight = scaledWeight(k, in.getWeight(), in.getGain());
  Value shifted =
      in.getShift() ? shiftedWeight(k, in.getWeight(), in.getShift()) : Value();
  Val n = k.dim(rows.x, 0);
  k.rowTiles(n, kTokens, [&](Val first) {
    SmallVector<Val> tokens; // those past the end repeat the last
    for (int64_t a = 0; a < kTokens; ++a)
      tokens.push_back(min(first + double(a), n - 1.0));
    Tile tile(rows, tokens);
    outputBlocks(k, outputs, [&](Val firstOutput, int64_t count) {
      SmallVector<Reduction> kinds(kTokens * count, Reduction::sum);
      SmallVector<Val> sums = k.reduceColumns(rows.width, kinds, [&](Val c) {
        SmallVector<Val> x, terms;
        for (int64_t a = 0; a < kTokens; ++a)
          x.push_back(tile.centred(a, c));
        for (int64_t o = 0; o < count; ++o) {
          Val w = k.load(weight, {firstOutput + double(o), c});
          for (Val value : x)
            terms.push_back(value * w);
        }
        return terms;
      });
      for (int64_t o = 0; o < count; ++o)
        for (int64_t a = 0; a < kTokens; ++a) {
          Val output = firstOutput + double(o);
          Val z = sums[o * kTokens + a] * tile.inverse(a);
          if (shifted)
            z = z + k.load(shifted, {output});
          k.store(z, results[0], {tokens[a], output});
        }
    });
  });
}

namespace {
/// The adjoint, chunk by chunk of tokens.
class RowsAdjoint : Adjoint {
public:
  RowsAdjoint(KernelBuilder &k, StreamLogitsVjpOp op,
              StreamLogitsVjpOp::Adaptor in, ValueRange results)
      : Adjoint(k, op, in, results),
        weight(scaledWeight(k, in.getWeight(), in.getGain())),
        parts(k.temporary({kPartials, outputs, size})) {}

  void emit() {
    k.rowChunks(k.dim(dx, 0), kPartials, [&](Val chunk, Val lower, Val upper) {
      zero(chunk);
      k.loop(lower, upper, k.index(kTokens), {}, [&](Val first, ArrayRef<Val>) {
        emitTile(chunk, first, upper);
        return SmallVector<Val>{};
      });
    });
    emitParameters([this](Val chunk, Val o, Val c) {
      return k.load(parts, {chunk, o, c});
    });
  }

private:
  void zero(Val chunk) {
    k.loop(k.index(0), k.index(outputs), [&](Val o) {
      k.columns(rows.width,
                [&](Val c) { k.store(k.f32(0), parts, {chunk, o, c}); });
    });
    if (dzParts)
      k.columns(k.index(outputs),
                [&](Val o) { k.store(k.f32(0), dzParts, {chunk, o}); });
  }

  void emitTile(Val chunk, Val first, Val upper) {
    SmallVector<Val> tokens, exists;
    for (int64_t a = 0; a < kTokens; ++a) {
      Val token = first + double(a);
      exists.push_back(token < upper);
      tokens.push_back(min(token, upper - 1.0));
    }
    Tile tile(rows, tokens);
    Value d = k.scratch({kTokens, size}); // dz W
    k.columns(rows.width, [&](Val c) {
      for (int64_t a = 0; a < kTokens; ++a)
        k.store(k.f32(0), d, {k.index(a), c});
    });
    outputBlocks(k, outputs, [&](Val firstOutput, int64_t count) {
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
          u.push_back(tile.normalised(a, c));
          pulled.push_back(k.load(d, {k.index(a), c}));
        }
        for (int64_t o = 0; o < count; ++o) {
          Val output = firstOutput + double(o);
          Val w = k.load(weight, {output, c});
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
  void emitStreams(const Tile &tile, ArrayRef<Val> exists, Value d) {
    Val width = k.toFloat(rows.width);
    auto g = [&](int64_t a, Val c) { return k.load(d, {k.index(a), c}); };
    SmallVector<Val> along = tile.sums(
        [&](int64_t a, Val c) { return g(a, c) * tile.normalised(a, c); });
    SmallVector<Val> sum;
    if (rows.kind == NormKind::layer)
      sum = tile.sums(g);
    for (int64_t a = 0; a < kTokens; ++a)
      k.ifThen(exists[a], [&] {
        Val slope = along[a] / width;
        Val mean = sum.empty() ? Val() : sum[a] / width;
        k.columns(rows.width, [&](Val c) {
          Val value = g(a, c) - tile.normalised(a, c) * slope;
          if (mean)
            value = value - mean;
          k.store(value * tile.inverse(a), dx, {tile.token(a), c});
        });
      });
  }

  static Val sumOf(ArrayRef<Val> values) {
    Val total = values[0];
    for (Val value : values.drop_front())
      total = total + value;
    return total;
  }

  Value weight, parts;
};
} // namespace

void StreamLogitsVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                   ValueRange results) {
  Adaptor in(inputs, *this);
  if (fitPanels(k, in.getX()))
    return emitVjpInPanels(k, *this, in, results);
  RowsAdjoint(k, *this, in, results).emit();
}
