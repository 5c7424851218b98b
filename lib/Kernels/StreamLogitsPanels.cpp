// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The skinny product of normalised streams in panels: the tokens of a tile,
// centred, the weight, and the sums for its gradient are laid out in panels of
// a few columns, one after the other. A panel's part of the product stays in a
// cache of the first level, and the next panel lies where the processor
// expects it.
#include "StreamLogits.h"

using namespace mlir;
using namespace jpmhc;
using namespace jpmhc::stream_logits;

/// A tile's panels live on a thread's stack.
static constexpr int64_t kTileBytes = 512 << 10;

bool stream_logits::fitPanels(KernelBuilder &k, Value streams) {
  auto type = cast<MemRefType>(streams.getType());
  int64_t width = type.getDimSize(1) * type.getDimSize(2);
  return k.lanes() > 1 && 4 * k.lanes() * width <= kTileBytes;
}

/// The body for the numbers [0, count) in blocks of `size`.
static void blocksOf(int64_t count, int64_t size,
                     function_ref<void(int64_t first, int64_t size)> body) {
  for (int64_t first = 0; first < count; first += size)
    body(first, std::min(size, count - first));
}

namespace {
/// Columns [0, width) cut into panels of one group each: row r of a panelled
/// matrix has its column c at [c / size, r, c % size]. What lies past `width`
/// is zero.
struct Panels {
  Panels(KernelBuilder &k, int64_t width)
      : k(k), width(width), size(k.groupSize()),
        count(llvm::divideCeil(width, size)) {}

  Value scratch(int64_t rows) const { return k.scratch({count, rows, size}); }

  /// The columns of a panel in memory that is not panelled.
  Channels channels(Val panel) const {
    Val first = panel * k.index(size);
    if (width % size == 0)
      return {panel, first, Val()};
    return {panel, first, k.existing(max(k.index(width), first) - first)};
  }

  /// The body for each panel, carrying values.
  SmallVector<Val>
  loop(ArrayRef<Val> init,
       function_ref<SmallVector<Val>(Val panel, ArrayRef<Val>)> body) const {
    return k.loop(k.index(0), k.index(count), k.index(1), init, body);
  }
  void loop(function_ref<void(Val panel)> body) const {
    k.loop(k.index(0), k.index(count), body);
  }

  /// The weight in panels, with the gain folded in.
  Value pack(Value weight, Value gain) const {
    int64_t rows = cast<MemRefType>(weight.getType()).getDimSize(0);
    Value packed = k.temporary({count, rows, size});
    k.preparation(k.index(rows), [&](Val o) {
      loop([&](Val panel) {
        Channels columns = channels(panel);
        Val w = k.loadChannels(columns, weight, {o});
        if (gain)
          w = w * k.loadChannels(columns, gain, {});
        k.storeGroup(w, packed, {panel, o, k.index(0)});
      });
    });
    return packed;
  }

  KernelBuilder &k;
  int64_t width, size, count;
};

/// A tile of `lanes` tokens, centred, in panels.
class Tile {
public:
  /// Tokens that are walked at once.
  static constexpr int64_t kAtOnce = 4;

  Tile(const Panels &panels, const Rows &rows, Val first, Val end)
      : k(panels.k), panels(panels), rows(rows), first(first), end(end),
        tokens(k.lanes()), values(scratch()), inverses(k.scratch({tokens})),
        zero(k.splatChannels(k.f32(0))) {
    groupsOfTokens([&](ArrayRef<Val> numbers) { fill(numbers); });
  }

  /// Panels of as many tokens, and one more: a token's numbers of all panels
  /// would else fall into few sets of a cache.
  Value scratch() const { return panels.scratch(tokens + 1); }

  /// Row of a token of the tile; those past the end repeat the last.
  Val row(Val a) const { return min(first + a, end - 1.0); }
  Val exists(Val a) const { return first + a < end; }
  Val inverse(Val a) const { return k.load(inverses, {a}); }

  Val load(Value from, Val panel, Val a) const {
    return k.loadGroup(from, {panel, a, k.index(0)});
  }

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

