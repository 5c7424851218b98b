// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention without a matrix of scores.
//
// The lanes of a value are consecutive tokens of one head: queries, or keys for
// their own gradients. One column of their rows is one value, so a product with
// another token is a chain of multiply-adds with broadcast scalars, the softmax
// needs no reduction across lanes, and the other token's row is read where it
// lies, whatever its stride. Scores exist for one block of tokens at a time.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include <cmath>

using namespace mlir;
using namespace jpmhc;

namespace {

/// Tokens whose scores are held at once.
constexpr int64_t kBlock = 64;
/// Values that a loop accumulates in registers: as many as hide the latency of
/// a multiply-add on two pipes, and few enough for sixteen registers.
constexpr int64_t kTile = 8;

/// One head of a buffer [B, T, heads, d], by token.
struct HeadRows {
  Value rows; // [B·T, heads, d]
  Val begin;  // row of token 0
  Val head;
};

/// A range of the other tokens; those of a masked one may be hidden from some
/// lanes.
struct Span {
  Val lower, upper;
  bool masked;
};

/// The tokens that the lanes of one group hold.
struct Lanes {
  Val batch, head; // head of q, or group of k
  Val first;       // position in the sequence
  Tokens rows;     // of [B·T, ...]
  Val positions;   // i32
  Val ids;         // segments, if any
};

/// What the kernels of the op and of its reverse-mode rule share.
class Attention {
public:
  template <typename Op, typename Adaptor>
  Attention(KernelBuilder &k, Op op, Adaptor in)
      : k(k), q(k.asRows(in.getQ(), 2)), keys(k.asRows(in.getK(), 2)),
        values(k.asRows(in.getV(), 2)), segments(in.getSegmentIds()),
        causal(op.getCausal()), window(op.getWindow()) {
    auto type = cast<MemRefType>(in.getQ().getType());
    size = type.getDimSize(3);
    batches = k.dim(in.getQ(), 0);
    tokens = k.dim(in.getQ(), 1);
    heads = k.dim(in.getQ(), 2);
    groups = k.dim(in.getK(), 2);
    if (window >= type.getDimSize(1))
      window = 0; // hides nothing
    if (segments)
      segments = k.asRows(segments, 0);
  }

  double scale() const { return 1 / std::sqrt(static_cast<double>(size)); }

  /// A kernel over groups of lanes, for each of `count` heads of each sequence.
  void forEachGroup(Val count, function_ref<void(const Lanes &)> body) {
    Val lanes = k.index(k.lanes());
    Val blocks = (tokens + (k.lanes() - 1.0)) / lanes;
    k.tokenGroups(batches * count * blocks, [&](Val group) {
      Val sequence = group / blocks, first = group % blocks * lanes;
      Val batch = sequence / count, row = batch * tokens + first;
      Lanes l{batch,
              sequence % count,
              first,
              {row, min(lanes, tokens - first)},
              k.lanePositions(first),
              Val()};
      if (segments)
        l.ids = k.loadTokens(l.rows, segments, {});
      body(l);
    });
  }

  /// Keys that some query of the group sees.
  SmallVector<Span> keysOf(const Lanes &l) {
    Val next = min(l.first + static_cast<double>(k.lanes()), tokens);
    Val lower = k.index(0), upper = causal ? next : tokens;
    Val fullLower = lower, fullUpper = causal ? l.first : tokens;
    if (window) {
      // Query t sees keys from t - window + 1 on.
      lower = l.first + 1.0 - min(l.first + 1.0, k.index(window));
      fullLower = next - min(next, k.index(window));
    }
    return split(lower, fullLower, fullUpper, upper);
  }

  /// Queries that see some key of the group.
  SmallVector<Span> queriesOf(const Lanes &l) {
    Val next = min(l.first + static_cast<double>(k.lanes()), tokens);
    Val lower = causal ? l.first : k.index(0), upper = tokens;
    Val fullLower = causal ? next : lower, fullUpper = tokens;
    if (window) {
      // Key s is seen by queries up to s + window - 1.
      upper = min(next + (window - 1.0), tokens);
      fullUpper = l.first + static_cast<double>(window);
    }
    return split(lower, fullLower, fullUpper, upper);
  }

  /// Which lanes, being queries, see key `other`, or, being keys, are seen by
  /// query `other`.
  Val visible(const Lanes &l, Val other, bool lanesAreQueries) {
    Val position = k.toInt(other);
    Val query = lanesAreQueries ? l.positions : position,
        key = lanesAreQueries ? position : l.positions;
    Val result;
    auto require = [&](Val condition) {
      result = result ? result && condition : condition;
    };
    // Written with < and >: LLVM prefers them, and would exchange the sides of
    // every selection under <=, which then is no masked multiply-add.
    if (causal)
      require(key < query + 1.0);
    if (window)
      require(key + static_cast<double>(window) > query);
    if (segments)
      require(equal(l.ids, k.load(segments, {l.batch * tokens + other})));
    return result;
  }

