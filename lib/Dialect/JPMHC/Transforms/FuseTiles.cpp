// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Streams are large and everything between two products touches one token at a
// time, but not in loops of one shape: mixing goes row by row, the n×n
// mathematics takes `lanes` tokens at once, products with few outputs a few
// tokens, sums over tokens a fixed number of chunks. All of them can be walked
// in tiles of `lanes` tokens, so that a chain of them reads a tile from memory
// once, and what only they use never leaves the cache.
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include "mlir/Analysis/SliceAnalysis.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace jpmhc {
#define GEN_PASS_DEF_FUSETILES
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
/// What every tile reads again (weights, partial sums) should stay in a cache
/// of the third level at least. Measured on stacks of four blocks: that costs
/// less than streams that go through memory between two loops.
constexpr int64_t kSharedBytes = 4 << 20;
/// A buffer that one kernel makes and uses shrinks to a tile of this size at
/// most, and all of them together to the second.
constexpr int64_t kTileBytes = 256 << 10, kScratchBytes = 2 << 20;
/// Fewer tiles than this leave threads idle.
constexpr int64_t kFewestTiles = 8;
/// How many loops back a partner is looked for.
constexpr size_t kReach = 4;

/// How a loop touches a buffer. Local: in the rows of the tile's tokens alone.
struct Touch {
  bool reads = false, writes = false, local = true;
};
using Touches = llvm::MapVector<Value, Touch>;

/// A top-level loop over tokens.
struct Loop {
  enum Kind {
    rows,  ///< scf.parallel over N·factor rows in steps
    tiles, ///< over N tokens in steps of a tile
    chunks ///< over a fixed number of chunks; a loop inside walks the tokens
  };
  scf::ParallelOp op;
  Kind kind;
  int64_t range = 0; ///< rows, or tokens of the others
  scf::ForOp inner;  ///< of chunks
};

/// The place in which an access counts rows: a loop variable and what it
/// ranges over.
struct RowVariable {
  Value value;
  Value upper; ///< one past the last row, where it is a value
  int64_t range, step, factor;
};
} // namespace

static std::optional<int64_t> constant(Value v) {
  return getConstantIntValue(v);
}

/// The buffer behind views of all its elements; null if a view takes a part.
static Value wholeBase(Value memref) {
  while (Operation *op = memref.getDefiningOp()) {
    if (isa<memref::CollapseShapeOp, memref::ExpandShapeOp>(op))
      memref = op->getOperand(0);
    else if (isa<ViewLikeOpInterface>(op))
      return Value();
    else
      break;
  }
  return memref;
}

static Value baseOf(Value memref) {
  while (auto view = memref.getDefiningOp<ViewLikeOpInterface>())
    memref = view.getViewSource();
  return memref;
}

/// The buffer that an access goes to (an operand number), its first index being
/// the operand after it.
static std::optional<unsigned> bufferOperand(Operation *op) {
  if (isa<memref::LoadOp, vector::LoadOp, vector::MaskedLoadOp,
          vector::MaskedStoreOp>(op))
    return 0;
  if (isa<memref::StoreOp, vector::StoreOp>(op))
    return 1;
  return std::nullopt;
}
static bool isWrite(Operation *op) {
  return isa<memref::StoreOp, vector::StoreOp, vector::MaskedStoreOp>(op);
}

static int64_t elementsOf(MemRefType type) {
  return type.hasStaticShape() ? type.getNumElements() : 0;
}

// ---- which rows an access touches

/// Whether a value lies in [0, bound).
static bool isBelow(Value v, int64_t bound) {
  if (std::optional<int64_t> c = constant(v))
    return *c >= 0 && *c < bound;
  if (auto least = v.getDefiningOp<arith::MinUIOp>())
    return isBelow(least.getLhs(), bound) || isBelow(least.getRhs(), bound);
  if (auto sum = v.getDefiningOp<arith::AddIOp>())
    if (std::optional<int64_t> c = constant(sum.getRhs()))
      return *c >= 0 && isBelow(sum.getLhs(), bound - *c);
  auto argument = dyn_cast<BlockArgument>(v);
  auto loop = argument
                  ? dyn_cast<scf::ForOp>(argument.getOwner()->getParentOp())
                  : scf::ForOp();
  if (!loop || v != loop.getInductionVar() || !isBelow(loop.getLowerBound(), 1))
    return false;
  Value upper = loop.getUpperBound();
  std::optional<int64_t> step = constant(loop.getStep());
  if (std::optional<int64_t> c = constant(upper); c && step)
    return (*c - 1) / *step * *step < bound;
  auto least = upper.getDefiningOp<arith::MinUIOp>();
  return least && (isBelow(least.getLhs(), bound + 1) ||
                   isBelow(least.getRhs(), bound + 1));
}

