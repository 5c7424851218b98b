// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Analysis/Cost.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Support/Locations.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace jpmhc;

// ---- one operation ----

static int64_t elementsOf(Type type) {
  auto vector = dyn_cast<VectorType>(type);
  return vector ? vector.getNumElements() : 1;
}

static int64_t flopsOf(Operation *op) {
  if (op->getNumResults() != 1 ||
      !isa<FloatType>(getElementTypeOrSelf(op->getResult(0).getType())))
    return 0;
  int64_t elements = elementsOf(op->getResult(0).getType());
  if (isa<math::FmaOp>(op))
    return 2 * elements;
  if (isa<math::SqrtOp, math::RsqrtOp, math::AbsFOp>(op))
    return elements;
  if (isa<math::MathDialect>(op->getDialect()))
    return kFunctionFlops * elements;
  bool counts = isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp,
                    arith::NegFOp, arith::MaximumFOp, arith::MinimumFOp,
                    arith::MaxNumFOp, arith::MinNumFOp>(op);
  return counts ? elements : 0;
}

/// Whether a buffer lives longer than a row of the kernel.
static bool outlivesRow(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewLikeOpInterface>())
    buffer = view.getViewSource();
  return isa<BlockArgument>(buffer);
}

static int64_t bytesOfType(Type type) {
  Type element = getElementTypeOrSelf(type);
  int64_t bytes = element.isIndex() ? 8
                  : element.isIntOrFloat()
                      ? llvm::divideCeil(element.getIntOrFloatBitWidth(), 8)
                      : 0;
  return bytes * elementsOf(type);
}

static int64_t bytesOf(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return outlivesRow(load.getMemRef()) ? bytesOfType(load.getType()) : 0;
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return outlivesRow(store.getMemRef())
               ? bytesOfType(store.getValue().getType())
               : 0;
  if (auto load = dyn_cast<vector::LoadOp>(op))
    return outlivesRow(load.getBase()) ? bytesOfType(load.getType()) : 0;
  if (auto store = dyn_cast<vector::StoreOp>(op))
    return outlivesRow(store.getBase())
               ? bytesOfType(store.getValueToStore().getType())
               : 0;
  return 0;
}

// ---- loops ----

/// Iterations of one dimension; 1 and not exact where they are unknown.
static int64_t tripsOf(Value lower, Value upper, Value step, bool &exact) {
  std::optional<int64_t> from = getConstantIntValue(lower),
                         to = getConstantIntValue(upper),
                         by = getConstantIntValue(step);
  if (from && to && by && *by > 0)
    return std::max<int64_t>(llvm::divideCeilSigned(*to - *from, *by), 0);
  exact = false;
  return 1;
}

static int64_t tripsOf(Operation *op, bool &exact) {
  int64_t trips = 1;
  if (auto loop = dyn_cast<scf::ParallelOp>(op))
    for (auto [lower, upper, step] :
         llvm::zip(loop.getLowerBound(), loop.getUpperBound(), loop.getStep()))
      trips *= tripsOf(lower, upper, step, exact);
  else if (auto loop = dyn_cast<scf::ForOp>(op))
    trips = tripsOf(loop.getLowerBound(), loop.getUpperBound(), loop.getStep(),
                    exact);
  else if (isa<scf::WhileOp>(op))
    exact = false;
  return trips;
}

static void addWork(Region &region, int64_t trips, Work &work) {
  for (Operation &op : region.getOps()) {
    work.flops += trips * flopsOf(&op);
    work.bytes += trips * bytesOf(&op);
    int64_t inner = op.getNumRegions() ? tripsOf(&op, work.exact) : 1;
    for (Region &part : op.getRegions())
      addWork(part, trips * inner, work);
  }
}

/// The work of one row: of one iteration of the loop over the range that the
/// kernel is given.
static Work workOfRow(func::FuncOp kernel) {
  Work work;
  for (Operation &op : kernel.getBody().getOps())
    if (auto rows = dyn_cast<scf::ParallelOp>(op)) {
      addWork(rows.getRegion(), 1, work);
      return work;
    }
  addWork(kernel.getBody(), 1, work);
  return work;
}

// ---- launches ----

static int64_t sizeOf(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  return type && type.hasStaticShape()
             ? type.getNumElements() * bytesOfType(type.getElementType())
             : 0;
}