  HeadRows rowsOf(Value rows, const Lanes &l, Val head) {
    return {rows, l.batch * tokens, head};
  }

  Value columns() { return k.scratch({size}, k.laneType()); }
  Value block() { return k.scratch({kBlock}, k.laneType()); }

  /// Σ_c columns[c] · rows[others[i], c] for each i.
  SmallVector<Val> products(Value columns, const HeadRows &head,
                            ArrayRef<Val> others) {
    SmallVector<Val> zeros(others.size(), k.splat(0));
    return k.loop(k.index(0), k.index(size), k.index(1), zeros,
                  [&](Val c, ArrayRef<Val> sums) {
                    Val x = k.load(columns, {c});
                    SmallVector<Val> next;
                    for (auto [sum, other] : llvm::zip(sums, others))
                      next.push_back(
                          sum + x * k.load(head.rows,
                                           {head.begin + other, head.head, c}));
                    return next;
                  });
  }

  /// Runs the body over the tokens of a range in blocks of `count` tokens from
  /// `first`, carrying values.
  SmallVector<Val>
  blocks(const Span &range, ArrayRef<Val> carried,
         function_ref<SmallVector<Val>(Val first, Val count, ArrayRef<Val>)>
             body) {
    return k.loop(range.lower, range.upper, k.index(kBlock), carried,
                  [&](Val first, ArrayRef<Val> values) {
                    Val count = min(k.index(kBlock), range.upper - first);
                    return body(first, count, values);
                  });
  }

  /// Runs the body over tiles of `kTile` tokens of a block; past the end, the
  /// last one is repeated.
  SmallVector<Val>
  tiles(Val first, Val count, ArrayRef<Val> carried,
        function_ref<SmallVector<Val>(Val slot, ArrayRef<Val> others,
                                      ArrayRef<Val>)>
            body) {
    Val last = first + count - 1.0;
    return k.loop(k.index(0), count, k.index(kTile), carried,
                  [&](Val slot, ArrayRef<Val> values) {
                    SmallVector<Val> others;
                    for (int64_t i = 0; i < kTile; ++i)
                      others.push_back(
                          min(first + slot + static_cast<double>(i), last));
                    return body(slot, others, values);
                  });
  }

  /// into[c] = into[c] · decay + Σ_i weights[i] · rows[first + i, c], over the
  /// tokens i < count that `mask`, if given, lets a lane see.
  void accumulate(Value weights, const HeadRows &head, Val first, Val count,
                  Val decay, function_ref<Val(Val)> mask, Value into) {
    auto tile = [&](Val column, int64_t width) {
      auto at = [&](int64_t j) { return column + static_cast<double>(j); };
      SmallVector<Val> sums;
      for (int64_t j = 0; j < width; ++j) {
        Val sum = k.load(into, {at(j)});
        sums.push_back(decay ? sum * decay : sum);
      }
      sums = k.loop(
          k.index(0), count, k.index(1), sums, [&](Val i, ArrayRef<Val> in) {
            Val other = first + i, weight = k.load(weights, {i});
            Val seen = mask ? mask(other) : Val();
            SmallVector<Val> next;
            for (int64_t j = 0; j < width; ++j) {
              Val sum = in[j] + weight * k.load(head.rows, {head.begin + other,
                                                            head.head, at(j)});
              next.push_back(seen ? select(seen, sum, in[j]) : sum);
            }
            return next;
          });
      for (int64_t j = 0; j < width; ++j)
        k.store(sums[j], into, {at(j)});
    };
    int64_t whole = size / kTile * kTile;
    if (whole > 0)
      k.loop(k.index(0), k.index(whole), k.index(kTile), {},
             [&](Val column, ArrayRef<Val>) {
               tile(column, kTile);
               return SmallVector<Val>{};
             });
    if (whole < size)
      tile(k.index(whole), size - whole);
  }

  void clear(Value columns) {
    k.loop(k.index(0), k.index(size),
           [&](Val c) { k.store(k.splat(0), columns, {c}); });
  }

  /// The lanes' elements of a buffer [B, H, T].
  Tokens perHead(const Lanes &l, Val head) {
    return {(l.batch * heads + head) * tokens + l.first, l.rows.count};
  }