/// Whether `v` is the last row of the variable's range.
static bool isLastRow(Value v, const RowVariable &row) {
  if (std::optional<int64_t> c = constant(v))
    return *c >= row.range - 1;
  if (auto minus = v.getDefiningOp<arith::SubIOp>())
    return minus.getLhs() == row.upper && constant(minus.getRhs()) == 1;
  if (auto plus = v.getDefiningOp<arith::AddIOp>())
    return plus.getLhs() == row.upper && constant(plus.getRhs()) == -1;
  return false;
}

/// Rows of the buffer a row of the variable, when the index stays in the tile;
/// as a quotient: the index counts every `divisor` rows once.
static std::optional<int64_t> divisorOf(Value index, const RowVariable &row) {
  if (index == row.value)
    return 1;
  if (auto quotient = index.getDefiningOp<arith::DivUIOp>())
    if (std::optional<int64_t> by = constant(quotient.getRhs()))
      if (std::optional<int64_t> inner = divisorOf(quotient.getLhs(), row))
        return *inner * *by;
  if (auto sum = index.getDefiningOp<arith::AddIOp>())
    if (sum.getLhs() == row.value && isBelow(sum.getRhs(), row.step))
      return 1;
  if (auto least = index.getDefiningOp<arith::MinUIOp>())
    if (isLastRow(least.getRhs(), row))
      return divisorOf(least.getLhs(), row);
  return std::nullopt;
}

static bool isLocal(Value memref, Value index, const RowVariable &row,
                    int64_t tokens) {
  auto type = cast<MemRefType>(memref.getType());
  if (!type.hasStaticShape() || !type.getLayout().isIdentity() ||
      !wholeBase(memref))
    return false;
  std::optional<int64_t> divisor = divisorOf(index, row);
  return divisor && row.factor % *divisor == 0 &&
         type.getDimSize(0) * *divisor == tokens * row.factor;
}

/// False if the op does something to memory that is not understood. `row` is
/// null for ops that are not walked in tiles.
static bool collect(Operation *root, const RowVariable *row, int64_t tokens,
                    Touches &touches) {
  auto isPrivate = [&](Value base) {
    Operation *def = base.getDefiningOp();
    return def && def != root && root->isAncestor(def);
  };
  WalkResult result = root->walk([&](Operation *op) {
    if (std::optional<unsigned> number = bufferOperand(op)) {
      Value memref = op->getOperand(*number), base = baseOf(memref);
      if (isPrivate(base))
        return WalkResult::advance();
      Touch &touch = touches[base];
      (isWrite(op) ? touch.writes : touch.reads) = true;
      bool ranked = cast<MemRefType>(memref.getType()).getRank() > 0;
      // Only the loop that walks the tokens has rows: not what surrounds it.
      touch.local &= row && ranked &&
                     isLocal(memref, op->getOperand(*number + 1), *row, tokens);
      return WalkResult::advance();
    }
    if (isa<memref::AllocOp, memref::AllocaOp, memref::PrefetchOp>(op) ||
        op->hasTrait<OpTrait::IsTerminator>() ||
        isa<scf::ForOp, scf::ParallelOp, scf::IfOp, scf::ReduceOp>(op) ||
        isMemoryEffectFree(op))
      return WalkResult::advance();
    bool any = false;
    for (Value operand : op->getOperands())
      if (isa<MemRefType>(operand.getType())) {
        touches[baseOf(operand)] = {true, true, false};
        any = true;
      }
    return any ? WalkResult::advance() : WalkResult::interrupt();
  });
  return !result.wasInterrupted();
}

