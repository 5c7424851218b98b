// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small matrices of tokens: the n×n mathematics of manifolds and read/write
// maps, written once for every size.
//
// Each entry of a `SmallMatrix` is one number of `lanes` tokens (see
// KernelBuilder::tokens). Up to 36 entries live in registers: loops over rows
// and columns unroll when the kernel is built, and loops over rounds carry the
// entries. Larger ones live in scratch memory, and the same text becomes real
// loops.
#ifndef JPMHC_KERNELS_SMALLMATRIX_H
#define JPMHC_KERNELS_SMALLMATRIX_H

#include "jpmhc/Kernels/KernelBuilder.h"

namespace jpmhc {

/// A row or column number: known when the kernel is built (unrolled loops), or
/// an index inside a loop of the kernel.
class Pos {
public:
  Pos(int64_t number) : number(number) {}
  Pos(int number) : number(number) {}
  Pos(Val index) : index(index) {}
  bool isStatic() const { return !index; }
  int64_t getNumber() const { return number; }
  Val getIndex(KernelBuilder &k) const {
    return isStatic() ? k.index(number) : index;
  }
  /// The kernel of a position that is not static.
  KernelBuilder &builder() const { return index.builder(); }

private:
  int64_t number = 0;
  Val index;
};

Pos operator+(Pos a, Pos b);
Pos operator-(Pos a, Pos b);
Pos operator*(Pos a, Pos b);

/// A matrix with one number of every token of the group an entry. Moved, never
/// copied: in scratch form a copy would share the entries.
class SmallMatrix {
public:
  SmallMatrix(SmallMatrix &&) = default;
  SmallMatrix &operator=(SmallMatrix &&) = default;
  SmallMatrix(const SmallMatrix &) = delete;
  SmallMatrix &operator=(const SmallMatrix &) = delete;

  int64_t rows() const { return numRows; }
  int64_t cols() const { return numCols; }
  Val operator()(Pos i, Pos j) const;
  /// Entry i of a vector, or of a matrix in row-major order.
  Val operator()(Pos i) const;
  void set(Pos i, Pos j, Val value);
  void set(Pos i, Val value);
  void add(Pos i, Pos j, Val value) { set(i, j, (*this)(i, j) + value); }
  /// The same entries in row-major order as a matrix of another shape.
  SmallMatrix shaped(int64_t rows, int64_t cols) &&;

private:
  friend class SmallMath;
  SmallMatrix(KernelBuilder &k, int64_t rows, int64_t cols, bool inRegisters);

  KernelBuilder *kernel;
  int64_t numRows, numCols;
  llvm::SmallVector<Val> entries; // register form
  mlir::Value memory; // scratch form: memref<rows·cols x lanes x f32>
};

/// Makes small matrices and loops over them, all in one form.
class SmallMath {
public:
  /// Registers serve while `largest`, the number of entries of the largest
  /// matrix, is at most 36 (n = 6).
  SmallMath(KernelBuilder &k, int64_t largest)
      : k(k), unrolled(largest <= kRegisterEntries) {}

  static constexpr int64_t kRegisterEntries = 36;

  /// A matrix of undefined entries.
  SmallMatrix matrix(int64_t rows, int64_t cols) const;
  SmallMatrix vector(int64_t size) const { return matrix(size, 1); }
  /// A matrix that can be indexed by the round of `repeat`: always in scratch.
  SmallMatrix history(int64_t rows, int64_t cols) const;
  /// A matrix whose entries are given by a function of their position.
  SmallMatrix matrix(int64_t rows, int64_t cols,
                     llvm::function_ref<Val(Pos, Pos)> entry) const;
  SmallMatrix vector(int64_t size, llvm::function_ref<Val(Pos)> entry) const;

  void forEach(Pos lower, Pos upper, llvm::function_ref<void(Pos)> body) const;
  void forEach(int64_t n, llvm::function_ref<void(Pos)> body) const {
    forEach(0, n, body);
  }
  void forEach(int64_t rows, int64_t cols,
               llvm::function_ref<void(Pos, Pos)> body) const;
  Val sum(Pos lower, Pos upper, llvm::function_ref<Val(Pos)> term) const;
  Val sum(int64_t n, llvm::function_ref<Val(Pos)> term) const {
    return sum(0, n, term);
  }
  /// Largest term; NaN if any is. n ≥ 1.
  Val maximum(int64_t n, llvm::function_ref<Val(Pos)> term) const;
  /// Runs the body `rounds` times, a loop in either form; `carried` lists every
  /// matrix that the body changes and that lives across rounds.
  void repeat(int64_t rounds, llvm::ArrayRef<SmallMatrix *> carried,
              llvm::function_ref<void(Pos round)> body) const;

  /// right ← left⁻¹ right by elimination with row exchanges for every token;
  /// `left` (n×n) is overwritten.
  void solve(SmallMatrix &left, SmallMatrix &right) const;

  /// 1 where i = j, else 0.
  Val delta(Pos i, Pos j) const;
  /// `value` where the positions are equal, else `other`.
  Val selectEqual(Pos i, Pos j, Val value, Val other) const;
  /// A number of every token.
  Val number(double value) const { return k.splat(value); }

  /// Entries [offset, offset + rows·cols) of each token's row of a buffer
  /// [N, K]. Tokens past the last repeat it.
  SmallMatrix load(Tokens tokens, mlir::Value memref, int64_t rows,
                   int64_t cols, int64_t offset = 0) const;
  void store(Tokens tokens, const SmallMatrix &matrix, mlir::Value memref,
             int64_t offset = 0) const;

  KernelBuilder &k;

private:
  bool unrolled;
};

} // namespace jpmhc

#endif // JPMHC_KERNELS_SMALLMATRIX_H