  KernelBuilder &k;
  Value q, keys, values, segments;
  bool causal;
  int64_t window, size;
  Val batches, tokens, heads, groups;

private:
  /// Cuts [lower, upper) where the part that every lane sees begins and ends.
  SmallVector<Span> split(Val lower, Val fullLower, Val fullUpper, Val upper) {
    if (segments)
      return {{lower, upper, true}};
    if (!causal && !window)
      return {{lower, upper, false}};
    fullLower = min(max(fullLower, lower), upper);
    fullUpper = min(max(fullUpper, fullLower), upper);
    return {{lower, fullLower, true},
            {fullLower, fullUpper, false},
            {fullUpper, upper, true}};
  }
};

bool isEmpty(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  return llvm::is_contained(type.getShape(), 0);
}

constexpr double kInfinity = std::numeric_limits<double>::infinity();

} // namespace

// ---- forward

/// One block of keys of the online softmax: scores, their running maximum and
/// sum, the output so far in units of exp(maximum).
static SmallVector<Val> softmaxBlock(Attention &a, const Lanes &l, bool masked,
                                     Value queries, Value scores, Value out,
                                     Val first, Val count, ArrayRef<Val> old) {
  KernelBuilder &k = a.k;
  Val group = l.head / (a.heads / a.groups);
  HeadRows keys = a.rowsOf(a.keys, l, group),
           values = a.rowsOf(a.values, l, group);
  auto mask = [&](Val key) { return a.visible(l, key, true); };

  Val top =
      a.tiles(first, count, {old[0]},
              [&](Val slot, ArrayRef<Val> others, ArrayRef<Val> in) {
                SmallVector<Val> s = a.products(queries, keys, others);
                Val best = in[0];
                for (int64_t i = 0; i < kTile; ++i) {
                  if (masked)
                    s[i] = select(mask(others[i]), s[i], k.splat(-kInfinity));
                  k.store(s[i], scores, {slot + static_cast<double>(i)});
                  // A NaN is not taken for the maximum; it is met again
                  // in the sum.
                  best = select(s[i] > best, s[i], best);
                }
                return SmallVector<Val>{best};
              })[0];
  // No key so far: any finite number will do, exp(-inf) is 0.
  Val shift = select(top > k.splat(-kInfinity), top, k.splat(0));
  Val decay = exp(old[0] - shift);
  Val sum = k.loop(k.index(0), count, k.index(1), {old[1] * decay},
                   [&](Val i, ArrayRef<Val> in) {
                     Val p = exp(k.load(scores, {i}) - shift);
                     k.store(p, scores, {i});
                     return SmallVector<Val>{in[0] + p};
                   })[0];
  function_ref<Val(Val)> hide = mask;
  a.accumulate(scores, values, first, count, decay,
               masked ? hide : function_ref<Val(Val)>(), out);
  return {top, sum};
}

void AttentionOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                             ValueRange outputs) {
  if (isEmpty(outputs[0]))
    return;
  Attention a(k, *this, Adaptor(inputs, *this));
  Value result = k.asRows(outputs[0], 2), lse = k.asRows(outputs[1], 0);
  a.forEachGroup(a.heads, [&](const Lanes &l) {
    Value queries = a.columns(), out = a.columns(), scores = a.block();
    k.loadTransposed(l.rows, a.q, {l.head}, a.scale(), queries);
    a.clear(out);
    SmallVector<Val> state{k.splat(-kInfinity), k.splat(0)}; // maximum, sum
    for (const Span &range : a.keysOf(l))
      state =
          a.blocks(range, state, [&](Val first, Val count, ArrayRef<Val> in) {
            return softmaxBlock(a, l, range.masked, queries, scores, out, first,
                                count, in);
          });
    k.storeTransposed(l.rows, out, 1.0 / state[1], result, {l.head});
    k.storeTokens(a.perHead(l, l.head), state[0] + log(state[1]), lse, {});
  });
}

// ---- reverse mode

namespace {

/// The reverse-mode rule: Δ, then queries for dq, then keys for dk and dv.
class AttentionVjp {
public:
  AttentionVjp(Attention &a, Value dout, Value lse)
      : a(a), k(a.k), dout(k.asRows(dout, 2)), lse(k.asRows(lse, 0)) {
    delta = k.temporary(cast<MemRefType>(this->lse.getType()).getShape());
  }

  /// Δ[b, h, t] = dout · out.
  void emitDelta(Value out) {
    Value rows = k.asRows(out), other = k.asRows(dout);
    Val size = k.dim(rows, 1);
    k.rows(k.dim(rows, 0), [&](Val row) {
      Val head = row % a.heads, token = row / a.heads;
      Val position =
          (token / a.tokens * a.heads + head) * a.tokens + token % a.tokens;
      k.store(k.sum(size,
                    [&](Val c) {
                      return k.load(rows, {row, c}) * k.load(other, {row, c});
                    }),
              delta, {position});
    });
  }

