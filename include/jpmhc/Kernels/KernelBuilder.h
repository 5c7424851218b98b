// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Writes kernels: parallel loops over buffers, in notation close to the
// formulas.
//
// A kernel is a one-dimensional `scf.parallel` over independent rows. Inside a
// row, loops over columns are again `scf.parallel` (with `scf.reduce` for
// sums), so that one description serves both targets: a CPU gives rows to
// threads and vectorises columns; a GPU gives rows to blocks and columns to
// threads. The n×n mathematics runs over *tokens* instead: a value then holds
// one number of `lanes` tokens at once (a vector on a CPU, a scalar a thread on
// a GPU).
#ifndef JPMHC_KERNELS_KERNELBUILDER_H
#define JPMHC_KERNELS_KERNELBUILDER_H

#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace jpmhc {

class KernelBuilder;

/// A value inside a kernel with the usual operators: f32, a vector of f32 (one
/// element a token), f64, index, another integer (unsigned) or i1. Mixing a
/// scalar with a vector broadcasts the scalar; C++ numbers become constants.
class Val {
public:
  Val() = default;
  Val(KernelBuilder &kernel, mlir::Value value)
      : kernel(&kernel), value(value) {}
  explicit operator bool() const { return static_cast<bool>(value); }
  operator mlir::Value() const { return value; }
  mlir::Type type() const { return value.getType(); }
  KernelBuilder &builder() const { return *kernel; }

private:
  KernelBuilder *kernel = nullptr;
  mlir::Value value;
};

Val operator+(Val a, Val b);
Val operator-(Val a, Val b);
Val operator*(Val a, Val b);
Val operator/(Val a, Val b); ///< floats: quotient; index: unsigned quotient
Val operator%(Val a, Val b); ///< index only: unsigned remainder
Val operator-(Val a);
Val operator+(Val a, double b);
Val operator-(Val a, double b);
Val operator*(Val a, double b);
Val operator/(Val a, double b);
Val operator+(double a, Val b);
Val operator-(double a, Val b);
Val operator*(double a, Val b);
Val operator/(double a, Val b);
Val operator<(Val a, Val b);
Val operator<=(Val a, Val b);
Val operator>(Val a, Val b);
Val operator>=(Val a, Val b);
Val equal(Val a, Val b);
Val operator&&(Val a, Val b);
Val operator||(Val a, Val b);
Val operator^(Val a, Val b);         ///< integers only
Val operator>>(Val a, int64_t bits); ///< integers only: logical shift
Val inverse(Val condition); ///< logical not (`!` asks whether a Val is null)
Val select(Val condition, Val a, Val b);
Val min(Val a, Val b); ///< NaN if either is (floats); unsigned for index
Val max(Val a, Val b);
Val exp(Val a);
Val log(Val a);
Val expm1(Val a); ///< exp(a) - 1 without cancellation
Val log1p(Val a); ///< log(1 + a) without cancellation
/// 1 / a within 3 ulp, of an f32 whose reciprocal is a normal number too: an
/// estimate and Newton's step, several times as fast as a division.
Val reciprocal(Val a);
Val sqrt(Val a);
Val rsqrt(Val a);
Val tanh(Val a);
Val abs(Val a);
Val sigmoid(Val a); ///< 1 / (1 + exp(-a))

enum class Reduction { sum, max };

/// Sums over rows are split into this many partial sums, whatever the number of
/// threads. Loops over chunks fuse only where they have as many.
inline constexpr int64_t kPartials = 16;

/// One group of `lanes` tokens inside `KernelBuilder::tokens`.
struct Tokens {
  Val first; ///< first token of the group (index)
  Val count; ///< tokens of the group that exist (index, 1 … lanes)
};

/// One group of neighbouring channels inside `KernelBuilder::channels`.
struct Channels {
  Val group; ///< number of the group (index)
  Val first; ///< first channel (index)
  Val mask;  ///< which of them exist; null when all do
};

/// Emits kernels at the insertion point of a builder, for the target of the
/// module (its lanes decide how many tokens a value holds).
class KernelBuilder {
public:
  using Body = llvm::function_ref<void(Val)>;
  using ReduceBody = llvm::function_ref<llvm::SmallVector<Val>(Val)>;
  using LoopBody =
      llvm::function_ref<llvm::SmallVector<Val>(Val, llvm::ArrayRef<Val>)>;

  KernelBuilder(mlir::OpBuilder &builder, mlir::Location loc, TargetAttr target)
      : builder(builder), loc(loc), target(target) {}

