// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Box filters along tokens without subtraction.
//
// A sequence is cut into blocks of exactly b tokens (b the width, at most its
// length), so that every window is the tail of one block and the head of the
// next: its sum is a suffix sum of the block before plus a prefix sum of its
// own. Nothing is ever subtracted, so a spike, an Inf or a NaN leaves with the
// windows that hold it, and no error outlives a block.
//
// Suffix sums are kept for sub-blocks of a few tokens only, and made fine again
// for one sub-block of the block before just ahead of the matching sub-block of
// the current one: what is stored for b tokens is b / kSubBlock numbers of each
// channel, and the tokens are read a second time, b tokens later, from cache.
//
// The second pass takes what the first makes as it comes; of that, the last b
// tokens are kept in f32 (a ring). Sums are in f64.
//
// The values of a block depend on nothing but the two blocks before it: a
// sequence may be cut into chunks of whole blocks that work apart, each warming
// up on the blocks before it, with bit-equal results.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include <cmath>

using namespace mlir;
using namespace jpmhc;

namespace {

/// Tokens that a CPU fetches ahead: rows of a group lie a whole token apart,
/// which hardware does not foresee.
constexpr double kAhead = 16;

/// Emits a filter over [batch, T, D], forward or adjoint, one pass or two.
/// `use` gets its value at each token.
class FilterKernel {
public:
  struct Point {
    Val batch, token;
    Val ahead; ///< a later token, to prefetch
    Channels channels;
    Val input; ///< f32, as loaded
    Val value; ///< f64
    Val owned; ///< i1: whether this place is to be written; null: always
  };
  /// Returns what to carry on to the next token (f64).
  using Use = function_ref<SmallVector<Val>(const Point &, ArrayRef<Val>)>;
  /// Called with the row of the kernel before and after it walked its tokens.
  using Edge = function_ref<void(Val row, Channels)>;
  using EndOfSequence = function_ref<void(ArrayRef<Val>)>;

  FilterKernel(KernelBuilder &k, Value input, Value width, Value segments,
               int64_t passes, bool adjoint)
      : k(k), input(k.asRows(input, 2)),
        segments(segments ? k.asRows(segments, 1) : Value()),
        width(k.launchArgument(width)), passes(passes), adjoint(adjoint) {
    auto shape = cast<MemRefType>(this->input.getType()).getShape();
    batches = shape[0];
    tokens = shape[1];
    depth = shape[2];
    groups = llvm::divideCeil(depth, k.groupSize());
    subBlock = k.groupSize() == 1 ? 8 : 32;
    chunks = chooseChunks();
  }

  int64_t groupsOfChannels() const { return groups; }
  /// Rows of the kernel: chunks of all sequences; 0 when there is no work.
  int64_t rows() const { return tokens == 0 ? 0 : batches * chunks; }

  void emit(unsigned carries, Use use, Edge begin, EndOfSequence endOfSequence,
            Edge end) {
    if (batches * tokens * depth == 0)
      return;
    if (segments)
      findEnds();
    allocate();
    k.channels(k.index(rows()), k.index(depth), [&](Val row, Channels c) {
      Val chunk = row % k.index(chunks);
      Walk walk;
      walk.batch = row / k.index(chunks);
      walk.channels = c;
      walk.chunk = chunk;
      walk.localFirst =
          k.scratch({subBlock, k.groupSize()}, k.builder.getF64Type());
      if (passes == 2)
        walk.localSecond =
            k.scratch({subBlock, k.groupSize()}, k.builder.getF64Type());
      begin(row, c);
      if (segments)
        walkSegments(walk, carries, use, endOfSequence);
      else
        endOfSequence(walkSequence(walk, k.index(0), k.index(tokens), chunk,
                                   chunks, carries, use));
      end(row, c);
    });
  }

private:
  /// One row of the kernel: a chunk of a batch's sequence, a group of channels.
  struct Walk {
    Val batch;
    Channels channels;
    Val chunk;
    Value localFirst, localSecond; ///< window sums up to the current sub-block
  };

  /// A sequence in its own direction: position 0 is its first token, or its
  /// last for the adjoint, whose windows reach forward.
  struct Sequence {
    Val first, length, width;
    Val ring;   ///< where the ring starts
    Val suffix; ///< where the suffix sums start
    Val quanta; ///< sub-blocks of a block
  };

  /// Enough rows to keep a machine busy; a chunk reads two blocks more than it
  /// makes, so it should be long.
  int64_t chooseChunks() const {
    bool gpu = k.groupSize() == 1;
    int64_t wanted = gpu ? 65536 : 32, shortest = gpu ? 256 : 2048;
    int64_t others = std::max<int64_t>(batches * groups, 1);
    return std::clamp<int64_t>(llvm::divideCeil(wanted, others), 1,
                               std::max<int64_t>(tokens / shortest, 1));
  }

