// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gives the parallel loops of outlined kernels to blocks and threads.
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Support/Buffers.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/IRMapping.h"

namespace jpmhc {
#define GEN_PASS_DEF_MAPTOGPU
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static constexpr int64_t kWarp = 32;
/// Threads of a block that works on one row together.
static constexpr int64_t kThreadsPerRow = 128;
/// Threads of a block whose threads have a row (or a token) each.
static constexpr int64_t kThreadsOfOwnRow = 128;
/// Static shared memory that every supported chip gives a block.
static constexpr int64_t kSharedBytes = 48 * 1024;

/// The one loop at the top level of a kernel; null when it is not like that.
static scf::ParallelOp rowsOf(func::FuncOp kernel) {
  auto loops = kernel.getOps<scf::ParallelOp>();
  if (!llvm::hasSingleElement(loops) || (*loops.begin()).getNumLoops() != 1)
    return scf::ParallelOp();
  return *loops.begin();
}

static bool hasInnerParallel(scf::ParallelOp loop) {
  return loop.getBody()
      ->walk([](scf::ParallelOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}

/// Whether a scratch buffer is touched inside a loop over columns, so that the
/// threads of a row share it.
static bool isShared(memref::AllocaOp scratch, scf::ParallelOp rows) {
  SmallVector<Value> worklist{scratch.getResult()};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (user->getParentOfType<scf::ParallelOp>() != rows)
        return true;
      if (isa<ViewLikeOpInterface>(user))
        llvm::append_range(worklist, user->getResults());
    }
  }
  return false;
}

namespace {

/// Rewrites one outlined kernel as a GPU function.
class KernelMapper {
public:
  /// `rows` is the loop over rows at the top level of the kernel.
  KernelMapper(func::FuncOp kernel, scf::ParallelOp rows,
               gpu::GPUModuleOp module)
      : kernel(kernel), rows(rows), b(module.getContext()),
        loc(kernel.getLoc()) {
    b.setInsertionPointToEnd(module.getBody());
    function = gpu::GPUFuncOp::create(b, loc, kernel.getName(),
                                      kernel.getFunctionType());
    function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(),
                      b.getUnitAttr());
    for (unsigned i = 0; i < kernel.getNumArguments(); ++i)
      if (kernel.getArgAttr(i, "llvm.noalias"))
        function.setArgAttr(i, "llvm.noalias", b.getUnitAttr());
  }

  LogicalResult map() {
    b.setInsertionPointToStart(&function.getBody().front());
    mapping.map(kernel.getArguments(),
                function.getArguments().take_front(kernel.getNumArguments()));
    for (Operation &op : kernel.getBody().front().without_terminator())
      if (&op != rows.getOperation())
        b.clone(op, mapping);
    thread = gpu::ThreadIdOp::create(b, loc, gpu::Dimension::x);
    Value block = gpu::BlockIdOp::create(b, loc, gpu::Dimension::x);
    cooperative = hasInnerParallel(rows);
    if (failed(cooperative ? mapCooperative(block) : mapIndependent(block)))
      return failure();
    b.setInsertionPointToEnd(&function.getBody().front());
    gpu::ReturnOp::create(b, loc);
    std::optional<int64_t> step = getConstantIntValue(rows.getStep()[0]);
    if (!step)
      return rows.emitOpError("expected the step of a kernel's rows to be "
                              "constant");
    int64_t threads = cooperative ? kThreadsPerRow : kThreadsOfOwnRow;
    function->setAttr(kBlockAttrName, b.getI64IntegerAttr(threads));
    function->setAttr(kRowsPerBlockAttrName,
                      b.getI64IntegerAttr((cooperative ? 1 : threads) * *step));
    function.setKnownBlockSizeAttr(
        b.getDenseI32ArrayAttr({static_cast<int32_t>(threads), 1, 1}));
    return success();
  }

private:
  Value constant(int64_t value) {
    return arith::ConstantIndexOp::create(b, loc, value);
  }

  /// A thread a row.
  LogicalResult mapIndependent(Value block) {
    Value linear = arith::AddIOp::create(
        b, loc,
        arith::MulIOp::create(b, loc, block, constant(kThreadsOfOwnRow)),
        thread);
    Value row = arith::AddIOp::create(
        b, loc, lower(),
        arith::MulIOp::create(b, loc, linear,
                              mapping.lookup(rows.getStep()[0])));
    Value inside =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, row, upper());
    auto guard = scf::IfOp::create(b, loc, inside, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard restore(b);
    b.setInsertionPointToStart(guard.thenBlock());
    mapping.map(rows.getInductionVars()[0], row);
    cloneSequential(*rows.getBody());
    return success();
  }

  /// A block a row: its threads share the loops over columns and do everything
  /// else alike.
  LogicalResult mapCooperative(Value block) {
    mapping.map(rows.getInductionVars()[0],
                arith::AddIOp::create(
                    b, loc, lower(),
                    arith::MulIOp::create(b, loc, block,
                                          mapping.lookup(rows.getStep()[0]))));
    return mapUniform(*rows.getBody());
  }