static bool conflict(const Touches &a, const Touches &b, bool sameTiles) {
  for (auto &[buffer, x] : a) {
    auto it = b.find(buffer);
    if (it == b.end() || (!x.writes && !it->second.writes))
      continue;
    if (!sameTiles || !x.local || !it->second.local)
      return true;
  }
  return false;
}

namespace {
/// Loops that have become one, or will.
struct Group {
  Loop loop;
  int64_t tokens = 0; ///< 0: not known yet
  Touches touches;
  bool merged = false;
};

class TileFusion {
public:
  TileFusion(func::FuncOp function, int64_t lanes)
      : block(function.getBody().front()), lanes(lanes) {}

  unsigned run() {
    unsigned merged = 0;
    hoistPreparations();
    SmallVector<Group> groups;
    for (auto op :
         llvm::make_early_inc_range(block.getOps<scf::ParallelOp>())) {
      std::optional<Loop> loop = classify(op);
      if (!loop)
        continue;
      bool found = false;
      size_t reach = std::min(groups.size(), kReach);
      for (size_t back = 1; back <= reach && !found; ++back)
        found = tryMerge(groups[groups.size() - back], *loop);
      if (found)
        ++merged;
      else
        groups.push_back({*loop, loop->kind == Loop::rows ? 0 : loop->range,
                          Touches(), false});
    }
    for (Group &group : groups)
      if (group.merged)
        contract(group);
    return merged;
  }

private:
  // ---- what is in the way

  /// Moves preparations before all other loops: between two they would part
  /// them.
  void hoistPreparations() {
    Operation *place = nullptr;
    for (auto op :
         llvm::make_early_inc_range(block.getOps<scf::ParallelOp>())) {
      if (!op->hasAttr(kPreparesAttrName)) {
        place = place ? place : op;
        continue;
      }
      Touches touches, other;
      if (place && collect(op, nullptr, 1, touches) &&
          collect(place, nullptr, 1, other) &&
          !conflict(other, touches, false) &&
          nothingBetween(place, op, touches) && hoistOperands(place, op))
        op->moveBefore(place);
    }
    sharePreparations(place);
  }

  /// What two preparations before `place` compute alike is computed once:
  /// forward and backward then read the same copy.
  void sharePreparations(Operation *place) {
    SmallVector<scf::ParallelOp> known;
    for (auto op :
         llvm::make_early_inc_range(block.getOps<scf::ParallelOp>())) {
      if (!op->hasAttr(kPreparesAttrName) || !place ||
          !op->isBeforeInBlock(place))
        continue;
      if (llvm::none_of(known, [&](scf::ParallelOp other) {
            return replacePreparation(op, other);
          }))
        known.push_back(op);
    }
  }

  /// The one buffer that a preparation writes, if it is one of its own and
  /// nothing else writes to it.
  static memref::AllocOp preparedBuffer(scf::ParallelOp op) {
    Touches touches;
    if (!collect(op, nullptr, 1, touches))
      return nullptr;
    memref::AllocOp result;
    for (auto &[buffer, touch] : touches) {
      if (!touch.writes)
        continue;
      auto alloc = buffer.getDefiningOp<memref::AllocOp>();
      if (result || !alloc)
        return nullptr;
      result = alloc;
    }
    bool fixed = result && llvm::all_of(result->getUsers(), [&](Operation *u) {
                   return op->isAncestor(u) ||
                          (bufferOperand(u) && !isWrite(u)) ||
                          isa<memref::DeallocOp>(u);
                 });
    return fixed ? result : nullptr;
  }

  bool replacePreparation(scf::ParallelOp op, scf::ParallelOp by) {
    memref::AllocOp from = preparedBuffer(op), to = preparedBuffer(by);
    Touches touches;
    if (!from || !to || from.getType() != to.getType() ||
        !collect(op, nullptr, 1, touches) || !nothingBetween(by, op, touches))
      return false;
    DenseMap<Value, Value> inner; // values of the two loops, in pairs
    auto same = [&](Value a, Value b) -> LogicalResult {
      return success(a == b || inner.lookup(a) == b || (a == from && b == to) ||
                     (constant(a) && constant(a) == constant(b)));
    };
    auto mark = [&](Value a, Value b) { inner[a] = b; };
    if (!OperationEquivalence::isEquivalentTo(
            op, by, same, mark, OperationEquivalence::IgnoreLocations))
      return false;
    op.erase();
    from.replaceAllUsesWith(to.getResult());
    from.erase();
    return true;
  }