  /// Buffers along tokens, one line a row of channels: a group's lines lie
  /// together on a CPU, neighbouring channels on a GPU.
  Value linesOf(int64_t length, Type element) {
    return k.groupSize() == 1
               ? k.temporary({batches, 1, length, depth}, element)
               : k.temporary({batches, groups, length, k.groupSize()}, element);
  }
  SmallVector<Val> line(const Walk &walk, Val at) {
    if (k.groupSize() == 1)
      return {walk.batch, k.index(0), at, walk.channels.first};
    return {walk.batch, walk.channels.group, at, k.index(0)};
  }

  void allocate() {
    Type f64 = k.builder.getF64Type();
    int64_t sums = tokens / subBlock + 2 * chunks + 2;
    suffixFirst = linesOf(sums, f64);
    if (passes == 2) {
      suffixSecond = linesOf(sums, f64);
      ring = linesOf(tokens, k.builder.getF32Type());
    }
  }

  /// ends[b, t] = one past the last token of the segment that holds t.
  void findEnds() {
    Type i32 = k.builder.getI32Type();
    ends = k.temporary({batches, tokens}, i32);
    Val n = k.index(tokens);
    k.rows(k.index(batches), [&](Val b) {
      k.loop(k.index(0), n, k.index(1), {n}, [&](Val j, ArrayRef<Val> carried) {
        Val t = n - 1.0 - j, next = min(t + 1.0, n - 1.0);
        Val same = equal(k.load(segments, {b, t}), k.load(segments, {b, next}));
        Val end = select(same, carried[0], t + 1.0);
        k.store(k.toInt(end), ends, {b, t});
        return SmallVector<Val>{end};
      });
    });
  }

  void walkSegments(const Walk &walk, unsigned carries, Use use,
                    EndOfSequence endOfSequence) {
    auto bound = [&](Val chunk) {
      return chunk * k.index(tokens) / k.index(chunks);
    };
    k.loop(bound(walk.chunk), bound(walk.chunk + 1.0), [&](Val t) {
      Val before = max(t, k.index(1)) - 1.0;
      Val id = k.load(segments, {walk.batch, t});
      Val starts = equal(t, k.index(0)) ||
                   inverse(equal(id, k.load(segments, {walk.batch, before})));
      k.ifThen(starts, [&] {
        Val end = k.toIndex(k.load(ends, {walk.batch, t}));
        endOfSequence(
            walkSequence(walk, t, end - t, k.index(0), 1, carries, use));
      });
    });
  }

  /// Chunk `chunk` of `chunks` of the sequence [first, first + length).
  SmallVector<Val> walkSequence(const Walk &walk, Val first, Val length,
                                Val chunk, int64_t chunks, unsigned carries,
                                Use use) {
    Sequence s;
    s.first = first;
    s.length = length;
    s.width = max(min(width, length), k.index(1));
    s.quanta = (s.width + (subBlock - 1.0)) / k.index(subBlock);
    // Every chunk but the empty has a whole block, whose places in the ring are
    // its own; the last takes the rest.
    Val whole = length / s.width;
    Val blocks = (length + (s.width - 1.0)) / s.width;
    Val begin = whole * chunk / k.index(chunks);
    Val end = select(equal(chunk, k.index(chunks - 1)), blocks,
                     whole * (chunk + 1.0) / k.index(chunks));
    Val warmUp = begin - min(begin, k.index(passes));
    warmUp = select(begin < end, warmUp, end);
    s.ring = first + begin * s.width;
    s.suffix = s.ring / k.index(subBlock) + walk.chunk * 2.0;
    Val zero = k.splatChannels(k.f64(0));
    for (Value sums : {suffixFirst, suffixSecond})
      if (sums)
        k.storeGroup(zero, sums, line(walk, s.suffix + s.quanta));
    return k.loop(warmUp, end, k.index(1), SmallVector<Val>(carries, zero),
                  [&](Val block, ArrayRef<Val> carried) {
                    Val owned = chunks > 1 ? block >= begin : Val();
                    return walkBlock(walk, s, block, block > warmUp, owned,
                                     carried, use);
                  });
  }

