// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading and writing streams: one pass over a token's streams, with its n or
// n×n coefficients held as scalars.
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

using namespace mlir;
using namespace jpmhc;

namespace {
/// Up to this many streams n×n coefficients unroll into one loop over channels;
/// beyond, one row of them at a time.
constexpr int64_t kUnrolledStreams = 8;
/// Up to this many streams all n×n sums over channels are taken in one loop.
constexpr int64_t kUnrolledSums = 4;

/// Streams [N, n, p] of one token.
struct Streams {
  Streams(KernelBuilder &k, Value buffer)
      : buffer(buffer), count(cast<MemRefType>(buffer.getType()).getDimSize(1)),
        channels(k.dim(buffer, 2)) {}
  Value buffer;
  int64_t count;
  Val channels;
};
} // namespace

/// memref[row, prefix..., j] for every stream j.
static SmallVector<Val> coefficients(KernelBuilder &k, Value memref,
                                     ArrayRef<Val> position, int64_t n) {
  SmallVector<Val> all, at(position);
  at.push_back(Val());
  for (int64_t j = 0; j < n; ++j) {
    at.back() = k.index(j);
    all.push_back(k.load(memref, at));
  }
  return all;
}

static SmallVector<Val> channel(KernelBuilder &k, const Streams &x, Val row,
                                Val c) {
  SmallVector<Val> all;
  for (int64_t j = 0; j < x.count; ++j)
    all.push_back(k.load(x.buffer, {row, k.index(j), c}));
  return all;
}

static Val dot(ArrayRef<Val> a, ArrayRef<Val> b) {
  Val total = a[0] * b[0];
  for (size_t i = 1; i < a.size(); ++i)
    total = total + a[i] * b[i];
  return total;
}

/// out_i += Σ_j matrix_ij in_j (matrix_ji if transposed) for all channels of a
/// row; `extra`, if given, is added.
static void mix(KernelBuilder &k, Val row, const Streams &in, Value matrix,
                bool transposed, const Streams &out,
                function_ref<Val(Val i, Val c)> extra) {
  int64_t n = in.count;
  auto entriesOf = [&](Val i) {
    SmallVector<Val> all;
    for (int64_t j = 0; j < n; ++j)
      all.push_back(transposed ? k.load(matrix, {row, k.index(j), i})
                               : k.load(matrix, {row, i, k.index(j)}));
    return all;
  };
  auto emit = [&](Val i, ArrayRef<Val> entries, ArrayRef<Val> x, Val c) {
    Val total = dot(entries, x);
    k.store(extra ? total + extra(i, c) : total, out.buffer, {row, i, c});
  };
  if (n > kUnrolledStreams)
    return k.loop(k.index(0), k.index(n), [&](Val i) {
      SmallVector<Val> entries = entriesOf(i);
      k.columns(in.channels,
                [&](Val c) { emit(i, entries, channel(k, in, row, c), c); });
    });
  SmallVector<SmallVector<Val>> entries;
  for (int64_t i = 0; i < n; ++i)
    entries.push_back(entriesOf(k.index(i)));
  k.columns(in.channels, [&](Val c) {
    SmallVector<Val> x = channel(k, in, row, c);
    for (int64_t i = 0; i < n; ++i)
      emit(k.index(i), entries[i], x, c);
  });
}

// ---- read

void StreamReadOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                              ValueRange outputs) {
  Adaptor in(inputs, *this);
  Streams x(k, in.getX());
  k.rows(k.dim(x.buffer, 0), [&](Val row) {
    SmallVector<Val> r = coefficients(k, in.getRead(), {row}, x.count);
    k.columns(x.channels, [&](Val c) {
      k.store(dot(r, channel(k, x, row, c)), outputs[0], {row, c});
    });
  });
}

void StreamReadVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                 ValueRange outputs) {
  Adaptor in(inputs, *this);
  Streams x(k, in.getX());
  k.rows(k.dim(x.buffer, 0), [&](Val row) {
    SmallVector<Val> r = coefficients(k, in.getRead(), {row}, x.count);
    SmallVector<Reduction> kinds(x.count, Reduction::sum);
    SmallVector<Val> sums = k.reduceColumns(x.channels, kinds, [&](Val c) {
      Val d = k.load(in.getDxIn(), {row, c});
      SmallVector<Val> terms = channel(k, x, row, c);
      for (int64_t j = 0; j < x.count; ++j) {
        k.store(r[j] * d, outputs[0], {row, k.index(j), c});
        terms[j] = terms[j] * d;
      }
      return terms;
    });
    for (int64_t j = 0; j < x.count; ++j)
      k.store(sums[j], outputs[1], {row, k.index(j)});
  });
}

