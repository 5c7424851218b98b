// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// GPU kernels to the NVVM dialect in one conversion. Upstream's pass leaves the
// control flow of `gpu.func` behind, whose block arguments then disagree with
// the converted types.
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/GPUToNVVM/GPUToNVVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/GPU/Transforms/Passes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace jpmhc {
#define GEN_PASS_DEF_LOWERGPUTONVVM
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

/// Reports the functions that would become calls of libdevice, which is not
/// linked: the polynomials and the instructions of PTX have no form for them.
static LogicalResult checkMath(gpu::GPUModuleOp module) {
  WalkResult walked = module.walk([](Operation *op) {
    if (!isa_and_present<math::MathDialect>(op->getDialect()) ||
        isa<math::AbsFOp, math::AbsIOp, math::CeilOp, math::CopySignOp,
            math::CountLeadingZerosOp, math::CountTrailingZerosOp,
            math::CtPopOp, math::FloorOp, math::FmaOp, math::IsFiniteOp,
            math::IsInfOp, math::IsNaNOp, math::IsNormalOp, math::RoundEvenOp,
            math::RsqrtOp, math::SqrtOp, math::TruncOp>(op))
      return WalkResult::advance();
    op->emitError() << op->getName()
                    << " is not served on a GPU for elements of "
                    << getElementTypeOrSelf(op->getOperand(0));
    return WalkResult::interrupt();
  });
  return failure(walked.wasInterrupted());
}

namespace {
struct LowerGPUToNVVMPass
    : jpmhc::impl::LowerGPUToNVVMBase<LowerGPUToNVVMPass> {
  void runOnOperation() override {
    gpu::GPUModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    if (failed(checkMath(module)))
      return signalPassFailure();
    LowerToLLVMOptions options(context);
    options.useBarePtrCallConv = true;
    options.overrideIndexBitwidth(64);

    RewritePatternSet rewrites(context);
    populateGpuRewritePatterns(rewrites);
    if (failed(applyPatternsGreedily(module, std::move(rewrites))))
      return signalPassFailure();

    LLVMTypeConverter converter(context, options);
    configureGpuToNVVMTypeConverter(converter);
    RewritePatternSet patterns(context);
    populateGpuToNVVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
    // Ahead of the calls of libdevice that the NVVM patterns would make.
    populateMathToLLVMConversionPatterns(
        converter, patterns, /*approximateLog1p=*/false, /*benefit=*/10);
    populateVectorToLLVMConversionPatterns(converter, patterns);
    index::populateIndexToLLVMConversionPatterns(converter, patterns);
    ub::populateUBToLLVMConversionPatterns(converter, patterns);
    LLVMConversionTarget target(*context);
    configureGpuToNVVMConversionLegality(target);
    // The PTX back end has these as instructions; upstream would call
    // libdevice.
    target.addLegalOp<LLVM::SqrtOp, LLVM::FAbsOp, LLVM::FMAOp, LLVM::FFloorOp,
                      LLVM::FCeilOp, LLVM::FTruncOp, LLVM::RoundEvenOp,
                      LLVM::CopySignOp>();
    target.addIllegalDialect<cf::ControlFlowDialect, arith::ArithDialect,
                             memref::MemRefDialect>();
    if (failed(applyPartialConversion(module, target, std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