  // ---- constants and sizes
  // ---------------------------------------------------------------------------------------
  Val wrap(mlir::Value value) { return Val(*this, value); }
  Val index(int64_t value);
  Val f32(double value);
  /// `value` in the type of a number of one group of tokens (vector<lanes x
  /// f32>, or f32 when lanes is 1).
  Val splat(double value);
  /// Size of dimension `i` of a memref; negative `i` counts from the end.
  Val dim(mlir::Value memref, int64_t i);
  /// Product of the dimensions [begin, end) of a memref; negative positions
  /// count from the end.
  Val elements(mlir::Value memref, int64_t begin, int64_t end);
  Val toFloat(Val index);
  /// An index as i32, to be compared with integers of vectors.
  Val toInt(Val index);
  /// A float in another float type, a signed integer or index as that float.
  Val toFloat(Val value, mlir::FloatType type);
  /// A signed integer (an id) as an index; negative ones become huge, so that
  /// one comparison `< size` checks both ends.
  Val toIndex(Val integer);
  /// The low bits of an integer or index, as an integer of type `type`.
  Val toInteger(Val value, mlir::IntegerType type);
  Val toDouble(Val value); ///< the same as f64
  Val f64(double value);
  /// A scalar of the step as an argument of the kernels that use it: launches
  /// with different constants then share one kernel.
  Val launchArgument(mlir::Value scalar);

  // ---- loops
  // -----------------------------------------------------------------------------------------------------
  /// A kernel: independent rows [0, n).
  void rows(Val n, Body body);
  /// A kernel over rows that lays out parameters alone in another way: fusion
  /// moves it out from between other kernels.
  void preparation(Val n, Body body);
  /// A kernel over rows [0, n), a few at a time: the body gets the first of
  /// `step` rows, of which the last may not exist. `step` divides 16.
  void rowTiles(Val n, int64_t step, Body body);
  /// A kernel over `partials` contiguous chunks of rows [0, n), for sums over
  /// rows: the body gets the chunk and loops over its rows itself. The
  /// partition depends on n, `partials` and `lanes` alone, never on threads;
  /// chunks start at multiples of `lanes`.
  void
  rowChunks(Val n, int64_t partials,
            llvm::function_ref<void(Val chunk, Val lower, Val upper)> body);
  /// A kernel over blocks of `size` consecutive elements of [0, n), for
  /// element-wise work without rows of its own.
  void blocks(Val n, int64_t size,
              llvm::function_ref<void(Val block, Val first, Val count)> body);
  /// Independent columns of a row.
  void columns(Val n, Body body);
  /// Reductions over the columns of a row: the body returns one f32 a
  /// reduction.
  llvm::SmallVector<Val> reduceColumns(Val n, llvm::ArrayRef<Reduction> kinds,
                                       ReduceBody body);
  Val sum(Val n, llvm::function_ref<Val(Val)> body);
  Val maximum(Val n, llvm::function_ref<Val(Val)> body);
  /// init + body(0) + … + body(n - 1), one after the other: the sum of a kernel
  /// whose rows, not whose terms, lie side by side in memory.
  Val sumInOrder(Val init, Val n, llvm::function_ref<Val(Val)> body);
  /// A sequential loop; carries values.
  llvm::SmallVector<Val> loop(Val lower, Val upper, Val step,
                              llvm::ArrayRef<Val> init, LoopBody body);
  void loop(Val lower, Val upper, Body body);
  void ifThen(Val condition, llvm::function_ref<void()> body);

  // ---- memory
  // ----------------------------------------------------------------------------------------------------
  /// Loads as f32 (bf16 and f16 are extended); integers are loaded as they are.
  Val load(mlir::Value memref, llvm::ArrayRef<Val> indices);
  /// Stores in the element type of the buffer (rounded to nearest even).
  void store(Val value, mlir::Value memref, llvm::ArrayRef<Val> indices);
  /// Stores value plus what is there.
  void accumulate(Val value, mlir::Value memref, llvm::ArrayRef<Val> indices);
  /// A buffer private to the body of a row or of a group of tokens.
  mlir::Value scratch(llvm::ArrayRef<int64_t> shape, mlir::Type element = {});
  /// A buffer of the step that lives across kernels (partial sums).
  mlir::Value temporary(llvm::ArrayRef<int64_t> shape, mlir::Type element = {});
  /// The buffer seen with its leading dimensions collapsed into one: [..., D]
  /// -> [N, D]. `trailing` dimensions stay; 0 gives all elements in one. An
  /// input whose rows are not evenly spaced, such as a slice of the middle
  /// dimension, is copied first.
  mlir::Value asRows(mlir::Value memref, unsigned trailing = 1);

