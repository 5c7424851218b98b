// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"

namespace jpmhc {
#define GEN_PASS_DEF_WRAPKERNELS
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

static void wrap(LLVM::LLVMFuncOp kernel) {
  OpBuilder builder(kernel);
  Location loc = kernel.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  Type i64 = builder.getI64Type();
  std::string name = kernel.getName().str();
  kernel.setName(name + ".rows");
  kernel.setLinkage(LLVM::Linkage::Internal);
  auto type = LLVM::LLVMFunctionType::get(
      LLVM::LLVMVoidType::get(builder.getContext()), {i64, i64, pointer});
  auto entry = LLVM::LLVMFuncOp::create(builder, loc, name, type);
  Block *block = entry.addEntryBlock(builder);
  builder.setInsertionPointToStart(block);
  SmallVector<Value> arguments{block->getArgument(0), block->getArgument(1)};
  for (auto [i, argumentType] :
       llvm::enumerate(kernel.getArgumentTypes().drop_front(2))) {
    Value slot = LLVM::GEPOp::create(
        builder, loc, pointer, pointer, block->getArgument(2),
        ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value value = LLVM::LoadOp::create(builder, loc, pointer, slot);
    if (argumentType != pointer)
      value = LLVM::LoadOp::create(builder, loc, argumentType, value);
    arguments.push_back(value);
  }
  LLVM::CallOp::create(builder, loc, kernel, arguments);
  LLVM::ReturnOp::create(builder, loc, ValueRange{});
}

namespace {
struct WrapKernelsPass : jpmhc::impl::WrapKernelsBase<WrapKernelsPass> {
  void runOnOperation() override {
    SmallVector<LLVM::LLVMFuncOp> kernels;
    for (auto function : getOperation().getOps<LLVM::LLVMFuncOp>())
      if (function->hasAttr(kKernelNameAttrName))
        kernels.push_back(function);
    for (LLVM::LLVMFuncOp kernel : kernels)
      wrap(kernel);
  }
};
} // namespace
