// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The skinny product of normalised streams: a tile of a few tokens by a few
// outputs keeps its sums in registers while it runs along the n·p numbers of a
// token. A CPU copies the tokens of a tile, centred, into panels of few columns
// first, as the weight and the sums for its gradient lie in panels too: then
// all that a part of the product touches fits a cache of the first level.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include <functional>

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

  int64_t size() const { return cast<MemRefType>(x.getType()).getDimSize(1); }

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

namespace {
/// Columns [0, width) cut into panels: row r of a panelled matrix has its
/// column c at [c / size, r, c % size]. What lies past `width` is zero.
struct Panels {
  static constexpr int64_t kSize = 128;
  /// A tile's panels live on a thread's stack.
  static constexpr int64_t kTileBytes = 512 << 10;

  Panels(KernelBuilder &k, int64_t width)
      : k(k), width(width),
        size(std::min<int64_t>(kSize, llvm::alignTo(width, k.groupSize()))),
        count(llvm::divideCeil(width, size)) {}

  /// Whether tiles of streams are to be panelled.
  static bool fit(KernelBuilder &k, Value x) {
    int64_t width = cast<MemRefType>(x.getType()).getDimSize(1);
    return k.lanes() > 1 && 4 * k.lanes() * width <= kTileBytes;
  }

  Value scratch(int64_t rows) const { return k.scratch({count, rows, size}); }

  /// The body for each panel.
  void loop(function_ref<void(Val panel)> body) const {
    k.loop(k.index(0), k.index(count), body);
  }
  /// The body for each group of columns of a panel, carrying values; `c` counts
  /// in the panel.
  SmallVector<Val>
  groups(Val panel, ArrayRef<Val> init,
         function_ref<SmallVector<Val>(Val c, Channels, ArrayRef<Val>)> body)
      const {
    return k.loop(k.index(0), k.index(size), k.index(k.groupSize()), init,
                  [&](Val c, ArrayRef<Val> carried) {
                    Channels channels{Val(), panel * k.index(size) + c, Val()};
                    if (width % k.groupSize() != 0)
                      channels.mask = k.existing(
                          max(k.index(width), channels.first) - channels.first);
                    return body(c, channels, carried);
                  });
  }
  /// The same for all columns.
  SmallVector<Val>
  all(ArrayRef<Val> init,
      function_ref<SmallVector<Val>(Val panel, Val c, Channels, ArrayRef<Val>)>
          body) const {
    return k.loop(k.index(0), k.index(count), k.index(1), init,
                  [&](Val panel, ArrayRef<Val> in) {
                    return groups(
                        panel, in,
                        [&](Val c, Channels channels, ArrayRef<Val> carried) {
                          return body(panel, c, channels, carried);
                        });
                  });
  }

  /// The weight in panels, with the gain folded in.
  Value pack(Value weight, Value gain) const {
    int64_t rows = cast<MemRefType>(weight.getType()).getDimSize(0);
    Value packed = k.temporary({count, rows, size});
    k.preparation(k.index(rows), [&](Val o) {
      loop([&](Val panel) {
        Val first = panel * k.index(size);
        k.columns(k.index(size),
                  [&](Val c) { k.store(k.f32(0), packed, {panel, o, c}); });
        k.columns(min(k.index(size), k.index(width) - first), [&](Val c) {
          Val w = k.load(weight, {o, first + c});
          k.store(gain ? w * k.load(gain, {first + c}) : w, packed,
                  {panel, o, c});
        });
      });
    });
    return packed;
  }

  KernelBuilder &k;
  int64_t width, size, count;
};

/// A tile of `lanes` tokens, centred, in panels.
class PanelTile {
public:
  /// Tokens that are walked at once.
  static constexpr int64_t kAtOnce = 4;

  PanelTile(const Panels &panels, const Rows &rows, Val first, Val end)
      : k(panels.k), panels(panels), rows(rows), first(first), end(end),
        tokens(k.lanes()), values(panels.scratch(tokens)),
        inverses(k.scratch({tokens})), zero(k.splatChannels(k.f32(0))) {
    groupsOfTokens([&](ArrayRef<Val> numbers) { fill(numbers); });
  }

  /// Row of a token of the tile; those past the end repeat the last.
  Val row(Val a) const { return min(first + a, end - 1.0); }
  Val exists(Val a) const { return first + a < end; }
  Val inverse(Val a) const { return k.load(inverses, {a}); }

  void groupsOfTokens(function_ref<void(ArrayRef<Val>)> body) const {
    k.loop(k.index(0), k.index(tokens), k.index(kAtOnce), {},
           [&](Val a, ArrayRef<Val>) {
             SmallVector<Val> numbers{a};
             for (int64_t i = 1; i < kAtOnce; ++i)
               numbers.push_back(a + static_cast<double>(i));
             body(numbers);
             return SmallVector<Val>{};
           });
  }