  /// For each token the sum over all columns of what the body returns for
  /// those of a panel.
  SmallVector<Val> sums(ArrayRef<Val> numbers,
                        function_ref<Val(size_t i, Val panel)> body) const {
    SmallVector<Val> init(numbers.size(), zero);
    SmallVector<Val> totals =
        panels.loop(init, [&](Val panel, ArrayRef<Val> in) {
          SmallVector<Val> out;
          for (auto [i, total] : llvm::enumerate(in))
            out.push_back(total + body(i, panel));
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
    SmallVector<Val> squares = sums(numbers, [&](size_t i, Val panel) {
      Val x = k.loadChannels(panels.channels(panel), rows.x, {row(numbers[i])});
      k.storeGroup(x, values, {panel, numbers[i], k.index(0)});
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
    return sums(numbers, [&](size_t i, Val panel) {
      Val v = load(values, panel, numbers[i]) - k.splatChannels(means[i]);
      if (Val mask = panels.channels(panel).mask)
        v = select(mask, v, zero);
      k.storeGroup(v, values, {panel, numbers[i], k.index(0)});
      return term(v);
    });
  }
};

/// Logits of tiles of tokens.
class Logits {
public:
  Logits(StreamLogitsOp::Adaptor in, const Rows &rows, Value out)
      : k(rows.k), rows(rows), panels(k, rows.size()),
        outputs(cast<MemRefType>(in.getWeight().getType()).getDimSize(0)),
        weight(panels.pack(in.getWeight(), in.getGain())),
        shifted(in.getShift() ? shiftedWeight(k, in.getWeight(), in.getShift())
                              : Value()),
        out(out) {}

  void emit() {
    Val n = k.dim(rows.x, 0);
    k.rowTiles(n, k.lanes(), [&](Val first) {
      Tile tile(panels, rows, first, n);
      // Sums by lane over columns; those of an output's tokens lie together.
      Value sums = k.scratch({outputs, tile.tokens, k.lanes()});
      k.loop(k.index(0), k.index(outputs), [&](Val o) {
        k.loop(k.index(0), k.index(tile.tokens), [&](Val a) {
          k.storeLanes(k.splat(0), sums, {o, a, k.index(0)});
        });
      });
      k.loop(k.index(0), k.index(panels.count), k.index(kPanelsAtOnce), {},
             [&](Val panel, ArrayRef<Val>) {
               tile.groupsOfTokens([&](ArrayRef<Val> numbers) {
                 addProducts(tile, panel, numbers, sums);
               });
               return SmallVector<Val>{};
             });
      store(tile, sums);
    });
  }

private:
  /// Sums stay in registers along so many panels.
  static constexpr int64_t kPanelsAtOnce = 4;

  void addProducts(const Tile &tile, Val panel, ArrayRef<Val> numbers,
                   Value sums) {
    int64_t block = k.lanes() == 16 ? 6 : 2, whole = outputs / block;
    if (whole)
      k.loop(k.index(0), k.index(whole), [&](Val b) {
        addBlock(tile, panel, numbers, b * double(block), block, sums);
      });
    if (outputs % block)
      addBlock(tile, panel, numbers, k.index(whole * block), outputs % block,
               sums);
  }

  void addBlock(const Tile &tile, Val panel, ArrayRef<Val> numbers,
                Val firstOutput, int64_t count, Value sums) {
    SmallVector<SmallVector<Val>> places;
    SmallVector<Val> init;
    for (int64_t o = 0; o < count; ++o)
      for (Val a : numbers) {
        places.push_back({firstOutput + double(o), a, k.index(0)});
        init.push_back(k.loadLanes(sums, places.back()));
      }
    Val end = panel + double(kPanelsAtOnce);
    if (panels.count % kPanelsAtOnce)
      end = min(end, k.index(panels.count));
    SmallVector<Val> totals =
        k.loop(panel, end, k.index(1), init, [&](Val at, ArrayRef<Val> in) {
          SmallVector<Val> totals(in);
          for (int64_t c = 0; c < panels.size; c += k.lanes())
            addLanes(tile, at, k.index(c), numbers, firstOutput, totals);
          return totals;
        });
    for (auto [total, place] : llvm::zip(totals, places))
      k.storeLanes(total, sums, place);
  }

  void addLanes(const Tile &tile, Val panel, Val c, ArrayRef<Val> numbers,
                Val firstOutput, MutableArrayRef<Val> totals) {
    SmallVector<Val> x;
    for (Val a : numbers)
      x.push_back(k.loadLanes(tile.values, {panel, a, c}));
    for (size_t i = 0; i < totals.size(); i += x.size()) {
      Val output = firstOutput + double(i / x.size());
      Val w = k.loadLanes(weight, {panel, output, c});
      for (auto [j, value] : llvm::enumerate(x))
        totals[i + j] = totals[i + j] + value * w;
    }
  }

  void store(const Tile &tile, Value sums) {
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

/// The adjoint, chunk by chunk of tokens.
class PanelAdjoint : Adjoint {
public:
  PanelAdjoint(KernelBuilder &k, StreamLogitsVjpOp op,
               StreamLogitsVjpOp::Adaptor in, ValueRange results)
      : Adjoint(k, op, in, results), panels(k, size),
        weight(panels.pack(in.getWeight(), in.getGain())),
        sums(k.temporary({kPartials, panels.count, outputs, panels.size})) {}

  void emit() {
    k.rowChunks(k.dim(dx, 0), kPartials, [&](Val chunk, Val lower, Val upper) {
      zero(chunk);
      k.loop(lower, upper, k.index(k.lanes()), {},
             [&](Val first, ArrayRef<Val>) {
               emitTile(Tile(panels, rows, first, upper), chunk);
               return SmallVector<Val>{};
             });
    });
    emitParameters([this](Val chunk, Val o, Val c) {
      Val panelSize = k.index(panels.size);
      return k.load(sums, {chunk, c / panelSize, o, c % panelSize});
    });
  }

private:
  void zero(Val chunk) {
    panels.loop([&](Val panel) {
      k.loop(k.index(0), k.index(outputs), [&](Val o) {
        k.storeGroup(k.splatChannels(k.f32(0)), sums,
                     {chunk, panel, o, k.index(0)});
      });
    });
    if (dzParts)
      k.columns(k.index(outputs),
                [&](Val o) { k.store(k.f32(0), dzParts, {chunk, o}); });
  }

  void emitTile(const Tile &tile, Val chunk) {
    // dz, and dz / σ, whose products with the centred rows are those with the
    // normalised. Tokens past the end count for nothing.
    Value dz = k.scratch({tile.tokens, outputs}),
          scaled = k.scratch({tile.tokens, outputs});
    k.loop(k.index(0), k.index(tile.tokens), [&](Val a) {
      Val row = tile.row(a), inverse = tile.inverse(a), exists = tile.exists(a);
      k.columns(k.index(outputs), [&](Val o) {
        Val d = select(exists, k.load(in.getDz(), {row, o}), k.f32(0));
        k.store(d, dz, {a, o});
        k.store(d * inverse, scaled, {a, o});
        if (dzParts)
          k.accumulate(d, dzParts, {chunk, o});
      });
    });
    Value g = tile.scratch(); // dz W
    int64_t block = k.lanes() == 16 ? 8 : 4;
    panels.loop([&](Val panel) {
      blocksOf(tile.tokens, block, [&](int64_t first, int64_t count) {
        multiply(first, count, outputs, dz, weight, {panel}, g, {panel},
                 /*transposed=*/false);
      });
      blocksOf(outputs, block, [&](int64_t first, int64_t count) {
        multiply(first, count, tile.tokens, scaled, tile.values, {panel}, sums,
                 {chunk, panel}, /*transposed=*/true);
      });
    });
    tile.groupsOfTokens(
        [&](ArrayRef<Val> numbers) { storeStreams(tile, numbers, g); });
  }

  /// out[i] = Σ_j factors[i, j] rows[j] for i in [first, first + count) and j
  /// in [0, terms), rows of a panel; added to what is there where the factors
  /// are transposed.
  void multiply(int64_t first, int64_t count, int64_t terms, Value factors,
                Value from, ArrayRef<Val> fromPanel, Value out,
                ArrayRef<Val> outPanel, bool transposed) {
    auto at = [&](ArrayRef<Val> panel, Val row) {
      SmallVector<Val> all(panel);
      all.append({row, k.index(0)});
      return all;
    };
    SmallVector<Val> init;
    for (int64_t i = 0; i < count; ++i)
      init.push_back(transposed
                         ? k.loadGroup(out, at(outPanel, k.index(first + i)))
                         : k.splatChannels(k.f32(0)));
    SmallVector<Val> totals =
        k.loop(k.index(0), k.index(terms), k.index(1), init,
               [&](Val j, ArrayRef<Val> in) {
                 Val row = k.loadGroup(from, at(fromPanel, j));
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
      k.storeGroup(totals[i], out, at(outPanel, k.index(first + i)));
  }

  /// dx = (g − mean(g) − u mean(g u)) / σ.
  void storeStreams(const Tile &tile, ArrayRef<Val> numbers, Value g) {
    Val width = k.f32(static_cast<double>(panels.width));
    SmallVector<Val> along = tile.sums(numbers, [&](size_t i, Val panel) {
      return tile.load(g, panel, numbers[i]) *
             tile.load(tile.values, panel, numbers[i]);
    });
    SmallVector<Val> sum;
    if (rows.kind == NormKind::layer)
      sum = tile.sums(numbers, [&](size_t i, Val panel) {
        return tile.load(g, panel, numbers[i]);
      });
    for (auto [i, a] : llvm::enumerate(numbers))
      k.ifThen(tile.exists(a), [&, i = i, a = a] {
        Val inverse = tile.inverse(a), row = tile.row(a);
        Val slope = k.splatChannels(along[i] * inverse * inverse / width);
        Val factor = k.splatChannels(inverse);
        Val mean = sum.empty() ? Val() : k.splatChannels(sum[i] / width);
        panels.loop([&](Val panel) {
          Val value =
              tile.load(g, panel, a) - tile.load(tile.values, panel, a) * slope;
          if (mean)
            value = value - mean;
          k.storeChannels(panels.channels(panel), value * factor, dx, {row});
        });
      });
  }

  Panels panels;
  Value weight, sums;
};
} // namespace

void stream_logits::emitInPanels(StreamLogitsOp::Adaptor in, const Rows &rows,
                                 Value out) {
  Logits(in, rows, out).emit();
}

void stream_logits::emitVjpInPanels(KernelBuilder &k, StreamLogitsVjpOp op,
                                    StreamLogitsVjpOp::Adaptor in,
                                    ValueRange outputs) {
  PanelAdjoint(k, op, in, outputs).emit();
}
