// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Target/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_SPLITKERNELS
#include "jpmhc/Target/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
struct SplitKernelsPass : jpmhc::impl::SplitKernelsBase<SplitKernelsPass> {
  void runOnOperation() override {
    OpBuilder builder = OpBuilder::atBlockEnd(getOperation().getBody());
    for (auto function :
         llvm::to_vector(getOperation().getOps<func::FuncOp>())) {
      if (!function->hasAttr(kKernelNameAttrName) || function.isDeclaration())
        continue;
      auto own = ModuleOp::create(builder, function.getLoc());
      OpBuilder::atBlockEnd(own.getBody()).clone(*function);
      function.eraseBody();
    }
  }
};
} // namespace