  Value lower() { return mapping.lookup(rows.getLowerBound()[0]); }
  Value upper() { return mapping.lookup(rows.getUpperBound()[0]); }

  /// Clones a block that one thread runs alone.
  void cloneSequential(Block &block) {
    for (Operation &op : block.without_terminator()) {
      Operation *copy = b.clone(op, mapping);
      SmallVector<scf::ParallelOp> inner;
      copy->walk([&](scf::ParallelOp loop) { inner.push_back(loop); });
      for (scf::ParallelOp loop : inner) {
        ValueRange results = lowerParallelToFor(loop);
        if (copy == loop.getOperation())
          mapping.map(op.getResults(), results);
      }
    }
  }

  /// Clones a block that all threads of the block run in step.
  LogicalResult mapUniform(Block &block) {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>()) {
        if (auto yield = dyn_cast<scf::YieldOp>(op))
          b.clone(op, mapping);
        continue;
      }
      if (failed(mapUniform(op)))
        return failure();
    }
    return success();
  }

  LogicalResult mapUniform(Operation &op) {
    if (auto loop = dyn_cast<scf::ParallelOp>(op)) {
      mapStrided(loop);
      return success();
    }
    if (auto scratch = dyn_cast<memref::AllocaOp>(op);
        scratch && isShared(scratch, rows))
      return mapShared(scratch);
    if (isa<memref::StoreOp>(op)) {
      mapStore(op);
      return success();
    }
    if (isa<scf::ForOp, scf::IfOp>(op))
      return mapControlFlow(op);
    if (op.getNumRegions())
      return op.emitOpError(
          "expected a loop or a condition in a row of a kernel");
    b.clone(op, mapping);
    return success();
  }

  /// The condition and the bounds are the same for all threads, so barriers
  /// inside are reached by all or none.
  LogicalResult mapControlFlow(Operation &op) {
    Operation *copy = b.cloneWithoutRegions(op, mapping);
    for (auto [from, to] : llvm::zip(op.getRegions(), copy->getRegions())) {
      if (from.empty())
        continue;
      Block &block = to.emplaceBlock();
      for (BlockArgument argument : from.getArguments())
        mapping.map(argument,
                    block.addArgument(argument.getType(), argument.getLoc()));
      OpBuilder::InsertionGuard restore(b);
      b.setInsertionPointToStart(&block);
      if (failed(mapUniform(from.front())))
        return failure();
    }
    return success();
  }

  LogicalResult mapShared(memref::AllocaOp scratch) {
    MemRefType type = scratch.getType();
    sharedBytes += bytesOf(type);
    if (sharedBytes > kSharedBytes)
      return scratch.emitOpError("expected at most ")
             << kSharedBytes << " bytes of shared memory in a kernel, got "
             << sharedBytes;
    auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                            gpu::AddressSpace::Workgroup);
    auto shared = MemRefType::get(type.getShape(), type.getElementType(),
                                  MemRefLayoutAttrInterface(), space);
    mapping.map(scratch.getResult(),
                function.addWorkgroupAttribution(shared, loc));
    return success();
  }

  bool isPrivate(Value memref) {
    auto scratch = viewedBuffer(memref).getDefiningOp<memref::AllocaOp>();
    return scratch && !isShared(scratch, rows);
  }

  /// One thread stores for all; the others wait until they have read what was
  /// there before, and then for the store.
  void mapStore(Operation &op) {
    if (isPrivate(cast<memref::StoreOp>(op).getMemRef())) {
      b.clone(op, mapping);
      return;
    }
    gpu::BarrierOp::create(b, loc);
    Value first = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                        thread, constant(0));
    auto guard = scf::IfOp::create(b, loc, first, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard restore(b);
      b.setInsertionPointToStart(guard.thenBlock());
      b.clone(op, mapping);
    }
    gpu::BarrierOp::create(b, loc);
  }

  /// Columns thread, thread + threads, …; sums end in every thread.
  void mapStrided(scf::ParallelOp loop) {
    Value step = mapping.lookupOrDefault(loop.getStep()[0]);
    Value begin = arith::AddIOp::create(
        b, loc, mapping.lookupOrDefault(loop.getLowerBound()[0]),
        arith::MulIOp::create(b, loc, thread, step));
    Value stride =
        arith::MulIOp::create(b, loc, step, constant(kThreadsPerRow));
    SmallVector<Value> init =
        llvm::map_to_vector(loop.getInitVals(), [&](Value v) {
          return mapping.lookupOrDefault(v);
        });
    auto reduce = cast<scf::ReduceOp>(loop.getBody()->getTerminator());
    auto strided = scf::ForOp::create(
        b, loc, begin, mapping.lookupOrDefault(loop.getUpperBound()[0]), stride,
        init);
    {
      OpBuilder::InsertionGuard restore(b);
      Block *body = strided.getBody();
      if (init.empty())
        b.setInsertionPoint(body->getTerminator());
      else
        b.setInsertionPointToEnd(body);
      mapping.map(loop.getInductionVars()[0], strided.getInductionVar());
      cloneSequential(*loop.getBody());
      SmallVector<Value> carried;
      for (auto [region, term, in] :
           llvm::zip(reduce.getReductions(), reduce.getOperands(),
                     strided.getRegionIterArgs()))
        carried.push_back(inlineReduction(b, region, in, mapping.lookup(term)));
      if (!init.empty())
        scf::YieldOp::create(b, loc, carried);
    }
    for (auto [region, partial, result] : llvm::zip(
             reduce.getReductions(), strided.getResults(), loop.getResults()))
      mapping.map(result, reduceOverBlock(region, partial));
    // What the columns stored is visible to whatever the row does next.
    if (init.empty())
      gpu::BarrierOp::create(b, loc);
  }

  /// Combines a value of every thread, in an order that does not depend on the
  /// schedule. The neutral element was added by each thread (its loop began
  /// with it), which changes nothing for a sum from 0 or a maximum from -inf.
  Value reduceOverBlock(Region &combiner, Value partial) {
    Type type = partial.getType();
    Value slots = sharedSlots(type);
    gpu::BarrierOp::create(
        b, loc); // earlier readers of the slots, earlier stores of the row
    if (type.isF32() || type.isInteger(32)) {
      for (int32_t offset = kWarp / 2; offset > 0; offset /= 2) {
        Value other = gpu::ShuffleOp::create(b, loc, partial, offset, kWarp,
                                             gpu::ShuffleMode::XOR)
                          .getShuffleResult();
        partial = inlineReduction(b, combiner, partial, other);
      }
      return combineSlots(combiner, slots, partial, kWarp,
                          kThreadsPerRow / kWarp);
    }
    return combineSlots(combiner, slots, partial, 1, kThreadsPerRow);
  }

  /// Every `every`-th thread leaves its value in a slot; all threads then add
  /// the slots up in order.
  Value combineSlots(Region &combiner, Value slots, Value partial,
                     int64_t every, int64_t count) {
    Value slot = arith::DivUIOp::create(b, loc, thread, constant(every));
    Value lane = arith::RemUIOp::create(b, loc, thread, constant(every));
    Value leads = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane,
                                        constant(0));
    auto guard = scf::IfOp::create(b, loc, leads, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard restore(b);
      b.setInsertionPointToStart(guard.thenBlock());
      memref::StoreOp::create(b, loc, partial, slots, slot);
    }
    gpu::BarrierOp::create(b, loc);
    Value total = memref::LoadOp::create(b, loc, slots, constant(0));
    auto sum = scf::ForOp::create(b, loc, constant(1), constant(count),
                                  constant(1), ValueRange{total});
    OpBuilder::InsertionGuard restore(b);
    b.setInsertionPointToEnd(sum.getBody());
    Value term = memref::LoadOp::create(b, loc, slots, sum.getInductionVar());
    scf::YieldOp::create(
        b, loc, inlineReduction(b, combiner, sum.getRegionIterArg(0), term));
    return sum.getResult(0);
  }

  /// One buffer of slots for each type, used by every reduction of the kernel.
  Value sharedSlots(Type type) {
    Value &slots = slotsOfType[type];
    if (!slots) {
      auto space = gpu::AddressSpaceAttr::get(b.getContext(),
                                              gpu::AddressSpace::Workgroup);
      auto shared = MemRefType::get({kThreadsPerRow}, type,
                                    MemRefLayoutAttrInterface(), space);
      slots = function.addWorkgroupAttribution(shared, loc);
    }
    return slots;
  }

  func::FuncOp kernel;
  scf::ParallelOp rows;
  gpu::GPUFuncOp function;
  OpBuilder b;
  Location loc;
  IRMapping mapping;
  Value thread;
  bool cooperative = false;
  int64_t sharedBytes = 0;
  llvm::DenseMap<Type, Value> slotsOfType;
};

struct MapToGPUPass : jpmhc::impl::MapToGPUBase<MapToGPUPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OpBuilder b(&getContext());
    auto kernels = gpu::GPUModuleOp::create(b, module.getLoc(), "kernels");
    SymbolTable(module).insert(
        kernels); // renames it if a function is called so
    module->setAttr(gpu::GPUDialect::getContainerModuleAttrName(),
                    b.getUnitAttr());
    for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
      if (!function->hasAttr(kKernelNameAttrName) || function.isDeclaration())
        continue;
      scf::ParallelOp rows = rowsOf(function);
      if (!rows) {
        function.emitError("expected a kernel with one loop over rows");
        return signalPassFailure();
      }
      if (failed(KernelMapper(function, rows, kernels).map()))
        return signalPassFailure();
      function.eraseBody();
    }
  }
};
} // namespace