  // ---- what a loop is

  std::optional<Loop> classify(scf::ParallelOp op) {
    if (op.getNumLoops() != 1 || op.getNumReductions() != 0 ||
        op->hasAttr(kPreparesAttrName) || constant(op.getLowerBound()[0]) != 0)
      return std::nullopt;
    std::optional<int64_t> upper = constant(op.getUpperBound()[0]),
                           step = constant(op.getStep()[0]);
    if (!upper || !step)
      return std::nullopt;
    if (auto tokens = op->getAttrOfType<IntegerAttr>(kChunksAttrName)) {
      scf::ForOp inner = tokenLoop(op);
      if (!inner)
        return std::nullopt;
      return Loop{op, Loop::chunks, tokens.getInt(), inner};
    }
    if (op->hasAttr(kTokensAttrName)) {
      if (*step != lanes)
        return std::nullopt; // channels, or tokens of several sequences
      return Loop{op, Loop::tiles, *upper, scf::ForOp()};
    }
    return Loop{op, Loop::rows, *upper, scf::ForOp()};
  }

  /// The one loop of a chunk that starts at the chunk's first token.
  scf::ForOp tokenLoop(scf::ParallelOp chunks) {
    scf::ForOp found;
    for (auto loop : chunks.getBody()->getOps<scf::ForOp>()) {
      if (constant(loop.getLowerBound()))
        continue;
      std::optional<int64_t> step = constant(loop.getStep());
      if (found || loop.getNumResults() || !step || lanes % *step != 0)
        return scf::ForOp();
      found = loop;
    }
    return found;
  }

  static int64_t stepOf(Loop loop) {
    return *constant(loop.kind == Loop::chunks ? loop.inner.getStep()
                                               : Value(loop.op.getStep()[0]));
  }

  RowVariable rowVariable(Loop loop, int64_t tokens) {
    if (loop.kind == Loop::chunks)
      return {loop.inner.getInductionVar(), loop.inner.getUpperBound(), tokens,
              stepOf(loop), 1};
    return {loop.op.getInductionVars()[0], Value(), loop.range, stepOf(loop),
            loop.range / tokens};
  }

  bool touchesOf(Loop loop, int64_t tokens, Touches &touches) {
    RowVariable row = rowVariable(loop, tokens);
    return collect(loop.op, &row, tokens, touches);
  }

  // ---- whether loops become one

  /// The tokens that both loops walk; 0 if they do not.
  int64_t commonTokens(Group &group, Loop loop) {
    int64_t ranges[] = {group.loop.range, loop.range};
    int64_t tokens = group.tokens              ? group.tokens
                     : loop.kind != Loop::rows ? loop.range
                                               : std::min(ranges[0], ranges[1]);
    if (tokens < kFewestTiles * lanes)
      return 0;
    auto fits = [&](Loop l) {
      if (l.kind != Loop::rows)
        return l.range == tokens;
      return l.range % tokens == 0 && lanes % stepOf(l) == 0 &&
             (stepOf(l) == 1 || l.range == tokens);
    };
    if (!fits(group.loop) || !fits(loop))
      return 0;
    bool chunks = group.loop.kind == Loop::chunks && loop.kind == Loop::chunks;
    if (chunks && constant(group.loop.op.getUpperBound()[0]) !=
                      constant(loop.op.getUpperBound()[0]))
      return 0;
    return tokens;
  }

  bool tryMerge(Group &group, Loop &loop) {
    int64_t tokens = commonTokens(group, loop);
    if (!tokens)
      return false;
    Touches early = group.touches, late;
    if (!group.merged) {
      early.clear();
      if (!touchesOf(group.loop, tokens, early))
        return false;
    }
    if (!touchesOf(loop, tokens, late) || conflict(early, late, true) ||
        !worthwhile(early, late))
      return false;
    Operation *place = placeFor(group.loop.op, loop.op, early, late);
    if (!place)
      return false;
    group.loop = merge(group.loop, loop, tokens, place);
    group.tokens = tokens;
    group.merged = true;
    for (auto &[buffer, touch] : late) {
      bool known = early.count(buffer);
      Touch &all = early[buffer];
      all.reads |= touch.reads;
      all.writes |= touch.writes;
      all.local = touch.local && (!known || all.local);
    }
    group.touches = std::move(early);
    return true;
  }

