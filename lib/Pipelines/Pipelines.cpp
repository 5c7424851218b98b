// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "mlir/Conversion/AffineToStandard/AffineToStandard.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/IndexToLLVM/IndexToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/NVVMToLLVM/NVVMToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/UBToLLVM/UBToLLVM.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/FuncBufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Bufferization/Transforms/OneShotAnalysis.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Linalg/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/AllocationOpInterfaceImpl.h"
#include "mlir/Dialect/MemRef/Transforms/Passes.h"
#include "mlir/Dialect/SCF/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/Tensor/Transforms/BufferizableOpInterfaceImpl.h"
#include "mlir/Dialect/UB/IR/UBOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace jpmhc;

void jpmhc::registerAllDialects(DialectRegistry &registry) {
  registry.insert<JPMHCDialect, affine::AffineDialect, arith::ArithDialect,
                  bufferization::BufferizationDialect, cf::ControlFlowDialect,
                  func::FuncDialect, gpu::GPUDialect, NVVM::NVVMDialect,
                  linalg::LinalgDialect, LLVM::LLVMDialect, math::MathDialect,
                  memref::MemRefDialect, scf::SCFDialect, tensor::TensorDialect,
                  ub::UBDialect, vector::VectorDialect>();
  arith::registerBufferizableOpInterfaceExternalModels(registry);
  memref::registerAllocationOpInterfaceExternalModels(registry);
  bufferization::func_ext::registerBufferizableOpInterfaceExternalModels(
      registry);
  linalg::registerBufferizableOpInterfaceExternalModels(registry);
  scf::registerBufferizableOpInterfaceExternalModels(registry);
  tensor::registerBufferizableOpInterfaceExternalModels(registry);
  func::registerInlinerExtension(registry);
  registerBufferization(registry);
  registerUpstreamDerivatives(registry);
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

void jpmhc::buildToKernelsPipeline(OpPassManager &pm) {
  pm.addPass(createExpandBlocks());
  pm.addPass(createDifferentiate());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addNestedPass<func::FuncOp>(createConvertElementwiseToLinalgPass());
  pm.addNestedPass<func::FuncOp>(createFuseElementwise());
  pm.addPass(createPrepareBufferization());
  bufferization::OneShotBufferizePassOptions bufferize;
  bufferize.bufferizeFunctionBoundaries = true;
  bufferize.functionBoundaryTypeConversion =
      bufferization::LayoutMapOption::IdentityLayoutMap;
  pm.addPass(bufferization::createOneShotBufferizePass(bufferize));
  pm.addPass(createSimplifyKernels());
  pm.addPass(createResultsToArguments());
  pm.addNestedPass<func::FuncOp>(createLowerLinalg());
  pm.addPass(createSimplifyKernels());
  pm.addPass(createDropEmpty());
  pm.addNestedPass<func::FuncOp>(createFuseRows());
  pm.addNestedPass<func::FuncOp>(createFuseTiles());
  pm.addNestedPass<func::FuncOp>(createShareScratch());
  pm.addPass(createPlanMemory());
  pm.addPass(createSimplifyKernels());
  pm.addPass(createOutlineKernels());
}

void jpmhc::buildKernelsToLLVMPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createLowerParallelToFor());
  pm.addNestedPass<func::FuncOp>(createApproximateMath());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(memref::createExpandStridedMetadataPass());
  pm.addPass(createLowerAffinePass());
  pm.addPass(createSCFToControlFlowPass());
  ConvertVectorToLLVMPassOptions vectors;
  vectors.reassociateFPReductions = true;
  pm.addPass(createConvertVectorToLLVMPass(vectors));
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(functions));
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createConvertIndexToLLVMPass());
  pm.addPass(createUBToLLVMConversionPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createWrapKernels());
}

void jpmhc::buildKernelsToNVVMPipeline(OpPassManager &pm) {
  pm.addNestedPass<func::FuncOp>(createApproximateMath());
  pm.addPass(createMapToGPU());
  OpPassManager &kernels = pm.nest<gpu::GPUModuleOp>();
  kernels.addPass(createCSEPass());
  kernels.addPass(memref::createExpandStridedMetadataPass());
  kernels.addPass(createLowerAffinePass());
  kernels.addPass(createSCFToControlFlowPass());
  kernels.addPass(createLowerGPUToNVVM());
  kernels.addPass(createReconcileUnrealizedCastsPass());
}

void jpmhc::buildHostToLLVMPipeline(OpPassManager &pm) {
  pm.addPass(createLowerHostToLLVM());
  pm.addPass(createReconcileUnrealizedCastsPass());
}

static void buildCostPipeline(OpPassManager &pm) {
  buildToKernelsPipeline(pm);
  pm.addPass(createPrintCost());
}

void jpmhc::registerPipelines() {
  PassPipelineRegistration<>(
      "jpmhc-cost",
      "jpmhc-to-kernels, then print what each kernel computes and moves",
      buildCostPipeline);
  PassPipelineRegistration<>(
      "jpmhc-to-kernels",
      "tensors to outlined kernels over planned memory (any target)",
      buildToKernelsPipeline);
  PassPipelineRegistration<>("jpmhc-kernels-to-llvm",
                             "CPU kernels to the LLVM dialect",
                             buildKernelsToLLVMPipeline);
  PassPipelineRegistration<>(
      "jpmhc-kernels-to-nvvm",
      "outlined kernels to a gpu.module in the NVVM dialect",
      buildKernelsToNVVMPipeline);
  PassPipelineRegistration<>("jpmhc-host-to-llvm",
                             "host functions to calls of the launch ABI",
                             buildHostToLLVMPipeline);
}
