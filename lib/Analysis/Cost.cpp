// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Analysis/Cost.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Support/Buffers.h"
#include "jpmhc/Support/Locations.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"
#include <limits>
#include <map>

using namespace mlir;
using namespace jpmhc;

// Estimates of programs that cannot run are wrong, but no undefined behaviour.
static int64_t times(int64_t a, int64_t b) {
  int64_t product;
  return llvm::MulOverflow(a, b, product) ? std::numeric_limits<int64_t>::max()
                                          : product;
}

static void increase(int64_t &sum, int64_t by) {
  if (llvm::AddOverflow(sum, by, sum))
    sum = std::numeric_limits<int64_t>::max();
}

/// Steps from a number to another; 0 where it is no larger.
static int64_t stepsBetween(int64_t from, int64_t to, int64_t step) {
  int64_t distance;
  if (llvm::SubOverflow(to, from, distance))
    distance = to > from ? std::numeric_limits<int64_t>::max() : 0;
  return distance <= 0 || step <= 0 ? 0 : (distance - 1) / step + 1;
}

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
  return isa<BlockArgument>(viewedBuffer(buffer));
}

static int64_t bytesMovedBy(Operation *op) {
  if (auto load = dyn_cast<memref::LoadOp>(op))
    return outlivesRow(load.getMemRef()) ? bytesOf(load.getType()) : 0;
  if (auto store = dyn_cast<memref::StoreOp>(op))
    return outlivesRow(store.getMemRef()) ? bytesOf(store.getValue().getType())
                                          : 0;
  if (auto load = dyn_cast<vector::LoadOp>(op))
    return outlivesRow(load.getBase()) ? bytesOf(load.getType()) : 0;
  if (auto store = dyn_cast<vector::StoreOp>(op))
    return outlivesRow(store.getBase())
               ? bytesOf(store.getValueToStore().getType())
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
    return stepsBetween(*from, *to, *by);
  exact = false;
  return 1;
}

static int64_t tripsOf(Operation *op, bool &exact) {
  int64_t trips = 1;
  if (auto loop = dyn_cast<scf::ParallelOp>(op))
    for (auto [lower, upper, step] :
         llvm::zip(loop.getLowerBound(), loop.getUpperBound(), loop.getStep()))
      trips = times(trips, tripsOf(lower, upper, step, exact));
  else if (auto loop = dyn_cast<scf::ForOp>(op))
    trips = tripsOf(loop.getLowerBound(), loop.getUpperBound(), loop.getStep(),
                    exact);
  else if (isa<scf::WhileOp>(op))
    exact = false;
  return trips;
}

static void addWork(Region &region, int64_t trips, Work &work) {
  for (Operation &op : region.getOps()) {
    increase(work.flops, times(trips, flopsOf(&op)));
    increase(work.bytes, times(trips, bytesMovedBy(&op)));
    int64_t inner = op.getNumRegions() ? tripsOf(&op, work.exact) : 1;
    for (Region &part : op.getRegions())
      addWork(part, times(trips, inner), work);
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

/// Bytes of a buffer; 0 where its shape is known at run time only.
static int64_t sizeOf(Value buffer) {
  auto type = dyn_cast<MemRefType>(buffer.getType());
  return type && type.hasStaticShape() ? bytesOf(type) : 0;
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
  return stepsBetween(*lower, *upper, step);
}

namespace {
/// Collects the kernels of one entry.
class Collector {
public:
  Collector(ModuleOp module, std::string entry)
      : symbols(module), entry(std::move(entry)) {}

  LogicalResult add(func::FuncOp function) {
    if (!running.insert(function).second)
      return function.emitError("expected functions without recursion");
    for (Operation &op : function.getBody().getOps()) {
      if (auto call = dyn_cast<func::CallOp>(op)) {
        if (failed(add(symbols.lookup<func::FuncOp>(call.getCallee()))))
          return failure();
      } else if (auto launch = dyn_cast<LaunchOp>(op)) {
        if (failed(addLaunch(launch)))
          return failure();
      } else if (auto product = dyn_cast<GemmOp>(op)) {
        addProduct(product);
      } else if (auto copy = dyn_cast<memref::CopyOp>(op)) {
        int64_t bytes = times(2, sizeOf(copy.getSource()));
        addBytes(costAt("copy", copy.getLoc()), bytes);
      }
    }
    running.erase(function);
    return success();
  }

  std::vector<KernelCost> take() {
    std::vector<KernelCost> result;
    for (auto &item : costs)
      result.push_back(std::move(item.second));
    return result;
  }

private:
  KernelCost &costAt(StringRef kernel, Location loc) {
    std::string where = userLocation(loc);
    KernelCost &cost = costs[{kernel.str(), where}];
    cost.entry = entry;
    cost.kernel = kernel.str();
    cost.location = where;
    ++cost.calls;
    return cost;
  }

  LogicalResult addLaunch(LaunchOp launch) {
    auto kernel = symbols.lookup<func::FuncOp>(launch.getKernel());
    if (kernel.isDeclaration())
      return launch.emitError("expected the body of kernel '")
             << launch.getKernel() << "', got a declaration";
    KernelCost &cost = costAt(launch.getKernel(), launch.getLoc());
    Work row = workOfRow(kernel);
    cost.work.exact &= row.exact;
    int64_t rows = rowsOf(launch, kernel, cost.work.exact);
    increase(cost.work.flops, times(rows, row.flops));
    increase(cost.work.bytes, times(rows, row.bytes));
    auto written = launch->getAttrOfType<DenseBoolArrayAttr>(kWrittenAttrName);
    for (auto [i, argument] : llvm::enumerate(launch.getArgs())) {
      bool isRead = hasEffectOn<MemoryEffects::Read>(kernel.getArgument(i + 2));
      increase(cost.floor,
               times(sizeOf(argument), isRead + (written && written[i])));
    }
    return success();
  }

  void addProduct(GemmOp product) {
    auto a = cast<MemRefType>(product.getA().getType());
    auto c = cast<MemRefType>(product.getC().getType());
    KernelCost &cost = costAt("gemm", product.getLoc());
    int64_t terms = a.getDimSize(a.getRank() - (product.getTransA() ? 2 : 1));
    if (c.hasStaticShape() && !ShapedType::isDynamic(terms))
      increase(cost.work.flops, times(2 * terms, c.getNumElements()));
    else
      cost.work.exact = false;
    int64_t touchesOfC = product.getBeta().isZero() ? 1 : 2;
    addBytes(cost, sizeOf(product.getA()));
    addBytes(cost, sizeOf(product.getB()));
    addBytes(cost, times(sizeOf(product.getC()), touchesOfC));
  }

  static void addBytes(KernelCost &cost, int64_t bytes) {
    increase(cost.work.bytes, bytes);
    increase(cost.floor, bytes);
  }

  SymbolTable symbols;
  std::string entry;
  llvm::SmallPtrSet<Operation *, 8> running; // calls on the way to this one
  llvm::MapVector<std::pair<std::string, std::string>, KernelCost,
                  std::map<std::pair<std::string, std::string>, unsigned>>
      costs;
};
} // namespace

FailureOr<std::vector<KernelCost>> jpmhc::costOf(ModuleOp module) {
  std::vector<KernelCost> costs;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function->hasAttr(kEntryAttrName) || function.isDeclaration())
      continue;
    Collector collector(module, function.getName().str());
    if (failed(collector.add(function)))
      return failure();
    for (KernelCost &cost : collector.take())
      costs.push_back(std::move(cost));
  }
  return costs;
}