/// Rows of a launch by the step of the kernel's loop.
static int64_t rowsOf(LaunchOp launch, func::FuncOp kernel, bool &exact) {
  std::optional<int64_t> lower = getConstantIntValue(launch.getLower()),
                         upper = getConstantIntValue(launch.getUpper());
  int64_t step = 1;
  for (Operation &op : kernel.getBody().getOps())
    if (auto rows = dyn_cast<scf::ParallelOp>(op))
      step = getConstantIntValue(rows.getStep()[0]).value_or(1);
  if (!lower || !upper) {
    exact = false;
    return 1;
  }
  return std::max<int64_t>(llvm::divideCeilSigned(*upper - *lower, step), 0);
}

static bool isRead(Value argument) {
  return llvm::any_of(argument.getUsers(), [&](Operation *user) {
    if (isa<ViewLikeOpInterface>(user))
      return llvm::any_of(user->getResults(), isRead);
    auto effects = dyn_cast<MemoryEffectOpInterface>(user);
    return !effects ||
           effects.getEffectOnValue<MemoryEffects::Read>(argument).has_value();
  });
}

namespace {
/// Collects the kernels of one entry.
class Collector {
public:
  Collector(ModuleOp module, std::string entry)
      : symbols(module), entry(std::move(entry)) {}

  void add(func::FuncOp function, int64_t times) {
    for (Operation &op : function.getBody().getOps()) {
      if (auto call = dyn_cast<func::CallOp>(op))
        add(symbols.lookup<func::FuncOp>(call.getCallee()), times);
      else if (auto launch = dyn_cast<LaunchOp>(op))
        addLaunch(launch, times);
      else if (auto product = dyn_cast<GemmOp>(op))
        addProduct(product, times);
      else if (auto copy = dyn_cast<memref::CopyOp>(op))
        addBytes("copy", copy.getLoc(), 2 * sizeOf(copy.getSource()), times);
    }
  }

  std::vector<KernelCost> take() {
    std::vector<KernelCost> result;
    for (auto &item : costs)
      result.push_back(std::move(item.second));
    return result;
  }

private:
  KernelCost &costAt(StringRef kernel, Location loc, int64_t times) {
    std::string where = userLocation(loc);
    KernelCost &cost = costs[{kernel.str(), where}];
    cost.entry = entry;
    cost.kernel = kernel.str();
    cost.location = where;
    cost.calls += times;
    return cost;
  }

  void addLaunch(LaunchOp launch, int64_t times) {
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    KernelCost &cost = costAt(launch.getKernel(), launch.getLoc(), times);
    Work row = workOfRow(kernel);
    cost.work.exact &= row.exact;
    int64_t rows = times * rowsOf(launch, kernel, cost.work.exact);
    cost.work.flops += rows * row.flops;
    cost.work.bytes += rows * row.bytes;
    auto written = launch->getAttrOfType<DenseBoolArrayAttr>(kWrittenAttrName);
    for (auto [i, argument] : llvm::enumerate(launch.getArgs()))
      cost.floor +=
          times * sizeOf(argument) *
          (isRead(kernel.getArgument(i + 2)) + (written && written[i]));
  }

  void addProduct(GemmOp product, int64_t times) {
    auto a = cast<MemRefType>(product.getA().getType());
    auto c = cast<MemRefType>(product.getC().getType());
    int64_t terms = a.getDimSize(a.getRank() - (product.getTransA() ? 2 : 1));
    KernelCost &cost = costAt("gemm", product.getLoc(), times);
    cost.work.flops += times * 2 * terms * c.getNumElements();
    int64_t bytes =
        sizeOf(product.getA()) + sizeOf(product.getB()) +
        sizeOf(product.getC()) * (product.getBeta().isZero() ? 1 : 2);
    cost.work.bytes += times * bytes;
    cost.floor += times * bytes;
  }

  void addBytes(StringRef kernel, Location loc, int64_t bytes, int64_t times) {
    KernelCost &cost = costAt(kernel, loc, times);
    cost.work.bytes += times * bytes;
    cost.floor += times * bytes;
  }

  SymbolTable symbols;
  std::string entry;
  llvm::MapVector<std::pair<std::string, std::string>, KernelCost,
                  std::map<std::pair<std::string, std::string>, unsigned>>
      costs;
};
} // namespace

std::vector<KernelCost> jpmhc::costOf(ModuleOp module) {
  std::vector<KernelCost> costs;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kEntryAttrName) || function.isDeclaration())
      continue;
    Collector collector(module, function.getName().str());
    collector.add(function, 1);
    for (KernelCost &cost : collector.take())
      costs.push_back(std::move(cost));
  }
  return costs;
}