  /// They share rows of a buffer, and what every tile reads again stays small.
  bool worthwhile(const Touches &early, const Touches &late) {
    bool share = false;
    llvm::SmallSetVector<Value, 16> again;
    for (const Touches *touches : {&early, &late})
      for (auto &[buffer, touch] : *touches) {
        auto other = (touches == &early ? late : early).find(buffer);
        bool both = other != (touches == &early ? late : early).end();
        if (touch.local && both && other->second.local)
          share = true;
        if (!touch.local)
          again.insert(buffer);
      }
    int64_t bytes = 0;
    for (Value buffer : again) {
      auto type = cast<MemRefType>(buffer.getType());
      int64_t size = elementsOf(type) *
                     std::max<int64_t>(type.getElementTypeBitWidth() / 8, 1);
      // Of partial sums a chunk has its own.
      bool parts = type.getRank() > 1 && type.getDimSize(0) == kPartials &&
                   buffer.getDefiningOp<memref::AllocOp>();
      bytes += parts ? size / kPartials : size;
    }
    return share && bytes <= kSharedBytes;
  }

  bool nothingBetween(Operation *early, Operation *late,
                      const Touches &touches) {
    for (Operation *op = early->getNextNode(); op != late;
         op = op->getNextNode()) {
      if (isMemoryEffectFree(op) || isa<memref::AllocOp>(op))
        continue;
      Touches between;
      if (!collect(op, nullptr, 1, between) ||
          conflict(touches, between, false))
        return false;
    }
    return true;
  }

  /// The op before which the merged loop goes: the late loop moves up, or the
  /// early one down.
  Operation *placeFor(scf::ParallelOp early, scf::ParallelOp late,
                      const Touches &earlyTouches, const Touches &lateTouches) {
    if (nothingBetween(early, late, lateTouches) && hoistOperands(early, late))
      return early;
    if (nothingBetween(early, late, earlyTouches))
      return late;
    return nullptr;
  }

  /// Moves what the late loop needs up to the early one.
  bool hoistOperands(Operation *early, Operation *late) {
    llvm::SetVector<Operation *> needed;
    SmallVector<Operation *> worklist{late};
    while (!worklist.empty()) {
      Operation *op = worklist.pop_back_val();
      WalkResult result = op->walk([&](Operation *inner) {
        for (Value operand : inner->getOperands()) {
          Operation *def = operand.getDefiningOp();
          if (!def || def->getBlock() != &block || def->isBeforeInBlock(early))
            continue;
          if (!isMemoryEffectFree(def) && !isa<memref::AllocOp>(def))
            return WalkResult::interrupt();
          if (needed.insert(def))
            worklist.push_back(def);
        }
        return WalkResult::advance();
      });
      if (result.wasInterrupted())
        return false;
    }
    SmallVector<Operation *> sorted(needed.getArrayRef());
    llvm::sort(sorted, [](Operation *a, Operation *b) {
      return a->isBeforeInBlock(b);
    });
    for (Operation *op : sorted)
      op->moveBefore(early);
    return true;
  }

  // ---- one loop from two

