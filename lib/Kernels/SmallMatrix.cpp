// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Kernels/SmallMatrix.h"

using namespace mlir;
using namespace jpmhc;

// ---- positions

template <typename Operator> static Pos combine(Pos a, Pos b, Operator apply) {
  if (a.isStatic() && b.isStatic())
    return Pos(apply(a.getNumber(), b.getNumber()));
  KernelBuilder &k = (a.isStatic() ? b : a).builder();
  return Pos(apply(a.getIndex(k), b.getIndex(k)));
}

Pos jpmhc::operator+(Pos a, Pos b) {
  return combine(a, b, [](auto x, auto y) { return x + y; });
}
Pos jpmhc::operator-(Pos a, Pos b) {
  return combine(a, b, [](auto x, auto y) { return x - y; });
}
Pos jpmhc::operator*(Pos a, Pos b) {
  return combine(a, b, [](auto x, auto y) { return x * y; });
}

// ---- matrices

SmallMatrix::SmallMatrix(KernelBuilder &k, int64_t rows, int64_t cols,
                         bool inRegisters)
    : kernel(&k), numRows(rows), numCols(cols) {
  if (inRegisters)
    entries.resize(rows * cols);
  else
    memory = k.scratch({std::max<int64_t>(rows * cols, 1), k.lanes()});
}

Val SmallMatrix::operator()(Pos i) const {
  if (!memory)
    return entries[i.getNumber()];
  return kernel->loadLanes(memory, {i.getIndex(*kernel), kernel->index(0)});
}

Val SmallMatrix::operator()(Pos i, Pos j) const {
  return (*this)(i * numCols + j);
}

void SmallMatrix::set(Pos i, Val value) {
  if (memory)
    kernel->storeLanes(value, memory, {i.getIndex(*kernel), kernel->index(0)});
  else
    entries[i.getNumber()] = value;
}

void SmallMatrix::set(Pos i, Pos j, Val value) { set(i * numCols + j, value); }

SmallMatrix SmallMatrix::shaped(int64_t rows, int64_t cols) && {
  numRows = rows;
  numCols = cols;
  return std::move(*this);
}

SmallMatrix SmallMath::matrix(int64_t rows, int64_t cols) const {
  return SmallMatrix(k, rows, cols, unrolled);
}

SmallMatrix SmallMath::history(int64_t rows, int64_t cols) const {
  return SmallMatrix(k, rows, cols, /*inRegisters=*/false);
}

SmallMatrix SmallMath::matrix(int64_t rows, int64_t cols,
                              function_ref<Val(Pos, Pos)> entry) const {
  SmallMatrix result = matrix(rows, cols);
  forEach(rows, cols, [&](Pos i, Pos j) { result.set(i, j, entry(i, j)); });
  return result;
}

SmallMatrix SmallMath::vector(int64_t size,
                              function_ref<Val(Pos)> entry) const {
  SmallMatrix result = vector(size);
  forEach(size, [&](Pos i) { result.set(i, entry(i)); });
  return result;
}

// ---- loops

void SmallMath::forEach(Pos lower, Pos upper,
                        function_ref<void(Pos)> body) const {
  if (!unrolled)
    return k.loop(lower.getIndex(k), upper.getIndex(k),
                  [&](Val i) { body(i); });
  for (int64_t i = lower.getNumber(); i < upper.getNumber(); ++i)
    body(i);
}

void SmallMath::forEach(int64_t rows, int64_t cols,
                        function_ref<void(Pos, Pos)> body) const {
  forEach(rows, [&](Pos i) { forEach(cols, [&](Pos j) { body(i, j); }); });
}

Val SmallMath::sum(Pos lower, Pos upper, function_ref<Val(Pos)> term) const {
  if (!unrolled)
    return k.loop(lower.getIndex(k), upper.getIndex(k), k.index(1),
                  {k.splat(0.0)}, [&](Val i, ArrayRef<Val> carried) {
                    return SmallVector<Val>{carried[0] + term(i)};
                  })[0];
  if (lower.getNumber() >= upper.getNumber())
    return k.splat(0.0);
  Val total = term(lower);
  for (int64_t i = lower.getNumber() + 1; i < upper.getNumber(); ++i)
    total = total + term(i);
  return total;
}

Val SmallMath::maximum(int64_t n, function_ref<Val(Pos)> term) const {
  Val largest = term(0);
  if (!unrolled)
    return k.loop(k.index(1), k.index(n), k.index(1), {largest},
                  [&](Val i, ArrayRef<Val> carried) {
                    return SmallVector<Val>{max(carried[0], term(i))};
                  })[0];
  for (int64_t i = 1; i < n; ++i)
    largest = max(largest, term(i));
  return largest;
}

