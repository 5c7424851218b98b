// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Support/Buffers.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace jpmhc {
#define GEN_PASS_DEF_OUTLINEKERNELS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// A task should be worth about this many memory accesses and operations (some
/// 10 µs).
static constexpr int64_t kWorkPerTask = 32768;

/// A guess for the iterations of a loop whose bounds are not constants.
static constexpr int64_t kUnknownTrips = 4;
/// ... of a loop over columns.
static constexpr int64_t kUnknownColumns = 64;

/// Rough number of operations of one iteration of a loop.
static int64_t workOf(Operation *loop) {
  int64_t work = 0;
  for (Region &region : loop->getRegions())
    for (Operation &op : region.getOps()) {
      int64_t trips = 1;
      if (auto inner = dyn_cast<LoopLikeOpInterface>(op)) {
        std::optional<llvm::APInt> count = inner.getStaticTripCount();
        trips =
            count ? std::max<int64_t>(count->getSExtValue(), 1) : kUnknownTrips;
      }
      if (auto inner = dyn_cast<scf::ParallelOp>(op)) {
        std::optional<int64_t> upper =
            getConstantIntValue(inner.getUpperBound()[0]);
        trips = upper ? std::max<int64_t>(*upper, 1) : kUnknownColumns;
      }
      work += op.getNumRegions() ? trips * (1 + workOf(&op)) : 1;
    }
  return work;
}

/// The buffer that captured views may share, which then must not be declared
/// free of aliases. Slots of the arena that are alive together never overlap.
static Value sharedBuffer(Value memref) {
  auto view = memref.getDefiningOp<ViewLikeOpInterface>();
  while (view && !isa<memref::ViewOp>(view)) {
    memref = view.getViewSource();
    view = memref.getDefiningOp<ViewLikeOpInterface>();
  }
  return memref;
}

static SmallVector<bool> writtenArguments(func::FuncOp kernel) {
  return llvm::map_to_vector(
      kernel.getArguments().drop_front(2), [](Value argument) {
        return isa<MemRefType>(argument.getType()) &&
               hasEffectOn<MemoryEffects::Write>(argument);
      });
}

namespace {
class Outliner {
public:
  explicit Outliner(ModuleOp module) : module(module), symbols(module) {}

  /// Returns whether the kernel was a new one.
  bool outline(scf::ParallelOp loop) {
    OpBuilder builder(loop);
    SetVector<Value> captured;
    getUsedValuesDefinedAbove(loop.getRegion(), captured);
    captured.insert(loop.getStep()[0]);
    SmallVector<Value> arguments;
    SmallVector<Operation *> constants;
    for (Value value : captured) {
      if (Operation *def = value.getDefiningOp();
          def && def->hasTrait<OpTrait::ConstantLike>())
        constants.push_back(def);
      else
        arguments.push_back(value);
    }
    func::FuncOp kernel = buildKernel(loop, arguments, constants);
    std::string text;
    llvm::raw_string_ostream stream(text);
    kernel.print(stream, OpPrintingFlags().useLocalScope());
    auto [entry, isNew] = known.try_emplace(text, kernel);
    if (!isNew)
      kernel.erase();
    else
      nameKernel(kernel, loop);
    kernel = entry->second;

    int64_t step = getConstantIntValue(loop.getStep()[0]).value_or(1);
    int64_t grain =
        llvm::divideCeil(kWorkPerTask,
                         std::max<int64_t>(workOf(loop), 1) * step) *
        step;
    auto launch = LaunchOp::create(
        builder, loop.getLoc(), FlatSymbolRefAttr::get(kernel.getNameAttr()),
        loop.getLowerBound()[0], loop.getUpperBound()[0],
        builder.getI64IntegerAttr(grain), arguments);
    launch->setAttr(kWrittenAttrName,
                    builder.getDenseBoolArrayAttr(writtenArguments(kernel)));
    loop.erase();
    return isNew;
  }

private:
  func::FuncOp buildKernel(scf::ParallelOp loop, ArrayRef<Value> arguments,
                           ArrayRef<Operation *> constants) {
    OpBuilder builder(module.getBodyRegion());
    builder.setInsertionPointToEnd(module.getBody());
    SmallVector<Type> types{builder.getIndexType(), builder.getIndexType()};
    llvm::append_range(types, ValueRange(arguments).getTypes());
    auto kernel = func::FuncOp::create(builder, loop.getLoc(), "kernel",
                                       builder.getFunctionType(types, {}));
    kernel.setPrivate();
    kernel->setAttr(kKernelNameAttrName, builder.getUnitAttr());
    Block *entry = kernel.addEntryBlock();
    builder.setInsertionPointToStart(entry);
    IRMapping mapping;
    for (Operation *constant : constants)
      builder.clone(*constant, mapping);
    llvm::DenseMap<Value, unsigned> sharers;
    for (Value argument : arguments)
      if (isa<MemRefType>(argument.getType()))
        ++sharers[sharedBuffer(argument)];
    for (auto [i, argument] : llvm::enumerate(arguments)) {
      mapping.map(argument, entry->getArgument(i + 2));
      if (isa<MemRefType>(argument.getType()) &&
          sharers[sharedBuffer(argument)] == 1)
        kernel.setArgAttr(i + 2, "llvm.noalias", builder.getUnitAttr());
    }
    auto body = cast<scf::ParallelOp>(builder.clone(*loop, mapping));
    body->removeAttr(kKernelNameAttrName);
    body.getLowerBoundMutable().assign(entry->getArgument(0));
    body.getUpperBoundMutable().assign(entry->getArgument(1));
    builder.setInsertionPointToEnd(entry);
    func::ReturnOp::create(builder, loop.getLoc());
    return kernel;
  }

  void nameKernel(func::FuncOp kernel, scf::ParallelOp loop) {
    auto attr = loop->getAttrOfType<StringAttr>(kKernelNameAttrName);
    std::string base = attr ? attr.getValue().str() : "loop";
    for (char &c : base)
      c = llvm::isAlnum(c) ? c : '_';
    std::string name;
    do
      name = base + "_" + std::to_string(numbers[base]++);
    while (symbols.lookup(name)); // a function of the user's
    kernel.setName(name);
  }

  ModuleOp module;
  SymbolTable symbols; ///< without the kernels
  llvm::StringMap<func::FuncOp> known;
  llvm::StringMap<int> numbers;
};

struct OutlineKernelsPass
    : jpmhc::impl::OutlineKernelsBase<OutlineKernelsPass> {
  void runOnOperation() override {
    SmallVector<scf::ParallelOp> loops;
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isDeclaration())
        llvm::append_range(
            loops, function.getBody().front().getOps<scf::ParallelOp>());
    Outliner outliner(getOperation());
    for (scf::ParallelOp loop : loops) {
      if (outliner.outline(loop))
        ++kernels;
      else
        ++shared;
    }
  }
};
} // namespace
