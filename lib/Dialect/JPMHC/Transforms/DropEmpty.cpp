// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

namespace jpmhc {
#define GEN_PASS_DEF_DROPEMPTY
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static bool isEmpty(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  return memref && llvm::is_contained(memref.getShape(), 0);
}

static bool neverRuns(Value lower, Value upper) {
  std::optional<int64_t> from = getConstantIntValue(lower),
                         to = getConstantIntValue(upper);
  return from && to && *from >= *to;
}

/// Erases loops that run no iteration; what they carry is what they began with.
static void dropLoops(func::FuncOp function) {
  function.walk<WalkOrder::PreOrder>([](Operation *op) {
    ValueRange initial;
    if (auto loop = dyn_cast<scf::ParallelOp>(op);
        loop &&
        llvm::any_of(llvm::zip(loop.getLowerBound(), loop.getUpperBound()),
                     [](auto bounds) {
                       return neverRuns(std::get<0>(bounds),
                                        std::get<1>(bounds));
                     }))
      initial = loop.getInitVals();
    else if (auto loop = dyn_cast<scf::ForOp>(op);
             loop && neverRuns(loop.getLowerBound(), loop.getUpperBound()))
      initial = loop.getInitArgs();
    else
      return WalkResult::advance();
    op->replaceAllUsesWith(initial);
    op->erase();
    return WalkResult::skip();
  });
}

/// A product over no terms is 0 · C or 1 · C.
static void dropProduct(GemmOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  Value c = op.getC();
  auto type = cast<MemRefType>(c.getType());
  if (!isEmpty(type) && op.getBeta().isZero()) {
    Value zero = arith::ConstantIndexOp::create(b, loc, 0),
          one = arith::ConstantIndexOp::create(b, loc, 1),
          number = arith::ConstantOp::create(
              b, loc, b.getZeroAttr(type.getElementType()));
    SmallVector<Value> lower(type.getRank(), zero), step(type.getRank(), one),
        upper;
    for (int64_t size : type.getShape())
      upper.push_back(arith::ConstantIndexOp::create(b, loc, size));
    auto rows = scf::ParallelOp::create(b, loc, lower[0], upper[0], step[0],
                                        ValueRange());
    b.setInsertionPointToStart(rows.getBody());
    SmallVector<Value> indices(rows.getInductionVars());
    for (int64_t i = 1; i < type.getRank(); ++i) {
      auto columns = scf::ParallelOp::create(b, loc, lower[i], upper[i],
                                             step[i], ValueRange());
      b.setInsertionPointToStart(columns.getBody());
      indices.push_back(columns.getInductionVars()[0]);
    }
    memref::StoreOp::create(b, loc, number, c, indices);
  }
  op.erase();
}

/// Erases what reads or writes a buffer without elements: it never happens.
static void dropAccesses(func::FuncOp function) {
  SmallVector<Operation *> accesses;
  function.walk([&](Operation *op) {
    if (!isa<func::CallOp, ViewLikeOpInterface>(op) &&
        llvm::any_of(op->getOperandTypes(), isEmpty))
      accesses.push_back(op);
  });
  for (Operation *op : accesses) {
    if (auto product = dyn_cast<GemmOp>(op)) {
      dropProduct(product);
      continue;
    }
    OpBuilder builder(op);
    for (Value result : op->getResults())
      if (!result.use_empty())
        result.replaceAllUsesWith(arith::ConstantOp::create(
            builder, op->getLoc(), builder.getZeroAttr(result.getType())));
    op->erase();
  }
}

/// Erases views and buffers without elements, or, if one is handed on to a
/// function, makes it a buffer of its own.
static void dropBuffers(func::FuncOp function) {
  SmallVector<Operation *> buffers;
  function.walk([&](Operation *op) {
    if (isa<ViewLikeOpInterface, memref::AllocOp, memref::AllocaOp,
            memref::GetGlobalOp>(op) &&
        llvm::any_of(op->getResultTypes(), isEmpty))
      buffers.push_back(op);
  });
  for (Operation *op : llvm::reverse(buffers)) {
    if (!op->use_empty()) {
      OpBuilder builder(op);
      auto type = cast<MemRefType>(op->getResult(0).getType());
      op->replaceAllUsesWith(memref::AllocOp::create(
          builder, op->getLoc(), MemRefType::get({0}, type.getElementType())));
    }
    op->erase();
  }
}

/// Gives arguments without elements a type that has a pointer.
static void flatten(func::FuncOp function) {
  auto flat = [](Type type) -> Type {
    if (!isEmpty(type))
      return type;
    return MemRefType::get({0}, cast<MemRefType>(type).getElementType());
  };
  if (function.isDeclaration())
    return;
  for (BlockArgument argument : function.getArguments())
    argument.setType(flat(argument.getType()));
  function.setType(FunctionType::get(function.getContext(),
                                     function.front().getArgumentTypes(),
                                     function.getResultTypes()));
}

namespace {
struct DropEmptyPass : jpmhc::impl::DropEmptyBase<DropEmptyPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      dropLoops(function);
      dropAccesses(function);
      dropBuffers(function);
      flatten(function);
    }
  }
};
} // namespace
