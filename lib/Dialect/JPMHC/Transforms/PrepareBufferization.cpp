// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_PREPAREBUFFERIZATION
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
struct PrepareBufferizationPass
    : jpmhc::impl::PrepareBufferizationBase<PrepareBufferizationPass> {
  void runOnOperation() override {
    Builder builder(&getContext());
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (!function.isDeclaration() &&
          failed(requireSingleBlock(function, "a function")))
        return signalPassFailure();
      for (unsigned i = 0; i < function.getNumArguments(); ++i)
        if (isa<TensorType>(function.getArgumentTypes()[i]))
          function.setArgAttr(
              i, "bufferization.writable",
              builder.getBoolAttr(function.getArgAttr(i, kInPlaceAttrName) !=
                                  nullptr));
      if (function.isPublic())
        function->setAttr(kEntryAttrName, builder.getUnitAttr());
      function.setPrivate();
    }
  }
};
} // namespace
