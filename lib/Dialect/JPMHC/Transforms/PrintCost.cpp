// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Analysis/Cost.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "llvm/Support/FormatVariadic.h"

namespace jpmhc {
#define GEN_PASS_DEF_PRINTCOST
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
struct PrintCostPass : jpmhc::impl::PrintCostBase<PrintCostPass> {
  void runOnOperation() override {
    markAllAnalysesPreserved();
    FailureOr<std::vector<KernelCost>> costs = costOf(getOperation());
    if (failed(costs))
      return signalPassFailure();
    llvm::outs() << "// cost:     calls          flops          bytes          "
                    "floor  kernel\n";
    for (const KernelCost &cost : *costs)
      llvm::outs() << llvm::formatv(
          "// {0,14} {1,14} {2,14} {3,14}{4} {5}.{6} {7}\n", cost.calls,
          cost.work.flops, cost.work.bytes, cost.floor,
          cost.work.exact ? " " : "+", cost.entry, cost.kernel, cost.location);
  }
};
} // namespace