  Loop merge(Loop early, Loop late, int64_t tokens, Operation *place) {
    OpBuilder builder(place);
    Location loc = FusedLoc::get(builder.getContext(),
                                 {early.op.getLoc(), late.op.getLoc()});
    bool chunked = early.kind == Loop::chunks || late.kind == Loop::chunks;
    Loop result{nullptr, chunked ? Loop::chunks : Loop::tiles, tokens,
                scf::ForOp()};
    auto index = [&](int64_t n) {
      return arith::ConstantIndexOp::create(builder, loc, n).getResult();
    };
    Value zero = index(0), tile = index(lanes), all = index(tokens);
    if (!chunked) {
      result.op =
          scf::ParallelOp::create(builder, loc, zero, all, tile, nullptr);
      result.op->setAttr(kTokensAttrName, builder.getUnitAttr());
      Value first = result.op.getInductionVars()[0];
      Operation *end = result.op.getBody()->getTerminator();
      for (Loop *loop : {&early, &late})
        spliceTile(*loop, tokens, first, all, end);
    } else {
      Loop &model = early.kind == Loop::chunks ? early : late;
      int64_t count = *constant(model.op.getUpperBound()[0]);
      int64_t size = llvm::alignTo(llvm::divideCeil(tokens, count), lanes);
      result.op = scf::ParallelOp::create(builder, loc, zero, index(count),
                                          index(1), nullptr);
      result.op->setAttr(kChunksAttrName, builder.getI64IntegerAttr(tokens));
      Value chunk = result.op.getInductionVars()[0];
      Operation *end = result.op.getBody()->getTerminator();
      for (Loop *loop : {&early, &late})
        spliceAround(*loop, chunk, end, /*before=*/true);
      OpBuilder inside(end);
      Value step = arith::ConstantIndexOp::create(inside, loc, size);
      Value lower = arith::MinUIOp::create(
          inside, loc, arith::MulIOp::create(inside, loc, chunk, step), all);
      Value upper = arith::MinUIOp::create(
          inside, loc, arith::AddIOp::create(inside, loc, lower, step), all);
      result.inner = scf::ForOp::create(inside, loc, lower, upper, tile);
      Operation *tileEnd = result.inner.getBody()->getTerminator();
      for (Loop *loop : {&early, &late})
        spliceTile(*loop, tokens, result.inner.getInductionVar(), upper,
                   tileEnd);
      for (Loop *loop : {&early, &late})
        spliceAround(*loop, chunk, end, /*before=*/false);
    }
    setName(result.op, early.op, late.op);
    early.op.erase();
    late.op.erase();
    return result;
  }

  static void setName(Operation *result, Operation *early, Operation *late) {
    auto name = [](Operation *op) {
      auto attr = op->getAttrOfType<StringAttr>(kKernelNameAttrName);
      return attr ? attr.getValue() : StringRef("loop");
    };
    std::string both = name(early).str();
    // Names list what a kernel does, in order.
    if (!StringRef(both).ends_with(name(late)))
      both += "_" + name(late).str();
    result->setAttr(kKernelNameAttrName,
                    StringAttr::get(result->getContext(), both));
  }

  static void splice(Block &from, Block::iterator begin, Block::iterator end,
                     Operation *before) {
    before->getBlock()->getOperations().splice(
        before->getIterator(), from.getOperations(), begin, end);
  }

  /// What a loop does with the tokens [first, min(first + lanes, upper)).
  void spliceTile(Loop &loop, int64_t tokens, Value first, Value upper,
                  Operation *before) {
    int64_t step = stepOf(loop);
    Value row = loop.kind == Loop::chunks ? loop.inner.getInductionVar()
                                          : loop.op.getInductionVars()[0];
    Block &body =
        loop.kind == Loop::chunks ? *loop.inner.getBody() : *loop.op.getBody();
    Block::iterator end = std::prev(body.end());
    if (loop.kind == Loop::tiles || step == lanes) {
      row.replaceAllUsesWith(first);
      return splice(body, body.begin(), end, before);
    }
    OpBuilder builder(before);
    Location loc = loop.op.getLoc();
    int64_t factor = loop.kind == Loop::rows ? loop.range / tokens : 1;
    auto scaled = [&](Value tokenNumber) -> Value {
      if (factor == 1)
        return tokenNumber;
      Value by = arith::ConstantIndexOp::create(builder, loc, factor);
      return arith::MulIOp::create(builder, loc, tokenNumber, by);
    };
    Value tile = arith::ConstantIndexOp::create(builder, loc, lanes);
    Value last = arith::MinUIOp::create(
        builder, loc, arith::AddIOp::create(builder, loc, first, tile), upper);
    auto rows =
        scf::ForOp::create(builder, loc, scaled(first), scaled(last),
                           arith::ConstantIndexOp::create(builder, loc, step));
    row.replaceAllUsesWith(rows.getInductionVar());
    splice(body, body.begin(), end, rows.getBody()->getTerminator());
  }