  /// For each token the sum over all columns of what the body returns for a
  /// group of them.
  SmallVector<Val>
  sums(ArrayRef<Val> numbers,
       function_ref<Val(size_t, Val panel, Val c, Channels)> body) const {
    SmallVector<Val> init(numbers.size(), zero);
    SmallVector<Val> totals = panels.all(
        init, [&](Val panel, Val c, Channels channels, ArrayRef<Val> in) {
          SmallVector<Val> out;
          for (auto [i, total] : llvm::enumerate(in))
            out.push_back(total + body(i, panel, c, channels));
          return out;
        });
    return llvm::map_to_vector(totals, [&](Val v) { return k.sumGroup(v); });
  }

  KernelBuilder &k;
  const Panels &panels;
  const Rows &rows;
  Val first, end;
  int64_t tokens;
  Value values, inverses;
  Val zero;

private:
  void fill(ArrayRef<Val> numbers) {
    SmallVector<Val> squares =
        sums(numbers, [&](size_t i, Val panel, Val c, Channels channels) {
          Val x = k.loadChannels(channels, rows.x, {row(numbers[i])});
          k.storeGroup(x, values, {panel, numbers[i], c});
          return rows.kind == NormKind::layer ? x : x * x;
        });
    Val size = k.f32(static_cast<double>(panels.width));
    if (rows.kind == NormKind::layer) {
      // The mean of what is left after the rounded mean corrects it.
      for (Val &mean : squares)
        mean = mean / size;
      SmallVector<Val> rest = centre(numbers, squares, [](Val v) { return v; });
      for (Val &mean : rest)
        mean = mean / size;
      squares = centre(numbers, rest, [](Val v) { return v * v; });
    }
    for (auto [a, square] : llvm::zip(numbers, squares))
      k.store(rsqrt(square / size + rows.eps), inverses, {a});
  }

  /// Subtracts numbers from tokens; the sums of `term` of what is left.
  SmallVector<Val> centre(ArrayRef<Val> numbers, ArrayRef<Val> means,
                          function_ref<Val(Val)> term) {
    return sums(numbers, [&](size_t i, Val panel, Val c, Channels channels) {
      Val v = k.loadGroup(values, {panel, numbers[i], c}) -
              k.splatChannels(means[i]);
      if (channels.mask)
        v = select(channels.mask, v, zero);
      k.storeGroup(v, values, {panel, numbers[i], c});
      return term(v);
    });
  }
};

/// All numbers of a block of `size`, in order.
void blocksOf(int64_t count, int64_t size,
              function_ref<void(int64_t first, int64_t size)> body) {
  for (int64_t first = 0; first < count; first += size)
    body(first, std::min(size, count - first));
}

/// Logits of tiles of tokens.
class PanelLogits {
public:
  PanelLogits(KernelBuilder &k, StreamLogitsOp::Adaptor in, const Rows &rows,
              int64_t width, Value out)
      : k(k), rows(rows), panels(k, width),
        outputs(cast<MemRefType>(in.getWeight().getType()).getDimSize(0)),
        weight(panels.pack(in.getWeight(), in.getGain())),
        shifted(in.getShift()
                    ? Weight(k, in.getWeight(), Value(), in.getShift()).shifted
                    : Value()),
        out(out) {}

  void emit() {
    Val n = k.dim(rows.x, 0);
    k.rowTiles(n, k.lanes(), [&](Val first) {
      PanelTile tile(panels, rows, first, n);
      // Sums by lane over columns; those of an output's tokens lie together.
      Value sums = k.scratch({outputs, tile.tokens, k.lanes()});
      k.loop(k.index(0), k.index(outputs), [&](Val o) {
        k.loop(k.index(0), k.index(tile.tokens), [&](Val a) {
          k.storeLanes(k.splat(0), sums, {o, a, k.index(0)});
        });
      });
      panels.loop([&](Val panel) {
        tile.groupsOfTokens([&](ArrayRef<Val> numbers) {
          int64_t block = k.lanes() == 16 ? 6 : 2, whole = outputs / block;
          if (whole)
            k.loop(k.index(0), k.index(whole), [&](Val b) {
              addProducts(tile, panel, numbers, b * double(block), block, sums);
            });
          if (outputs % block)
            addProducts(tile, panel, numbers, k.index(whole * block),
                        outputs % block, sums);
        });
      });
      store(tile, sums);
    });
  }

private:
  void addProducts(const PanelTile &tile, Val panel, ArrayRef<Val> numbers,
                   Val firstOutput, int64_t count, Value sums) {
    SmallVector<SmallVector<Val>> places;
    SmallVector<Val> init;
    for (int64_t o = 0; o < count; ++o)
      for (Val a : numbers) {
        places.push_back({firstOutput + double(o), a, k.index(0)});
        init.push_back(k.loadLanes(sums, places.back()));
      }
    SmallVector<Val> totals =
        k.loop(k.index(0), k.index(panels.size), k.index(k.lanes()), init,
               [&](Val c, ArrayRef<Val> in) {
                 SmallVector<Val> x, next;
                 for (Val a : numbers)
                   x.push_back(k.loadLanes(tile.values, {panel, a, c}));
                 for (int64_t o = 0; o < count; ++o) {
                   Val w =
                       k.loadLanes(weight, {panel, firstOutput + double(o), c});
                   for (Val value : x)
                     next.push_back(in[next.size()] + value * w);
                 }
                 return next;
               });
    for (auto [total, place] : llvm::zip(totals, places))
      k.storeLanes(total, sums, place);
  }

