// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Linalg/Transforms/Transforms.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace jpmhc {
#define GEN_PASS_DEF_LOWERLINALG
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

// ---- products ----

static std::optional<unsigned> position(AffineMap map, unsigned dim) {
  for (auto [i, expr] : llvm::enumerate(map.getResults()))
    if (auto d = dyn_cast<AffineDimExpr>(expr); d && d.getPosition() == dim)
      return i;
  return std::nullopt;
}

/// The last dimension of every operand must be contiguous for the library.
static bool isRowMajor(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  SmallVector<int64_t> strides;
  int64_t offset;
  return succeeded(type.getStridesAndOffset(strides, offset)) &&
         !strides.empty() && strides.back() == 1;
}

/// A contraction with at most one batch dimension and one each of m, n and k
/// becomes a library product.
static bool lowerToGemm(linalg::LinalgOp op) {
  FailureOr<linalg::ContractionDimensions> dims =
      linalg::inferContractionDims(op);
  if (failed(dims) || dims->m.size() != 1 || dims->n.size() != 1 ||
      dims->k.size() != 1 || dims->batch.size() > 1)
    return false;
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  Value a = op.getDpsInputs()[0], b = op.getDpsInputs()[1],
        c = op.getDpsInits()[0];
  unsigned m = dims->m[0], n = dims->n[0], k = dims->k[0];
  AffineMap mapA = maps[0], mapB = maps[1], mapC = maps[2];
  auto elementType = [](Value v) {
    return cast<MemRefType>(v.getType()).getElementType();
  };
  for (Value v : {a, b, c})
    if (!isRowMajor(v) || !elementType(v).isF32())
      return false;
  unsigned rank = 2 + dims->batch.size();
  for (AffineMap map : {mapA, mapB, mapC})
    if (map.getNumResults() != rank ||
        (rank == 3 && position(map, dims->batch[0]) != 0u))
      return false;
  if (*position(mapC, m) > *position(mapC, n)) { // Cᵀ = Bᵀ Aᵀ
    std::swap(a, b);
    std::swap(mapA, mapB);
    std::swap(m, n);
  }
  bool transA = *position(mapA, m) > *position(mapA, k),
       transB = *position(mapB, k) > *position(mapB, n);
  OpBuilder builder(op);
  float beta = 1;
  Operation *previous = op->getPrevNode();
  while (previous && isMemoryEffectFree(previous))
    previous = previous->getPrevNode();
  if (auto fill = dyn_cast_or_null<linalg::FillOp>(previous))
    if (fill.getOutputs()[0] == c &&
        matchPattern(fill.getInputs()[0], m_AnyZeroFloat())) {
      fill.erase();
      beta = 0;
    }
  GemmOp::create(builder, op.getLoc(), a, b, c, builder.getBoolAttr(transA),
                 builder.getBoolAttr(transB), builder.getF32FloatAttr(beta));
  op->erase();
  return true;
}

// ---- everything else: loops ----

namespace {
/// Lowers one linalg.generic on buffers.
class LoopNest {
public:
  LoopNest(linalg::GenericOp op, KernelBuilder &k)
      : op(op), k(k), maps(op.getIndexingMapsArray()) {
    for (auto [i, type] : llvm::enumerate(op.getIteratorTypesArray()))
      (type == utils::IteratorType::parallel ? parallel : reduction)
          .push_back(i);
    SmallVector<int64_t> sizes = op.getStaticLoopRanges();
    ranges.assign(sizes.begin(), sizes.end());
    ivs.resize(ranges.size());
  }

  void emit() {
    if (reduction.empty())
      return emitMap();
    if (isSumOverRows())
      return emitSumOverRows();
    emitReduction();
  }

private:
  Val size(unsigned dim) { return k.index(ranges[dim]); }

  int64_t elements(ArrayRef<unsigned> dims) {
    int64_t n = 1;
    for (unsigned d : dims)
      n *= ranges[d];
    return n;
  }
  Val product(ArrayRef<unsigned> dims) { return k.index(elements(dims)); }

