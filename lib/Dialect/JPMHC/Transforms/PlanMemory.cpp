// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Support/Buffers.h"
#include "mlir/Analysis/CallGraph.h"
#include "mlir/Dialect/Bufferization/Transforms/BufferViewFlowAnalysis.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/ADT/SCCIterator.h"

namespace jpmhc {
#define GEN_PASS_DEF_PLANMEMORY
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
constexpr int64_t kAlignment = 64;

/// One buffer to place, alive from op number `first` to op number `last`.
struct Buffer {
  Operation *op; // memref.alloc, or a call that needs an arena of its own
  int64_t bytes, offset;
  int first, last;
};

int64_t lowestFreeOffset(ArrayRef<Buffer> placed, const Buffer &buffer) {
  SmallVector<std::pair<int64_t, int64_t>> busy;
  for (const Buffer &other : placed)
    if (other.first <= buffer.last && buffer.first <= other.last)
      busy.push_back({other.offset, other.offset + other.bytes});
  llvm::sort(busy);
  int64_t offset = 0;
  for (auto [begin, end] : busy) {
    if (offset + buffer.bytes <= begin)
      break;
    offset = std::max(offset, end);
  }
  return offset;
}

/// Plans one function whose callees are planned already.
class FunctionPlan {
public:
  explicit FunctionPlan(func::FuncOp function)
      : function(function), block(function.getBody().front()) {
    for (Operation &op : block)
      number[&op] = count++;
  }

  LogicalResult run() {
    if (failed(collect()))
      return failure();
    llvm::stable_sort(buffers, [](const Buffer &a, const Buffer &b) {
      return a.bytes > b.bytes;
    });
    int64_t total = 0;
    for (size_t i = 0; i < buffers.size(); ++i) {
      buffers[i].offset =
          lowestFreeOffset(ArrayRef(buffers).take_front(i), buffers[i]);
      total = std::max(total, buffers[i].offset + buffers[i].bytes);
    }
    return rewrite(total);
  }

private:
  LogicalResult collect() {
    BufferViewFlowAnalysis views(function);
    LogicalResult status = success();
    function.walk([&](Operation *op) {
      if (auto alloc = dyn_cast<memref::AllocOp>(op)) {
        MemRefType type = alloc.getType();
        if (!type.hasStaticShape() || !type.getLayout().isIdentity())
          status =
              alloc.emitOpError("expected a static shape to plan memory, got ")
              << type;
        else
          buffers.push_back(lifeOf(alloc, views));
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        if (call->getBlock() != &block)
          status =
              call.emitOpError("expected calls at the top level of a function");
        buffers.push_back({op, arenaOf(call), 0, number[op], number[op]});
      }
    });
    return status;
  }

  Buffer lifeOf(memref::AllocOp alloc, BufferViewFlowAnalysis &views) {
    int first = count, last = -1;
    for (Value view : views.resolve(alloc.getResult()))
      for (Operation *user : view.getUsers()) {
        if (isa<memref::DeallocOp>(user) || isMemoryEffectFree(user))
          continue;
        int at = number[block.findAncestorOpInBlock(*user)];
        first = std::min(first, at);
        last = std::max(last, at);
      }
    return {alloc,
            static_cast<int64_t>(
                llvm::alignTo(bytesOf(alloc.getType()), kAlignment)),
            0, first, last};
  }

  static int64_t arenaOf(func::CallOp call) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(
        call, call.getCalleeAttr());
    auto bytes = callee
                     ? callee->getAttrOfType<IntegerAttr>(kArenaBytesAttrName)
                     : IntegerAttr();
    return bytes ? bytes.getInt() : 0;
  }

  LogicalResult rewrite(int64_t total) {
    OpBuilder builder(function.getContext());
    auto type = MemRefType::get({total}, builder.getI8Type());
    if (failed(function.insertArgument(function.getNumArguments(), type,
                                       DictionaryAttr(), function.getLoc())))
      return failure();
    function->setAttr(kArenaBytesAttrName, builder.getI64IntegerAttr(total));
    Value arena = function.getArguments().back();
    for (Buffer &buffer : buffers) {
      builder.setInsertionPoint(buffer.op);
      Value offset = arith::ConstantIndexOp::create(
          builder, buffer.op->getLoc(), buffer.offset);
      auto viewOf = [&](MemRefType t) {
        return memref::ViewOp::create(builder, buffer.op->getLoc(), t, arena,
                                      offset, ValueRange{});
      };
      if (auto alloc = dyn_cast<memref::AllocOp>(buffer.op)) {
        for (Operation *user : llvm::make_early_inc_range(alloc->getUsers()))
          if (isa<memref::DeallocOp>(user))
            user->erase();
        alloc.replaceAllUsesWith(viewOf(alloc.getType()).getResult());
        alloc.erase();
      } else {
        Value slice =
            viewOf(MemRefType::get({buffer.bytes}, builder.getI8Type()));
        buffer.op->insertOperands(buffer.op->getNumOperands(), slice);
      }
    }
    return success();
  }

  func::FuncOp function;
  Block &block;
  DenseMap<Operation *, int> number;
  int count = 0;
  SmallVector<Buffer> buffers;
};

struct PlanMemoryPass : jpmhc::impl::PlanMemoryBase<PlanMemoryPass> {
  void runOnOperation() override {
    CallGraph graph(getOperation());
    SmallVector<func::FuncOp> order; // callees first
    for (auto it = llvm::scc_begin<const CallGraph *>(&graph); !it.isAtEnd();
         ++it) {
      if (it.hasCycle()) {
        getOperation().emitError("expected functions without recursion");
        return signalPassFailure();
      }
      for (CallGraphNode *node : *it)
        if (!node->isExternal())
          if (auto function = dyn_cast<func::FuncOp>(
                  node->getCallableRegion()->getParentOp()))
            order.push_back(function);
    }
    for (func::FuncOp function : order)
      if (failed(requireSingleBlock(function, "a function")) ||
          failed(FunctionPlan(function).run()))
        return signalPassFailure();
  }
};
} // namespace