  void store(const PanelTile &tile, Value sums) {
    Value logits = k.scratch({tile.tokens, outputs});
    k.loop(k.index(0), k.index(outputs), [&](Val o) {
      SmallVector<Val> all;
      for (int64_t a = 0; a < tile.tokens; ++a)
        all.push_back(k.loadLanes(sums, {o, k.index(a), k.index(0)}));
      Val z = k.sumsOfLanes(all) * k.loadLanes(tile.inverses, {k.index(0)});
      if (shifted)
        z = z + k.load(shifted, {o});
      for (int64_t a = 0; a < tile.tokens; ++a)
        k.store(k.lane(z, a), logits, {k.index(a), o});
    });
    k.loop(k.index(0), k.index(tile.tokens), [&](Val a) {
      k.columns(k.index(outputs), [&](Val o) {
        k.store(k.load(logits, {a, o}), out, {tile.row(a), o});
      });
    });
  }

  KernelBuilder &k;
  const Rows &rows;
  Panels panels;
  int64_t outputs;
  Value weight, shifted, out;
};
} // namespace

void StreamLogitsOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  Adaptor in(inputs, *this);
  Rows rows(k, in.getX(), getNorm(), getEps().convertToDouble());
  if (Panels::fit(k, rows.x))
    return PanelLogits(k, in, rows, rows.size(), outputs[0]).emit();
  Weight weight(k, in.getWeight(), in.getGain(), in.getShift());
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
    if (Panels::fit(k, rows.x))
      return emitPanels();
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
    part = [this](Val chunk, Val o, Val c) {
      return k.load(parts, {chunk, o, c});
    };
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

  // ---- in panels

  void emitPanels() {
    Panels panels(k, size);
    int64_t m = weight.outputs;
    packed = panels.pack(in.getWeight(), in.getGain());
    Value sums = k.temporary({kPartials, panels.count, m, panels.size});
    dzParts = in.getShift() ? k.temporary({kPartials, m}) : Value();
    k.rowChunks(k.dim(dx, 0), kPartials, [&](Val chunk, Val lower, Val upper) {
      panels.loop([&](Val panel) {
        k.loop(k.index(0), k.index(m), [&](Val o) {
          k.columns(k.index(panels.size), [&](Val c) {
            k.store(k.f32(0), sums, {chunk, panel, o, c});
          });
        });
      });
      if (dzParts)
        k.columns(k.index(m),
                  [&](Val o) { k.store(k.f32(0), dzParts, {chunk, o}); });
      k.loop(lower, upper, k.index(k.lanes()), {},
             [&](Val first, ArrayRef<Val>) {
               emitPanelTile(panels, PanelTile(panels, rows, first, upper),
                             chunk, sums);
               return SmallVector<Val>{};
             });
    });
    part = [this, sums, panels](Val chunk, Val o, Val c) {
      Val panelSize = k.index(panels.size);
      return k.load(sums, {chunk, c / panelSize, o, c % panelSize});
    };
    emitParameters();
  }

  void emitPanelTile(const Panels &panels, const PanelTile &tile, Val chunk,
                     Value sums) {
    int64_t m = weight.outputs;
    // dz, and dz / σ, whose products with the centred rows are those with the
    // normalised. Tokens past the end count for nothing.
    Value dz = k.scratch({tile.tokens, m}),
          scaled = k.scratch({tile.tokens, m});
    k.loop(k.index(0), k.index(tile.tokens), [&](Val a) {
      Val row = tile.row(a), inverse = tile.inverse(a), exists = tile.exists(a);
      k.columns(k.index(m), [&](Val o) {
        Val d = select(exists, k.load(in.getDz(), {row, o}), k.f32(0));
        k.store(d, dz, {a, o});
        k.store(d * inverse, scaled, {a, o});
        if (dzParts)
          k.accumulate(d, dzParts, {chunk, o});
      });
    });
    Value g = panels.scratch(tile.tokens); // dz W
    int64_t block = k.lanes() == 16 ? 8 : 4;
    panels.loop([&](Val panel) {
      k.loop(k.index(0), k.index(panels.size), k.index(k.groupSize()), {},
             [&](Val c, ArrayRef<Val>) {
               blocksOf(tile.tokens, block, [&](int64_t first, int64_t count) {
                 multiply(first, count, m, dz, packed, {panel}, c, g, {panel},
                          /*transposed=*/false);
               });
               blocksOf(m, block, [&](int64_t first, int64_t count) {
                 multiply(first, count, tile.tokens, scaled, tile.values,
                          {panel}, c, sums, {chunk, panel},
                          /*transposed=*/true);
               });
               return SmallVector<Val>{};
             });
    });
    tile.groupsOfTokens(
        [&](ArrayRef<Val> numbers) { storeStreams(panels, tile, numbers, g); });
  }

  /// out[i, c] = Σ_j factors[i, j] rows[j, c] for i in [first, first + count),
  /// j in [0, terms) and a group of columns c; added to what is there where the
  /// factors are transposed.
  void multiply(int64_t first, int64_t count, int64_t terms, Value factors,
                Value from, ArrayRef<Val> fromPlace, Val c, Value out,
                ArrayRef<Val> outPlace, bool transposed) {
    auto at = [&](ArrayRef<Val> place, Val row) {
      SmallVector<Val> all(place);
      all.append({row, c});
      return all;
    };
    SmallVector<Val> init;
    for (int64_t i = 0; i < count; ++i)
      init.push_back(transposed
                         ? k.loadGroup(out, at(outPlace, k.index(first + i)))
                         : k.splatChannels(k.f32(0)));
    SmallVector<Val> totals =
        k.loop(k.index(0), k.index(terms), k.index(1), init,
               [&](Val j, ArrayRef<Val> in) {
                 Val row = k.loadGroup(from, at(fromPlace, j));
                 SmallVector<Val> next;
                 for (int64_t i = 0; i < count; ++i) {
                   Val number = k.index(first + i);
                   Val factor = transposed ? k.load(factors, {j, number})
                                           : k.load(factors, {number, j});
                   next.push_back(in[i] + k.splatChannels(factor) * row);
                 }
                 return next;
               });
    for (int64_t i = 0; i < count; ++i)
      k.storeGroup(totals[i], out, at(outPlace, k.index(first + i)));
  }

  /// dx = (g − mean(g) − u mean(g u)) / σ.
  void storeStreams(const Panels &panels, const PanelTile &tile,
                    ArrayRef<Val> numbers, Value g) {
    Val width = k.f32(static_cast<double>(panels.width));
    SmallVector<Val> along =
        tile.sums(numbers, [&](size_t i, Val panel, Val c, Channels) {
          return k.loadGroup(g, {panel, numbers[i], c}) *
                 k.loadGroup(tile.values, {panel, numbers[i], c});
        });
    SmallVector<Val> sum;
    if (rows.kind == NormKind::layer)
      sum = tile.sums(numbers, [&](size_t i, Val panel, Val c, Channels) {
        return k.loadGroup(g, {panel, numbers[i], c});
      });
    for (auto [i, a] : llvm::enumerate(numbers))
      k.ifThen(tile.exists(a), [&, i = i, a = a] {
        Val inverse = tile.inverse(a), row = tile.row(a);
        Val slope = k.splatChannels(along[i] * inverse * inverse / width);
        Val factor = k.splatChannels(inverse);
        Val mean = sum.empty() ? Val() : k.splatChannels(sum[i] / width);
        panels.all({}, [&](Val panel, Val c, Channels channels, ArrayRef<Val>) {
          Val value = k.loadGroup(g, {panel, a, c}) -
                      k.loadGroup(tile.values, {panel, a, c}) * slope;
          if (mean)
            value = value - mean;
          k.storeChannels(channels, value * factor, dx, {row});
          return SmallVector<Val>{};
        });
      });
  }

  // ---- in rows

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
  Value dx, dWeight, dGain, dShift, parts, dzParts, packed;
  std::function<Val(Val chunk, Val o, Val c)> part; ///< a partial sum of M
  int64_t size;
};
} // namespace

void StreamLogitsVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                   ValueRange outputs) {
  LogitsAdjoint(k, *this, Adaptor(inputs, *this), outputs).emit();
}