// ---- write

void StreamWriteOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                               ValueRange outputs) {
  Adaptor in(inputs, *this);
  Streams x(k, in.getX()), out(k, outputs[0]);
  double scale = getScale().convertToDouble();
  k.rows(k.dim(x.buffer, 0), [&](Val row) {
    mix(k, row, x, in.getMixer(), /*transposed=*/false, out, [&](Val i, Val c) {
      return k.load(in.getWrite(), {row, i}) * scale *
             k.load(in.getY(), {row, c});
    });
  });
}

namespace {
/// The adjoint of a write for one row.
class WriteAdjoint {
public:
  WriteAdjoint(KernelBuilder &k, StreamWriteVjpOp::Adaptor in,
               ValueRange outputs, double scale)
      : k(k), in(in), outputs(outputs), scale(scale), x(k, in.getX()),
        dout(k, in.getDout()), n(x.count) {}

  void emit() {
    k.rows(k.dim(x.buffer, 0), [&](Val row) {
      if (n <= kUnrolledSums)
        return emitOnePass(row);
      k.loop(k.index(0), k.index(n), [&](Val i) { emitSums(row, i); });
      mix(k, row, dout, in.getMixer(), /*transposed=*/true,
          Streams(k, outputs[0]), nullptr);
      SmallVector<Val> q = coefficients(k, in.getWrite(), {row}, n);
      k.columns(x.channels, [&](Val c) {
        k.store(dot(q, channel(k, dout, row, c)) * scale, outputs[3], {row, c});
      });
    });
  }

private:
  /// dH_i and dq_i.
  void emitSums(Val row, Val i) {
    SmallVector<Reduction> kinds(n + 1, Reduction::sum);
    SmallVector<Val> sums = k.reduceColumns(x.channels, kinds, [&](Val c) {
      Val d = k.load(dout.buffer, {row, i, c});
      SmallVector<Val> terms = channel(k, x, row, c);
      terms.push_back(k.load(in.getY(), {row, c}));
      for (Val &term : terms)
        term = term * d;
      return terms;
    });
    storeSums(row, i, sums);
  }

  void storeSums(Val row, Val i, ArrayRef<Val> sums) {
    for (int64_t j = 0; j < n; ++j)
      k.store(sums[j], outputs[1], {row, i, k.index(j)});
    k.store(sums[n] * scale, outputs[2], {row, i});
  }

  /// Everything in one loop over channels.
  void emitOnePass(Val row) {
    SmallVector<SmallVector<Val>> columns(n); // of H
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = 0; i < n; ++i)
        columns[j].push_back(
            k.load(in.getMixer(), {row, k.index(i), k.index(j)}));
    SmallVector<Val> q = coefficients(k, in.getWrite(), {row}, n);
    SmallVector<Reduction> kinds(n * (n + 1), Reduction::sum);
    SmallVector<Val> sums = k.reduceColumns(x.channels, kinds, [&](Val c) {
      SmallVector<Val> d = channel(k, dout, row, c);
      SmallVector<Val> factors = channel(k, x, row, c), terms;
      factors.push_back(k.load(in.getY(), {row, c}));
      for (int64_t j = 0; j < n; ++j)
        k.store(dot(columns[j], d), outputs[0], {row, k.index(j), c});
      k.store(dot(q, d) * scale, outputs[3], {row, c});
      for (Val di : d)
        for (Val factor : factors)
          terms.push_back(di * factor);
      return terms;
    });
    for (int64_t i = 0; i < n; ++i)
      storeSums(row, k.index(i), ArrayRef(sums).slice(i * (n + 1), n + 1));
  }

  KernelBuilder &k;
  StreamWriteVjpOp::Adaptor in;
  ValueRange outputs;
  double scale;
  Streams x, dout;
  int64_t n;
};
} // namespace

void StreamWriteVjpOp::emitKernel(KernelBuilder &k, ValueRange inputs,
                                  ValueRange outputs) {
  WriteAdjoint(k, Adaptor(inputs, *this), outputs, getScale().convertToDouble())
      .emit();
}