  SmallVector<Val> walkBlock(const Walk &walk, const Sequence &s, Val block,
                             Val hasBefore, Val owned, ArrayRef<Val> carried,
                             Use use) {
    Val start = block * s.width;
    Val length = min(s.width, s.length - start);
    Val zero = k.splatChannels(k.f64(0));
    SmallVector<Val> init(passes, zero);
    llvm::append_range(init, carried);
    Val quanta = (length + (subBlock - 1.0)) / k.index(subBlock);
    SmallVector<Val> out =
        k.loop(k.index(0), quanta, k.index(1), init,
               [&](Val quantum, ArrayRef<Val> in) {
                 Val lower = quantum * k.index(subBlock);
                 Val upper = min(lower + double(subBlock), length);
                 ArrayRef<Val> sums = in.take_front(passes);
                 k.ifThen(hasBefore, [&] {
                   fillFromBlockBefore(walk, s, start, quantum, lower, sums);
                 });
                 k.ifThen(inverse(hasBefore), [&] {
                   k.loop(k.index(0), upper - lower, [&](Val i) {
                     for (auto [sum, local] : llvm::zip(sums, locals(walk)))
                       k.storeGroup(sum, local, {i, k.index(0)});
                   });
                 });
                 return walkSubBlock(walk, s, start, quantum, lower, upper,
                                     owned, in, use);
               });
    k.ifThen(s.quanta > k.index(1), [&] { sumSuffixes(walk, s); });
    return SmallVector<Val>(ArrayRef(out).drop_front(passes));
  }

  SmallVector<Value, 2> locals(const Walk &walk) {
    return passes == 2
               ? SmallVector<Value, 2>{walk.localFirst, walk.localSecond}
               : SmallVector<Value, 2>{walk.localFirst};
  }
  SmallVector<Value, 2> suffixes() {
    return passes == 2 ? SmallVector<Value, 2>{suffixFirst, suffixSecond}
                       : SmallVector<Value, 2>{suffixFirst};
  }

  /// local[i] = sum of the block before after its token lower + i, plus `sums`
  /// (the current block before `lower`).
  void fillFromBlockBefore(const Walk &walk, const Sequence &s, Val start,
                           Val quantum, Val lower, ArrayRef<Val> sums) {
    Val upper = min(lower + double(subBlock), s.width);
    SmallVector<Val> init;
    for (auto [sum, suffix] : llvm::zip(sums, suffixes()))
      init.push_back(sum +
                     k.loadGroup(suffix, line(walk, s.suffix + quantum + 1.0)));
    k.loop(k.index(0), upper - lower, k.index(1), init,
           [&](Val j, ArrayRef<Val> in) {
             Val i = upper - 1.0 - j, at = start - s.width + i;
             SmallVector<Val> terms{
                 firstTerm(walk, s, at, loadInput(walk, s, at))};
             if (passes == 2)
               terms.push_back(
                   k.toDouble(k.loadGroup(ring, line(walk, s.ring + i))));
             SmallVector<Val> next;
             for (auto [sum, term, local] :
                  llvm::zip(in, terms, locals(walk))) {
               k.storeGroup(sum, local, {i - lower, k.index(0)});
               next.push_back(sum + term);
             }
             return next;
           });
  }

  SmallVector<Val> walkSubBlock(const Walk &walk, const Sequence &s, Val start,
                                Val quantum, Val lower, Val upper, Val owned,
                                ArrayRef<Val> in, Use use) {
    Val zero = k.splatChannels(k.f64(0));
    SmallVector<Val> init(passes, zero);
    llvm::append_range(init, in.drop_front(passes));
    SmallVector<Val> out = k.loop(
        lower, upper, k.index(1), init, [&](Val i, ArrayRef<Val> carried) {
          Val at = start + i, token = tokenAt(s, at);
          Val ahead = tokenAt(s, min(at + kAhead, s.length - 1.0));
          k.prefetchChannels(walk.channels, input, {walk.batch, ahead});
          Val x = loadInput(walk, s, at), share = shareOf(s, at);
          SmallVector<Val> next{carried[0] + firstTerm(walk, s, at, x)};
          auto window = [&](unsigned pass) {
            return next[pass] +
                   k.loadGroup(locals(walk)[pass], {i - lower, k.index(0)});
          };
          Val value = window(0);
          if (passes == 2) {
            Val between = value * share;
            k.storeGroup(between, ring, line(walk, s.ring + i));
            next.push_back(carried[1] + between);
            value = window(1);
          }
          Point point{walk.batch,    token, ahead,
                      walk.channels, x,     adjoint ? value : value * share,
                      owned};
          llvm::append_range(next, use(point, carried.drop_front(passes)));
          return next;
        });
    k.ifThen(s.quanta > k.index(1), [&] {
      for (auto [sum, suffix] : llvm::zip(out, suffixes()))
        k.storeGroup(sum, suffix, line(walk, s.suffix + quantum));
    });
    for (int64_t pass = 0; pass < passes; ++pass)
      out[pass] = in[pass] + out[pass];
    return out;
  }

