// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a loop's iteration needs for a while lies on the stack. Fused loops have
// many such buffers one after the other: where they share memory, all that an
// iteration touches stays in a cache. A buffer keeps one allocation to itself
// as long as it lives, so that buffers in use at once still never alias.
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Interfaces/ViewLikeInterface.h"

namespace jpmhc {
#define GEN_PASS_DEF_SHARESCRATCH
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// Smaller buffers are left: they may become registers.
static constexpr int64_t kFewestBytes = 4096;

namespace {
/// A buffer and when it is in use: from its first user to its last, as ops of
/// the block.
struct Scratch {
  memref::AllocaOp op;
  int64_t bytes;
  Operation *first, *last;
};

/// Memory that buffers take in turn.
struct Slot {
  SmallVector<Scratch> users; ///< the last one ends last
  int64_t bytes;
};
} // namespace

/// Widens [first, last] by the ops of the block that use a buffer or a view of
/// it; false if it leaves the block.
static bool addUses(Value buffer, Block &block, Operation *&first,
                    Operation *&last) {
  for (Operation *user : buffer.getUsers()) {
    Operation *ancestor = block.findAncestorOpInBlock(*user);
    if (!ancestor || ancestor->hasTrait<OpTrait::IsTerminator>())
      return false;
    if (!first || ancestor->isBeforeInBlock(first))
      first = ancestor;
    if (!last || last->isBeforeInBlock(ancestor))
      last = ancestor;
    for (Value result : user->getResults())
      if (isa<MemRefType>(result.getType()) &&
          !addUses(result, block, first, last))
        return false;
  }
  return true;
}

static std::optional<Scratch> scratchOf(memref::AllocaOp op) {
  MemRefType type = op.getType();
  if (!type.hasStaticShape() || !type.getLayout().isIdentity() ||
      !type.getElementType().isIntOrFloat() ||
      type.getElementTypeBitWidth() % 8 != 0)
    return std::nullopt;
  int64_t bytes = type.getNumElements() * type.getElementTypeBitWidth() / 8;
  Scratch scratch{op, bytes, nullptr, nullptr};
  if (bytes < kFewestBytes ||
      !addUses(op, *op->getBlock(), scratch.first, scratch.last) ||
      !scratch.first)
    return std::nullopt;
  return scratch;
}

/// A slot that is free by then and not much larger than needed; else null.
static Slot *freeSlot(MutableArrayRef<Slot> slots, const Scratch &scratch) {
  Slot *best = nullptr;
  for (Slot &slot : slots) {
    bool fits = slot.users.back().last->isBeforeInBlock(scratch.first) &&
                slot.bytes <= 2 * scratch.bytes &&
                scratch.bytes <= 2 * slot.bytes;
    if (fits && (!best || slot.bytes < best->bytes))
      best = &slot;
  }
  return best;
}

/// Puts the users of a slot into one allocation.
static void share(Slot &slot, Block &block) {
  OpBuilder builder = OpBuilder::atBlockBegin(&block);
  Location loc = slot.users.front().op.getLoc();
  Value memory = memref::AllocaOp::create(
      builder, loc, MemRefType::get({slot.bytes}, builder.getI8Type()),
      builder.getI64IntegerAttr(64));
  Value zero = arith::ConstantIndexOp::create(builder, loc, 0);
  for (Scratch &user : slot.users) {
    Value view =
        memref::ViewOp::create(builder, user.op.getLoc(), user.op.getType(),
                               memory, zero, ValueRange{});
    user.op.getResult().replaceAllUsesWith(view);
  }
  for (Scratch &user : slot.users) // the builder may point at one
    user.op.erase();
}

static unsigned shareWithin(Block &block) {
  SmallVector<Scratch> all;
  for (auto op : block.getOps<memref::AllocaOp>())
    if (std::optional<Scratch> scratch = scratchOf(op))
      all.push_back(*scratch);
  llvm::stable_sort(all, [](const Scratch &a, const Scratch &b) {
    return a.first != b.first && a.first->isBeforeInBlock(b.first);
  });
  SmallVector<Slot> slots;
  for (const Scratch &scratch : all) {
    if (Slot *slot = freeSlot(slots, scratch)) {
      slot->users.push_back(scratch);
      slot->bytes = std::max(slot->bytes, scratch.bytes);
    } else {
      slots.push_back({{scratch}, scratch.bytes});
    }
  }
  for (Slot &slot : slots)
    if (slot.users.size() > 1)
      share(slot, block);
  return all.size() - slots.size();
}

namespace {
struct ShareScratchPass : jpmhc::impl::ShareScratchBase<ShareScratchPass> {
  void runOnOperation() override {
    if (getTarget(getOperation()).getLanes() == 1)
      return; // a GPU's threads would have to wait for each other in between
    SmallVector<Block *> blocks;
    getOperation().walk([&](Block *block) { blocks.push_back(block); });
    for (Block *block : blocks)
      shared += shareWithin(*block);
  }
};
} // namespace