  /// What a chunk does before or after its tokens.
  void spliceAround(Loop &loop, Value chunk, Operation *before, bool first) {
    if (loop.kind != Loop::chunks)
      return;
    Block &body = *loop.op.getBody();
    loop.op.getInductionVars()[0].replaceAllUsesWith(chunk);
    Block::iterator inner = loop.inner->getIterator();
    if (first)
      splice(body, body.begin(), inner, before);
    else
      splice(body, std::next(inner), std::prev(body.end()), before);
  }

  // ---- buffers that shrink to a tile

  void contract(Group &group) {
    int64_t total = 0;
    for (auto &[buffer, touch] : group.touches) {
      auto alloc = buffer.getDefiningOp<memref::AllocOp>();
      if (!alloc || !touch.local || !touch.writes)
        continue;
      MemRefType type = alloc.getType();
      int64_t bits = type.getElementTypeBitWidth();
      int64_t bytes = type.getNumElements() / group.tokens * lanes * bits / 8;
      if (bits % 8 != 0 || bytes > kTileBytes || total + bytes > kScratchBytes)
        continue;
      SmallVector<OpOperand *> accesses;
      if (!accessesWithin(alloc, group.loop.op, accesses))
        continue;
      shrink(alloc, bytes, group, accesses);
      total += bytes;
    }
  }

  /// All accesses of a buffer; false if something outside the loop, or
  /// anything but an access, uses it.
  static bool accessesWithin(Value memref, Operation *loop,
                             SmallVector<OpOperand *> &accesses) {
    for (OpOperand &use : memref.getUses()) {
      Operation *user = use.getOwner();
      if (isa<memref::CollapseShapeOp, memref::ExpandShapeOp>(user)) {
        if (!accessesWithin(user->getResult(0), loop, accesses))
          return false;
        continue;
      }
      std::optional<unsigned> number = bufferOperand(user);
      if (!number || *number != use.getOperandNumber() ||
          !loop->isAncestor(user))
        return false;
      accesses.push_back(&use);
    }
    return true;
  }

  void shrink(memref::AllocOp alloc, int64_t bytes, const Group &group,
              ArrayRef<OpOperand *> accesses) {
    Loop loop = group.loop;
    Block &body =
        loop.kind == Loop::chunks ? *loop.inner.getBody() : *loop.op.getBody();
    Value first = loop.kind == Loop::chunks ? loop.inner.getInductionVar()
                                            : loop.op.getInductionVars()[0];
    OpBuilder builder = OpBuilder::atBlockBegin(&body);
    Location loc = alloc.getLoc();
    Value memory = memref::AllocaOp::create(
        builder, loc, MemRefType::get({bytes}, builder.getI8Type()),
        builder.getI64IntegerAttr(64));
    Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
    llvm::MapVector<Value, std::pair<Value, Value>> views; // view, first row
    for (OpOperand *access : accesses) {
      Value old = access->get();
      auto [it, isNew] = views.insert({old, {}});
      if (isNew) {
        auto type = cast<MemRefType>(old.getType());
        SmallVector<int64_t> shape(type.getShape());
        int64_t rows = shape[0] / group.tokens;
        shape[0] = rows * lanes;
        Value view = memref::ViewOp::create(
            builder, loc, MemRefType::get(shape, type.getElementType()), memory,
            zero, ValueRange{});
        Value by = arith::ConstantIndexOp::create(builder, loc, rows);
        it->second = {view, arith::MulIOp::create(builder, loc, first, by)};
      }
      Operation *user = access->getOwner();
      unsigned number = access->getOperandNumber();
      OpBuilder at(user);
      Value row = arith::SubIOp::create(at, loc, user->getOperand(number + 1),
                                        it->second.second);
      user->setOperand(number, it->second.first);
      user->setOperand(number + 1, row);
    }
    for (Operation *view : llvm::make_early_inc_range(alloc->getUsers()))
      eraseUnused(view);
    alloc.erase();
  }

  static void eraseUnused(Operation *view) {
    for (Operation *user : llvm::make_early_inc_range(view->getUsers()))
      eraseUnused(user);
    view->erase();
  }

  Block &block;
  int64_t lanes;
};

struct FuseTilesPass : jpmhc::impl::FuseTilesBase<FuseTilesPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    int64_t lanes = getTarget(function).getLanes();
    if (function.isDeclaration() || lanes == 1)
      return; // a GPU takes its tokens by threads
    merged += TileFusion(function, lanes).run();
  }
};
} // namespace