  /// Sets the induction variables of `dims` from one linear index.
  void delinearize(Val linear, ArrayRef<unsigned> dims) {
    for (unsigned d : llvm::reverse(dims)) {
      bool last = d == dims.front();
      ivs[d] = last ? linear : linear % size(d);
      if (!last)
        linear = linear / size(d);
    }
  }

  SmallVector<Val> indices(AffineMap map) {
    SmallVector<Val> result;
    for (AffineExpr e : map.getResults()) {
      if (auto d = dyn_cast<AffineDimExpr>(e))
        result.push_back(ivs[d.getPosition()]);
      else
        result.push_back(k.index(cast<AffineConstantExpr>(e).getValue()));
    }
    return result;
  }

  /// The body's values for the current induction variables; block argument of
  /// output i is `carried[i]`.
  SmallVector<Val> body(ArrayRef<Val> carried) {
    IRMapping mapping;
    Block *block = op.getBody();
    unsigned inputs = op.getNumDpsInputs();
    for (OpOperand *input : op.getDpsInputOperands()) {
      BlockArgument argument = op.getMatchingBlockArgument(input);
      if (argument.use_empty())
        continue;
      Value operand = input->get();
      if (isa<MemRefType>(operand.getType()))
        operand = memref::LoadOp::create(
            k.builder, k.loc, operand,
            toValues(indices(op.getMatchingIndexingMap(input))));
      mapping.map(argument, operand);
    }
    llvm::SmallDenseSet<Value> totals; // what depends on an earlier iteration
    for (auto [i, value] : llvm::enumerate(carried)) {
      if (value)
        mapping.map(block->getArgument(inputs + i), value);
      if (!reduction.empty())
        totals.insert(block->getArgument(inputs + i));
    }
    for (Operation &inner : block->without_terminator()) {
      if (auto index = dyn_cast<linalg::IndexOp>(inner)) {
        mapping.map(index.getResult(), ivs[index.getDim()]);
        continue;
      }
      bool isTotal = llvm::any_of(inner.getOperands(),
                                  [&](Value v) { return totals.contains(v); });
      if (isTotal)
        totals.insert(inner.result_begin(), inner.result_end());
      setFastMath(k.builder.clone(inner, mapping), isTotal);
    }
    return llvm::map_to_vector(
        block->getTerminator()->getOperands(),
        [&](Value v) { return k.wrap(mapping.lookupOrDefault(v)); });
  }

  /// Totals may be summed in any order; without `reassoc` they stay scalar on a
  /// CPU (8 times slower). Everything else is calculated as it was written:
  /// another order of the factors overflows elsewhere, and (a + b) - a is not
  /// b.
  static void setFastMath(Operation *inner, bool isTotal) {
    auto flags = arith::FastMathFlags::contract;
    if (isTotal)
      flags = flags | arith::FastMathFlags::reassoc | arith::FastMathFlags::nsz;
    if (auto fast = dyn_cast<arith::ArithFastMathInterface>(inner))
      inner->setAttr(fast.getFastMathAttrName(),
                     arith::FastMathFlagsAttr::get(inner->getContext(), flags));
  }

  static SmallVector<Value> toValues(ArrayRef<Val> vals) {
    return SmallVector<Value>(vals.begin(), vals.end());
  }

  Val loadOutput(unsigned i) {
    return k.wrap(memref::LoadOp::create(k.builder, k.loc, op.getDpsInits()[i],
                                         toValues(indices(outputMap(i)))));
  }
  void storeOutput(unsigned i, Val value) {
    memref::StoreOp::create(k.builder, k.loc, value, op.getDpsInits()[i],
                            toValues(indices(outputMap(i))));
  }
  AffineMap outputMap(unsigned i) { return maps[op.getNumDpsInputs() + i]; }

  SmallVector<Val> loadOutputs() {
    SmallVector<Val> result(op.getNumDpsInits());
    for (unsigned i = 0; i < result.size(); ++i)
      if (!op.getBody()->getArgument(op.getNumDpsInputs() + i).use_empty())
        result[i] = loadOutput(i);
    return result;
  }
  void storeOutputs(ArrayRef<Val> values) {
    for (auto [i, v] : llvm::enumerate(values))
      storeOutput(i, v);
  }