  // ---- tokens: the n×n mathematics
  // ---------------------------------------------------------------------------------
  int64_t lanes() const { return target.getLanes(); }
  mlir::Type laneType();
  /// A kernel over groups of `lanes` tokens.
  void tokens(Val n, llvm::function_ref<void(Tokens)> body);
  /// A kernel over n groups of at most `lanes` tokens, where the body says
  /// which: for tokens that come in sequences, which a group must not straddle.
  void tokenGroups(Val n, Body body);
  /// Number `indices` of every token of the group: memref[first + lane,
  /// indices...]. Lanes past the last token repeat it.
  Val loadTokens(Tokens tokens, mlir::Value memref,
                 llvm::ArrayRef<Val> indices);
  void storeTokens(Tokens tokens, Val value, mlir::Value memref,
                   llvm::ArrayRef<Val> indices);
  /// first + lane of every lane, as i32.
  Val lanePositions(Val first);
  /// columns[c] = memref[first + lane, indices..., c] · factor, for all of the
  /// `size` last elements: rows of a group of tokens turned into columns.
  /// `columns` is scratch({size}, laneType()).
  void loadTransposed(Tokens tokens, mlir::Value memref,
                      llvm::ArrayRef<Val> indices, double factor,
                      mlir::Value columns);
  /// memref[first + lane, indices..., c] = columns[c] · factor.
  void storeTransposed(Tokens tokens, mlir::Value columns, Val factor,
                       mlir::Value memref, llvm::ArrayRef<Val> indices);
  /// memref[first + lane, offset + c] for each c in [0, size), held in values.
  llvm::SmallVector<Val> loadColumns(Tokens tokens, mlir::Value memref,
                                     int64_t offset, int64_t size);
  void storeColumns(Tokens tokens, llvm::ArrayRef<Val> columns,
                    mlir::Value memref, int64_t offset);
  /// Number `number` of a vector of `lanes` (the value itself on a GPU).
  Val lane(Val value, int64_t number);
  /// For `lanes` vectors, each one's sum over its lanes: one vector.
  Val sumsOfLanes(llvm::ArrayRef<Val> vectors);
  /// `lanes` consecutive numbers of an f32 buffer, the first at `indices`.
  Val loadLanes(mlir::Value memref, llvm::ArrayRef<Val> indices);
  void storeLanes(Val value, mlir::Value memref, llvm::ArrayRef<Val> indices);

  // ---- channels: work along tokens, each channel alone
  // -------------------------------------------------------------------------
  /// Channels of a group: a value holds one number of each (a vector on a CPU,
  /// wide enough to use whole cache lines; one a thread on a GPU).
  int64_t groupSize() const { return lanes() == 1 ? 1 : 2 * lanes(); }
  /// A kernel over rows × groups of channels of [0, width); the body walks
  /// along tokens itself.
  void channels(Val rows, Val width,
                llvm::function_ref<void(Val row, Channels)> body);
  /// A mask of the first `count` channels of a group.
  Val existing(Val count);
  /// Numbers memref[indices..., channels] as f32, zero where none exists.
  Val loadChannels(Channels channels, mlir::Value memref,
                   llvm::ArrayRef<Val> indices);
  void storeChannels(Channels channels, Val value, mlir::Value memref,
                     llvm::ArrayRef<Val> indices);
  /// Hints that memref[indices..., channels] will be read soon.
  void prefetchChannels(Channels channels, mlir::Value memref,
                        llvm::ArrayRef<Val> indices, bool isWrite = false);
  /// A value of a group, equal everywhere, of f32 or f64.
  Val splatChannels(Val scalar);
  /// A whole group of numbers from position `indices` on, in the buffer's type
  /// (f32 if that is narrower).
  Val loadGroup(mlir::Value memref, llvm::ArrayRef<Val> indices);
  void storeGroup(Val value, mlir::Value memref, llvm::ArrayRef<Val> indices);
  /// Sum of the numbers of a group (a scalar).
  Val sumGroup(Val value);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  TargetAttr target;

private:
  mlir::Type groupType(mlir::Type element);
  Val convert(Val value, mlir::Type element);
  /// Runs the body over blocks of `lanes` of `size` elements; `count` of them
  /// exist.
  void laneBlocks(int64_t size,
                  llvm::function_ref<void(Val first, int64_t count)> body);
  /// Whether rows of `size` elements are turned into columns in registers.
  bool canTranspose(mlir::Value memref, int64_t size) const;
  Val loadLanes(mlir::Value memref, llvm::ArrayRef<Val> indices, int64_t count);
  void storeLanes(Val value, mlir::Value memref, llvm::ArrayRef<Val> indices,
                  int64_t count);
};

} // namespace jpmhc

#endif // JPMHC_KERNELS_KERNELBUILDER_H
