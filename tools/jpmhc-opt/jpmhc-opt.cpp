// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs passes and pipelines on textual IR.
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Target/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  jpmhc::registerAllDialects(registry);
  jpmhc::registerJPMHCPasses();
  jpmhc::registerJPMHCTargetPasses();
  jpmhc::registerPipelines();
  jpmhc::registerTargetPipelines();
  mlir::registerTransformsPasses();
  // The others of upstream's that our pipelines begin with.
  mlir::registerConvertElementwiseToLinalgPass();
  mlir::bufferization::registerOneShotBufferizePass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "jpmhc optimizer driver\n", registry));
}