  void emitQueries(Value dq) {
    Value result = k.asRows(dq, 2);
    a.forEachGroup(a.heads, [&](const Lanes &l) {
      Value queries = a.columns(), grads = a.columns(), sums = a.columns(),
            weights = a.block();
      k.loadTransposed(l.rows, a.q, {l.head}, a.scale(), queries);
      k.loadTransposed(l.rows, dout, {l.head}, 1, grads);
      a.clear(sums);
      Tokens mine = a.perHead(l, l.head);
      Val lseOf = k.loadTokens(mine, lse, {}),
          deltaOf = k.loadTokens(mine, delta, {});
      Val group = l.head / (a.heads / a.groups);
      HeadRows keys = a.rowsOf(a.keys, l, group),
               values = a.rowsOf(a.values, l, group);
      auto mask = [&](Val key) { return a.visible(l, key, true); };
      function_ref<Val(Val)> hide = mask;
      for (const Span &range : a.keysOf(l))
        a.blocks(range, {}, [&](Val first, Val count, ArrayRef<Val>) {
          a.tiles(first, count, {},
                  [&](Val slot, ArrayRef<Val> others, ArrayRef<Val>) {
                    SmallVector<Val> s = a.products(queries, keys, others),
                                     dp = a.products(grads, values, others);
                    for (int64_t i = 0; i < kTile; ++i)
                      k.store(exp(s[i] - lseOf) * (dp[i] - deltaOf), weights,
                              {slot + static_cast<double>(i)});
                    return SmallVector<Val>{};
                  });
          a.accumulate(weights, keys, first, count, Val(),
                       range.masked ? hide : function_ref<Val(Val)>(), sums);
          return SmallVector<Val>{};
        });
      k.storeTransposed(l.rows, sums, k.f32(a.scale()), result, {l.head});
    });
  }

  void emitKeys(Value dk, Value dv) {
    Value dkRows = k.asRows(dk, 2), dvRows = k.asRows(dv, 2);
    a.forEachGroup(a.groups, [&](const Lanes &l) {
      KeyColumns c{a.columns(), a.columns(), a.columns(),
                   a.columns(), a.block(),   a.block()};
      k.loadTransposed(l.rows, a.keys, {l.head}, a.scale(), c.keys);
      k.loadTransposed(l.rows, a.values, {l.head}, 1, c.values);
      a.clear(c.dk);
      a.clear(c.dv);
      Val ratio = a.heads / a.groups, firstHead = l.head * ratio;
      k.loop(firstHead, firstHead + ratio, [&](Val head) {
        for (const Span &range : a.queriesOf(l))
          a.blocks(range, {}, [&](Val first, Val count, ArrayRef<Val>) {
            keyBlock(l, head, range.masked, c, first, count);
            return SmallVector<Val>{};
          });
      });
      k.storeTransposed(l.rows, c.dk, k.f32(a.scale()), dkRows, {l.head});
      k.storeTransposed(l.rows, c.dv, k.f32(1), dvRows, {l.head});
    });
  }

private:
  struct KeyColumns {
    Value keys, values, dk, dv; // columns
    Value p, ds;                // one block of queries
  };

  /// What one block of queries adds to dk and dv.
  void keyBlock(const Lanes &l, Val head, bool masked, const KeyColumns &c,
                Val first, Val count) {
    HeadRows queries = a.rowsOf(a.q, l, head), grads = a.rowsOf(dout, l, head);
    Val begin = (l.batch * a.heads + head) * a.tokens;
    a.tiles(first, count, {},
            [&](Val slot, ArrayRef<Val> others, ArrayRef<Val>) {
              SmallVector<Val> s = a.products(c.keys, queries, others),
                               dp = a.products(c.values, grads, others);
              for (int64_t i = 0; i < kTile; ++i) {
                Val at = slot + static_cast<double>(i), row = begin + others[i];
                Val p = exp(s[i] - k.load(lse, {row}));
                k.store(p, c.p, {at});
                k.store(p * (dp[i] - k.load(delta, {row})), c.ds, {at});
              }
              return SmallVector<Val>{};
            });
    auto mask = [&](Val query) { return a.visible(l, query, false); };
    function_ref<Val(Val)> hide = mask;
    if (!masked)
      hide = nullptr;
    a.accumulate(c.p, grads, first, count, Val(), hide, c.dv);
    a.accumulate(c.ds, queries, first, count, Val(), hide, c.dk);
  }

  Attention &a;
  KernelBuilder &k;
  Value dout, lse, delta;
};

} // namespace

void AttentionVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                ValueRange outputs) {
  if (isEmpty(outputs[0]))
    return;
  Adaptor in(inputs, *this);
  Attention a(k, *this, in);
  AttentionVjp vjp(a, in.getDout(), in.getLse());
  vjp.emitDelta(in.getOut());
  vjp.emitQueries(outputs[0]);
  vjp.emitKeys(outputs[1], outputs[2]);
}