  /// Turns the sums of the sub-blocks into suffix sums.
  void sumSuffixes(const Walk &walk, const Sequence &s) {
    SmallVector<Val> init(passes, k.splatChannels(k.f64(0)));
    k.loop(k.index(0), s.quanta, k.index(1), init,
           [&](Val j, ArrayRef<Val> in) {
             Val at = s.suffix + (s.quanta - 1.0 - j);
             SmallVector<Val> next;
             for (auto [sum, suffix] : llvm::zip(in, suffixes())) {
               next.push_back(sum + k.loadGroup(suffix, line(walk, at)));
               k.storeGroup(next.back(), suffix, line(walk, at));
             }
             return next;
           });
  }

  Val tokenAt(const Sequence &s, Val at) {
    return adjoint ? s.first + (s.length - 1.0 - at) : s.first + at;
  }
  Val loadInput(const Walk &walk, const Sequence &s, Val at) {
    return k.loadChannels(walk.channels, input, {walk.batch, tokenAt(s, at)});
  }
  /// 1 / w of a position.
  Val shareOf(const Sequence &s, Val at) {
    Val count = adjoint ? s.length - at : at + 1.0;
    return k.f64(1) / k.toDouble(min(count, s.width));
  }
  /// What the first pass sums.
  Val firstTerm(const Walk &walk, const Sequence &s, Val at, Val loaded) {
    Val x = k.toDouble(loaded);
    return adjoint ? x * shareOf(s, at) : x;
  }

  KernelBuilder &k;
  Value input, segments;
  Val width;
  int64_t passes;
  bool adjoint;
  int64_t batches, tokens, depth, groups, subBlock, chunks;
  Value ends, ring, suffixFirst, suffixSecond;
};

} // namespace

static void noEdge(Val, Channels) {}
static void noEnd(ArrayRef<Val>) {}

/// Runs `store` where a point is to be written.
static void whereOwned(KernelBuilder &k, const FilterKernel::Point &p,
                       function_ref<void()> store) {
  if (p.owned)
    k.ifThen(p.owned, store);
  else
    store();
}

static void emitFilter(KernelBuilder &k, Value input, Value width,
                       Value segments, int64_t passes, bool adjoint,
                       Value output) {
  FilterKernel filter(k, input, width, segments, passes, adjoint);
  Value out = k.asRows(output, 2);
  filter.emit(
      0,
      [&](const FilterKernel::Point &p, ArrayRef<Val>) {
        whereOwned(k, p, [&] {
          k.storeChannels(p.channels, p.value, out, {p.batch, p.token});
        });
        return SmallVector<Val>{};
      },
      noEdge, noEnd, noEdge);
}

void TriboxOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                          ValueRange outputs) {
  Adaptor in(inputs, *this);
  emitFilter(k, in.getX(), in.getWidth(), in.getSegments(), getPasses(),
             /*adjoint=*/false, outputs[0]);
}

void TriboxTransposeOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                   ValueRange outputs) {
  Adaptor in(inputs, *this);
  emitFilter(k, in.getDy(), in.getWidth(), in.getSegments(), getPasses(),
             /*adjoint=*/true, outputs[0]);
}

void SidePathOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                            ValueRange outputs) {
  Adaptor in(inputs, *this);
  FilterKernel filter(k, in.getX(), in.getWidth(), in.getSegments(),
                      getPasses(), /*adjoint=*/false);
  Value attn = k.asRows(in.getAttn(), 2), out = k.asRows(outputs[0], 2);
  Val gate;
  filter.emit(
      0,
      [&](const FilterKernel::Point &p, ArrayRef<Val>) {
        k.prefetchChannels(p.channels, attn, {p.batch, p.ahead});
        k.prefetchChannels(p.channels, out, {p.batch, p.ahead}, true);
        whereOwned(k, p, [&] {
          Val a = k.loadChannels(p.channels, attn, {p.batch, p.token});
          k.storeChannels(p.channels, p.input + a + gate * k.toFloat(p.value),
                          out, {p.batch, p.token});
        });
        return SmallVector<Val>{};
      },
      [&](Val, Channels) { gate = k.load(in.getGate(), {}); }, noEnd, noEdge);
}

void SidePathVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                               ValueRange outputs) {
  Adaptor in(inputs, *this);
  FilterKernel filter(k, in.getDy(), in.getWidth(), in.getSegments(),
                      getPasses(), /*adjoint=*/true);
  Value x = k.asRows(in.getX(), 2), dx = k.asRows(outputs[0], 2);
  Value parts = k.temporary({filter.rows() * filter.groupsOfChannels()});
  Value total;
  Val gate;
  filter.emit(
      1,
      [&](const FilterKernel::Point &p, ArrayRef<Val> carried) {
        k.prefetchChannels(p.channels, x, {p.batch, p.ahead});
        k.prefetchChannels(p.channels, dx, {p.batch, p.ahead}, true);
        Val w = k.toFloat(p.value);
        whereOwned(k, p, [&] {
          k.storeChannels(p.channels, p.input + gate * w, dx,
                          {p.batch, p.token});
        });
        Val here = k.loadChannels(p.channels, x, {p.batch, p.token});
        Val sum = carried[0] + k.toDouble(here) * p.value;
        return SmallVector<Val>{p.owned ? select(p.owned, sum, carried[0])
                                        : sum};
      },
      [&](Val, Channels) {
        gate = k.load(in.getGate(), {});
        total = k.scratch({k.groupSize()}, k.builder.getF64Type());
        k.storeGroup(k.splatChannels(k.f64(0)), total, {k.index(0)});
      },
      [&](ArrayRef<Val> carried) {
        k.storeGroup(k.loadGroup(total, {k.index(0)}) + carried[0], total,
                     {k.index(0)});
      },
      [&](Val row, Channels c) {
        Val place = row * k.index(filter.groupsOfChannels()) + c.group;
        k.store(k.toFloat(k.sumGroup(k.loadGroup(total, {k.index(0)}))), parts,
                {place});
      });
  k.rows(k.index(1), [&](Val) {
    Val sum = k.sum(k.dim(parts, 0), [&](Val i) { return k.load(parts, {i}); });
    k.store(sum, outputs[1], {});
  });
}

// ---- the gate ----

namespace {
/// What the gate and its reverse-mode rule both compute.
struct GateParts {
  Val logShare;  ///< ln(width / context)
  Val log2Share; ///< the network's input
  Val sigmoid;   ///< of the network's output
  Val power;     ///< share ^ softplus(beta)
};
} // namespace

template <typename Adaptor>
static Val hiddenOf(KernelBuilder &k, Adaptor in, Val input, Val i) {
  return tanh(k.load(in.getW1(), {i}) * input + k.load(in.getB1(), {i}));
}

template <typename Adaptor>
static GateParts gateParts(KernelBuilder &k, Adaptor in, Val width,
                           Val context) {
  GateParts g;
  g.logShare = log(k.toFloat(width) / k.toFloat(context));
  g.log2Share = g.logShare * (1 / std::log(2.0));
  Val z = k.sum(k.dim(in.getW1(), 0), [&](Val i) {
    return k.load(in.getW2(), {i}) * hiddenOf(k, in, g.log2Share, i);
  });
  g.sigmoid = sigmoid(z + k.load(in.getB2(), {}));
  Val beta = k.load(in.getBeta(), {});
  Val softplus = max(beta, k.f32(0)) + log(1.0 + exp(-abs(beta)));
  g.power = exp(softplus * g.logShare);
  return g;
}

void CoverageGateOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  Adaptor in(inputs, *this);
  Val width = k.launchArgument(in.getWidth()),
      context = k.launchArgument(in.getContext());
  k.rows(k.index(1), [&](Val) {
    GateParts g = gateParts(k, in, width, context);
    k.store(g.sigmoid * g.power, outputs[0], {});
  });
}

void CoverageGateVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                   ValueRange outputs) {
  Adaptor in(inputs, *this);
  Val width = k.launchArgument(in.getWidth()),
      context = k.launchArgument(in.getContext());
  k.rows(k.index(1), [&](Val) {
    GateParts g = gateParts(k, in, width, context);
    Val cotangent = k.load(in.getDgate(), {}) * g.power * g.sigmoid;
    Val dz = cotangent * (1.0 - g.sigmoid);
    k.columns(k.dim(in.getW1(), 0), [&](Val i) {
      Val hidden = hiddenOf(k, in, g.log2Share, i);
      Val dhidden =
          dz * k.load(in.getW2(), {i}) * (1.0 - hidden) * (1.0 + hidden);
      k.store(dhidden * g.log2Share, outputs[0], {i});
      k.store(dhidden, outputs[1], {i});
      k.store(dz * hidden, outputs[2], {i});
    });
    k.store(dz, outputs[3], {});
    k.store(cotangent * g.logShare * sigmoid(k.load(in.getBeta(), {})),
            outputs[4], {});
  });
}