  /// Rows are all parallel dimensions but the last, columns the last.
  void emitMap() {
    if (parallel.size() <= 1) {
      k.rows(product(parallel), [&](Val i) {
        if (!parallel.empty())
          ivs[parallel[0]] = i;
        storeOutputs(body(loadOutputs()));
      });
      return;
    }
    ArrayRef<unsigned> outer = ArrayRef(parallel).drop_back();
    k.rows(product(outer), [&](Val row) {
      delinearize(row, outer);
      k.columns(size(parallel.back()), [&](Val column) {
        ivs[parallel.back()] = column;
        storeOutputs(body(loadOutputs()));
      });
    });
  }

  /// The fastest-varying dimension of the first buffer operand that has one.
  std::optional<unsigned> fastestDim() {
    for (OpOperand *input : op.getDpsInputOperands()) {
      AffineMap map = op.getMatchingIndexingMap(input);
      if (map.getNumResults() == 0)
        continue;
      if (auto d = dyn_cast<AffineDimExpr>(map.getResults().back()))
        return d.getPosition();
    }
    return std::nullopt;
  }

  bool isSumOverRows() {
    std::optional<unsigned> fastest = fastestDim();
    return fastest && parallel.size() == 1 && parallel[0] == *fastest &&
           op.getNumDpsInits() == 1 &&
           isa_and_nonnull<arith::AddFOp>(combiner()) &&
           elements(reduction) > kPartials;
  }

  /// The op that adds a term to the first output, if the body is such a
  /// reduction.
  Operation *combiner() {
    Value yielded = op.getBody()->getTerminator()->getOperand(0);
    Operation *last = yielded.getDefiningOp();
    BlockArgument carried = op.getBody()->getArgument(op.getNumDpsInputs());
    if (!last || !carried.hasOneUse() || *carried.user_begin() != last)
      return nullptr;
    return last;
  }

  /// Σ_rows: chunks of rows add into partial rows, then the partial rows are
  /// added up in order.
  void emitSumOverRows() {
    unsigned column = parallel[0];
    Type element =
        cast<MemRefType>(op.getDpsInits()[0].getType()).getElementType();
    Value parts = k.temporary({kPartials, ranges[column]}, element);
    Val zero = k.wrap(arith::ConstantOp::create(
        k.builder, k.loc, cast<TypedAttr>(k.builder.getZeroAttr(element))));
    k.rowChunks(product(reduction), kPartials,
                [&](Val chunk, Val lower, Val upper) {
                  k.columns(size(column),
                            [&](Val c) { rawStore(zero, parts, {chunk, c}); });
                  k.loop(lower, upper, [&](Val row) {
                    delinearize(row, reduction);
                    k.columns(size(column), [&](Val c) {
                      ivs[column] = c;
                      rawStore(body({rawLoad(parts, {chunk, c})})[0], parts,
                               {chunk, c});
                    });
                  });
                });
    k.rows(size(column), [&](Val c) {
      ivs[column] = c;
      storeOutput(0,
                  k.sumInOrder(loadOutput(0), k.index(kPartials),
                               [&](Val p) { return rawLoad(parts, {p, c}); }));
    });
  }

  Val rawLoad(Value memref, ArrayRef<Val> at) {
    return k.wrap(
        memref::LoadOp::create(k.builder, k.loc, memref, toValues(at)));
  }
  void rawStore(Val v, Value memref, ArrayRef<Val> at) {
    memref::StoreOp::create(k.builder, k.loc, v, memref, toValues(at));
  }