void SmallMath::repeat(int64_t rounds, ArrayRef<SmallMatrix *> carried,
                       function_ref<void(Pos)> body) const {
  SmallVector<Val> init;
  for (SmallMatrix *matrix : carried)
    llvm::append_range(init, matrix->entries);
  auto assign = [&](ArrayRef<Val> values) {
    for (SmallMatrix *matrix : carried)
      for (Val &entry : matrix->entries) {
        entry = values.front();
        values = values.drop_front();
      }
  };
  assign(k.loop(k.index(0), k.index(rounds), k.index(1), init,
                [&](Val round, ArrayRef<Val> values) {
                  assign(values);
                  body(round);
                  SmallVector<Val> next;
                  for (SmallMatrix *matrix : carried)
                    llvm::append_range(next, matrix->entries);
                  return next;
                }));
}

void SmallMath::solve(SmallMatrix &left, SmallMatrix &right) const {
  int64_t n = left.rows(), columns = right.cols();
  auto exchange = [&](SmallMatrix &matrix, Val mask, Pos i, Pos k, Pos column) {
    Val lower = matrix(i, column), upper = matrix(k, column);
    matrix.set(i, column, select(mask, upper, lower));
    matrix.set(k, column, select(mask, lower, upper));
  };
  forEach(n, [&](Pos k) {
    forEach(k + 1, n, [&](Pos i) { // the largest pivot rises to row k
      Val mask = abs(left(i, k)) > abs(left(k, k));
      forEach(k, n, [&](Pos j) { exchange(left, mask, i, k, j); });
      forEach(columns, [&](Pos j) { exchange(right, mask, i, k, j); });
    });
    Val inverse = 1.0 / left(k, k);
    forEach(k + 1, n, [&](Pos i) {
      Val factor = -(left(i, k) * inverse);
      forEach(k + 1, n, [&](Pos j) { left.add(i, j, factor * left(k, j)); });
      forEach(columns, [&](Pos j) { right.add(i, j, factor * right(k, j)); });
    });
  });
  forEach(n, [&](Pos done) {
    Pos k = Pos(n - 1) - done;
    Val inverse = 1.0 / left(k, k);
    forEach(columns, [&](Pos j) {
      Val later =
          sum(k + 1, n, [&](Pos i) { return left(k, i) * right(i, j); });
      right.set(k, j, (right(k, j) - later) * inverse);
    });
  });
}

// ---- values

Val SmallMath::selectEqual(Pos i, Pos j, Val value, Val other) const {
  if (i.isStatic() && j.isStatic())
    return i.getNumber() == j.getNumber() ? value : other;
  return select(equal(i.getIndex(k), j.getIndex(k)), value, other);
}

Val SmallMath::delta(Pos i, Pos j) const {
  return selectEqual(i, j, number(1.0), number(0.0));
}

// Rows of tokens are transposed in registers, or through scratch one number at
// a time where the matrix lies there.

SmallMatrix SmallMath::load(Tokens tokens, Value memref, int64_t rows,
                            int64_t cols, int64_t offset) const {
  int64_t size = rows * cols;
  if (unrolled) {
    SmallMatrix result = matrix(rows, cols);
    result.entries = k.loadColumns(tokens, memref, offset, size);
    return result;
  }
  SmallMatrix tile = history(rows, cols);
  Val last = tokens.count - 1.0;
  k.loop(k.index(0), k.index(k.lanes()), [&](Val lane) {
    Val row = tokens.first + min(lane, last);
    k.loop(k.index(0), k.index(size), [&](Val e) {
      k.store(k.load(memref, {row, e + double(offset)}), tile.memory,
              {e, lane});
    });
  });
  return tile;
}

void SmallMath::store(Tokens tokens, const SmallMatrix &matrix, Value memref,
                      int64_t offset) const {
  if (unrolled)
    return k.storeColumns(tokens, matrix.entries, memref, offset);
  int64_t size = matrix.rows() * matrix.cols();
  SmallMatrix tile = history(matrix.rows(), matrix.cols());
  forEach(size, [&](Pos e) { tile.set(e, matrix(e)); });
  k.loop(k.index(0), tokens.count, [&](Val lane) {
    k.loop(k.index(0), k.index(size), [&](Val e) {
      k.store(k.load(tile.memory, {e, lane}), memref,
              {tokens.first + lane, e + double(offset)});
    });
  });
}
