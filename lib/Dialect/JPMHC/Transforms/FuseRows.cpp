// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/MapVector.h"

namespace jpmhc {
#define GEN_PASS_DEF_FUSEROWS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
/// How a loop (or a single op) touches one buffer.
struct Access {
  bool reads = false, writes = false;
  /// Elements of one row when every access is `buffer[row of the loop, ...]` in
  /// the same division into rows; else 0.
  int64_t rowElements = -1;
};
using Accesses = llvm::MapVector<Value, Access>;
} // namespace

/// The buffer behind views that keep its elements in order.
static Value baseOf(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    if (auto view = dyn_cast<ViewLikeOpInterface>(op))
      memref = view.getViewSource();
    else
      break;
  }
  return memref;
}

static int64_t rowElementsOf(Value memref) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.hasStaticShape() || !type.getLayout().isIdentity() ||
      type.getRank() == 0)
    return 0;
  int64_t n = 1;
  for (int64_t d : type.getShape().drop_front())
    n *= d;
  return n;
}

/// False if the op does something to memory that is not understood.
static bool collect(Operation *root, Value iv, Accesses &accesses) {
  auto add = [&](Value memref, ValueRange indices, bool reads, bool writes) {
    Access &a = accesses[baseOf(memref)];
    a.reads |= reads;
    a.writes |= writes;
    int64_t row =
        iv && !indices.empty() && indices[0] == iv ? rowElementsOf(memref) : 0;
    a.rowElements = a.rowElements == -1 || a.rowElements == row ? row : 0;
  };
  WalkResult result = root->walk([&](Operation *op) {
    if (auto load = dyn_cast<memref::LoadOp>(op))
      add(load.getMemref(), load.getIndices(), true, false);
    else if (auto store = dyn_cast<memref::StoreOp>(op))
      add(store.getMemref(), store.getIndices(), false, true);
    else if (isa<scf::ForOp, scf::ParallelOp, scf::IfOp, scf::YieldOp,
                 scf::ReduceOp, scf::ReduceReturnOp, memref::AllocOp,
                 memref::AllocaOp>(op) ||
             isMemoryEffectFree(op))
      return WalkResult::advance();
    else {
      bool any = false;
      for (Value operand : op->getOperands())
        if (isa<MemRefType>(operand.getType())) {
          add(operand, {}, true, true);
          any = true;
        }
      if (!any)
        return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return !result.wasInterrupted();
}

static bool conflict(const Accesses &a, const Accesses &b, bool sameRows) {
  for (auto &[memref, x] : a) {
    auto it = b.find(memref);
    if (it == b.end())
      continue;
    const Access &y = it->second;
    if (!x.writes && !y.writes)
      continue;
    if (sameRows && x.rowElements > 0 && x.rowElements == y.rowElements)
      continue;
    return true;
  }
  return false;
}

static bool sameRange(scf::ParallelOp a, scf::ParallelOp b) {
  auto equal = [](Value x, Value y) {
    std::optional<int64_t> cx = getConstantIntValue(x),
                           cy = getConstantIntValue(y);
    return cx && cy && *cx == *cy;
  };
  return a.getNumLoops() == 1 && b.getNumLoops() == 1 &&
         a.getNumReductions() == 0 && b.getNumReductions() == 0 &&
         a->hasAttr(kTokensAttrName) == b->hasAttr(kTokensAttrName) &&
         equal(a.getLowerBound()[0], b.getLowerBound()[0]) &&
         equal(a.getUpperBound()[0], b.getUpperBound()[0]) &&
         equal(a.getStep()[0], b.getStep()[0]);
}

namespace {
/// What ops of a block touch, collected once each: every loop is compared with
/// many.
class KnownAccesses {
public:
  /// Null if the op does something to memory that is not understood.
  const Accesses *of(Operation *op) {
    auto [it, isNew] = known.try_emplace(op);
    if (isNew) {
      auto loop = dyn_cast<scf::ParallelOp>(op);
      Value iv = loop ? loop.getInductionVars()[0] : Value();
      Accesses accesses;
      if (collect(op, iv, accesses))
        it->second = std::make_unique<Accesses>(std::move(accesses));
    }
    return it->second.get();
  }
  void forget(Operation *op) { known.erase(op); }

private:
  llvm::DenseMap<Operation *, std::unique_ptr<Accesses>> known;
};
} // namespace

/// Whether the earlier loop can move down to the later one: nothing between
/// them touches what it touches, and no value that it needs is defined in
/// between (it moves down, so its operands stay above).
static bool nothingBetween(scf::ParallelOp early, scf::ParallelOp late,
                           const Accesses &accesses, KnownAccesses &known) {
  for (Operation *op = early->getNextNode(); op != late.getOperation();
       op = op->getNextNode()) {
    if (isMemoryEffectFree(op) || isa<memref::AllocOp>(op))
      continue;
    const Accesses *between = known.of(op);
    if (!between || conflict(accesses, *between, false))
      return false;
  }
  return true;
}

static void merge(scf::ParallelOp early, scf::ParallelOp late) {
  early.getInductionVars()[0].replaceAllUsesWith(late.getInductionVars()[0]);
  late.getBody()->getOperations().splice(
      late.getBody()->begin(), early.getBody()->getOperations(),
      early.getBody()->begin(), std::prev(early.getBody()->end()));
  // Names list what a kernel does, in order.
  auto name = [](Operation *op) {
    auto attr = op->getAttrOfType<StringAttr>(kKernelNameAttrName);
    return attr ? attr.getValue() : StringRef("loop");
  };
  if (name(early) != name(late))
    late->setAttr(
        kKernelNameAttrName,
        StringAttr::get(late->getContext(),
                        (name(early) + "_" + name(late)).str().substr(0, 60)));
  late->setLoc(
      FusedLoc::get(late->getContext(), {early.getLoc(), late.getLoc()}));
  early.erase();
}

/// Chunks of rows and preparations are left to the fusion of tiles, where there
/// is one.
static SmallVector<scf::ParallelOp> loopsOf(Block &block, bool hasTiles) {
  SmallVector<scf::ParallelOp> loops;
  for (auto loop : block.getOps<scf::ParallelOp>())
    if (!hasTiles ||
        !(loop->hasAttr(kChunksAttrName) || loop->hasAttr(kPreparesAttrName)))
      loops.push_back(loop);
  return loops;
}

static bool canMerge(scf::ParallelOp early, scf::ParallelOp late,
                     KnownAccesses &known) {
  if (!sameRange(early, late))
    return false;
  const Accesses *a = known.of(early), *b = known.of(late);
  return a && b && !conflict(*a, *b, true) &&
         nothingBetween(early, late, *a, known);
}

/// Merges loops into the last of those that they can move down to; how many.
static unsigned mergeAll(Block &block, bool hasTiles) {
  SmallVector<scf::ParallelOp> loops = loopsOf(block, hasTiles);
  KnownAccesses known;
  unsigned merged = 0;
  for (size_t j = 1; j < loops.size(); ++j)
    for (size_t i = j; i-- > 0;) {
      if (!canMerge(loops[i], loops[j], known))
        continue;
      known.forget(loops[i]);
      known.forget(loops[j]);
      merge(loops[i], loops[j]);
      loops.erase(loops.begin() + i);
      ++merged;
      // What lay around the loop that moved may merge now.
      j = std::max<size_t>(i, 1) - 1;
      break;
    }
  return merged;
}

namespace {
struct FuseRowsPass : jpmhc::impl::FuseRowsBase<FuseRowsPass> {
  void runOnOperation() override {
    if (getOperation().isDeclaration())
      return;
    bool hasTiles = getTarget(getOperation()).getLanes() > 1;
    merged += mergeAll(getOperation().getBody().front(), hasTiles);
  }
};
} // namespace
