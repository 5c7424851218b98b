// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Target/CPU.h"
#include "jpmhc/Target/PTX.h"
#include "jpmhc/Target/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_SETTARGET
#include "jpmhc/Target/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

namespace {
struct SetTargetPass : jpmhc::impl::SetTargetBase<SetTargetPass> {
  using SetTargetBase::SetTargetBase;

  void runOnOperation() override {
    auto target = makeTarget();
    if (!target) {
      emitError(getOperation().getLoc()) << llvm::toString(target.takeError());
      return signalPassFailure();
    }
    getOperation()->setAttr(kTargetAttrName, *target);
  }

private:
  llvm::Expected<TargetAttr> makeTarget() {
    if (kind == "cpu") {
      auto target = chip.empty() ? llvm::Expected<CPUTarget>(CPUTarget::host())
                                 : CPUTarget::named(chip);
      if (!target)
        return target.takeError();
      return TargetAttr::get(&getContext(), TargetKind::cpu, target->chip,
                             target->lanes);
    }
    if (kind != "gpu")
      return llvm::createStringError("unknown kind of target: expected cpu or "
                                     "gpu, got '" +
                                     kind + "'");
    if (auto error = checkPTXChip(chip))
      return error;
    return TargetAttr::get(&getContext(), TargetKind::gpu, chip, /*lanes=*/1);
  }
};
} // namespace