  /// One output element (or a row of them) at a time, the reduced dimensions
  /// innermost.
  void emitReduction() {
    std::optional<unsigned> fastest = fastestDim();
    bool columnsInside = fastest && llvm::is_contained(parallel, *fastest) &&
                         op.getNumDpsInits() == 1;
    SmallVector<unsigned> outer(parallel);
    if (columnsInside)
      llvm::erase(outer, *fastest);
    k.rows(product(outer), [&](Val row) {
      delinearize(row, outer);
      if (columnsInside)
        return k.loop(k.index(0), product(reduction), [&](Val r) {
          delinearize(r, reduction);
          k.columns(size(*fastest), [&](Val c) {
            ivs[*fastest] = c;
            storeOutputs(body(loadOutputs()));
          });
        });
      SmallVector<Val> init;
      for (unsigned i = 0; i < op.getNumDpsInits(); ++i)
        init.push_back(loadOutput(i));
      storeOutputs(k.loop(k.index(0), product(reduction), k.index(1), init,
                          [&](Val r, ArrayRef<Val> carried) {
                            delinearize(r, reduction);
                            return body(carried);
                          }));
    });
  }

  linalg::GenericOp op;
  KernelBuilder &k;
  SmallVector<AffineMap> maps;
  SmallVector<unsigned> parallel, reduction;
  SmallVector<int64_t> ranges;
  SmallVector<Val> ivs;
};
} // namespace

static bool hasOnlyDimsAndConstants(linalg::GenericOp op) {
  return llvm::all_of(op.getIndexingMapsArray(), [](AffineMap map) {
    return llvm::all_of(map.getResults(), [](AffineExpr e) {
      return isa<AffineDimExpr, AffineConstantExpr>(e);
    });
  });
}

static LogicalResult lowerToLoops(linalg::LinalgOp op) {
  IRRewriter rewriter(op);
  FailureOr<linalg::GenericOp> generic =
      isa<linalg::GenericOp>(op.getOperation())
          ? FailureOr<linalg::GenericOp>(
                cast<linalg::GenericOp>(op.getOperation()))
          : linalg::generalizeNamedOp(rewriter, op);
  if (failed(generic))
    return op->emitOpError(
        "expected an op that can be written as linalg.generic");
  if (generic->hasDynamicShape())
    return generic->emitOpError("expected static shapes for code generation");
  if (!hasOnlyDimsAndConstants(*generic))
    return generic->emitOpError("expected indexing maps of plain dimensions");
  rewriter.setInsertionPoint(*generic);
  KernelBuilder kernel(rewriter, generic->getLoc(), getTarget(*generic));
  Operation *before = (*generic)->getPrevNode();
  LoopNest(*generic, kernel).emit();
  nameKernels(before, *generic,
              generic->getNumReductionLoops() ? "reduce" : "elementwise");
  generic->erase();
  return success();
}

/// A copy between buffers is an element-wise loop like any other, so that it
/// fuses.
static void lowerCopy(memref::CopyOp copy) {
  IRRewriter rewriter(copy);
  auto type = cast<MemRefType>(copy.getTarget().getType());
  AffineMap identity = rewriter.getMultiDimIdentityMap(type.getRank());
  SmallVector<utils::IteratorType> parallel(type.getRank(),
                                            utils::IteratorType::parallel);
  linalg::GenericOp::create(
      rewriter, copy.getLoc(), TypeRange{}, ValueRange{copy.getSource()},
      ValueRange{copy.getTarget()}, ArrayRef{identity, identity}, parallel,
      [](OpBuilder &b, Location loc, ValueRange args) {
        linalg::YieldOp::create(b, loc, args[0]);
      });
  rewriter.eraseOp(copy);
}

namespace {
struct LowerLinalgPass : jpmhc::impl::LowerLinalgBase<LowerLinalgPass> {
  void runOnOperation() override {
    SmallVector<memref::CopyOp> copies;
    getOperation().walk([&](memref::CopyOp copy) { copies.push_back(copy); });
    for (memref::CopyOp copy : copies)
      lowerCopy(copy);
    getOperation().walk([](linalg::LinalgOp op) {
      if (linalg::isaContractionOpInterface(op) ||
          isa<linalg::ContractOp>(op.getOperation()))
        (void)lowerToGemm(op); // else it becomes loops below
    });
    SmallVector<linalg::LinalgOp> ops; // a zero fill may be gone by now
    getOperation().walk([&](linalg::LinalgOp op) { ops.push_back(op); });
    for (linalg::LinalgOp op : ops)
      if (failed(lowerToLoops(op)))
        return signalPassFailure();
  }
};
} // namespace
