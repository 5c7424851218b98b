// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs passes and pipelines on textual IR.
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Support/SourceText.h"
#include "jpmhc/Target/Passes.h"
#include "mlir/Dialect/Bufferization/Transforms/Passes.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Support/FileUtilities.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;

static LogicalResult fail(const llvm::Twine &message) {
  llvm::errs() << "error: " << message << "\n";
  return failure();
}

/// As upstream's, but looks at the text before the parser does.
static LogicalResult run(int argc, char **argv, DialectRegistry &registry) {
  auto [inputName, outputName] = registerAndParseCLIOptions(
      argc, argv, "jpmhc optimizer driver\n", registry);
  MlirOptMainConfig config = MlirOptMainConfig::createFromCLOptions();
  if (config.shouldShowDialects() || config.shouldListPasses())
    return MlirOptMain(argc, argv, inputName, outputName, registry);
  llvm::InitLLVM init(argc, argv);
  std::string message;
  auto input = openInputFile(inputName, &message);
  if (!input)
    return fail(message);
  if (auto error = jpmhc::checkSourceText(input->getBuffer(), inputName))
    return fail(llvm::toString(std::move(error)));
  auto output = openOutputFile(outputName, &message);
  if (!output)
    return fail(message);
  if (failed(MlirOptMain(output->os(), std::move(input), registry, config)))
    return failure();
  output->keep();
  return success();
}

int main(int argc, char **argv) {
  DialectRegistry registry;
  jpmhc::registerAllDialects(registry);
  jpmhc::registerJPMHCPasses();
  jpmhc::registerJPMHCTargetPasses();
  jpmhc::registerPipelines();
  jpmhc::registerTargetPipelines();
  registerTransformsPasses();
  // The others of upstream's that our pipelines begin with.
  registerConvertElementwiseToLinalgPass();
  bufferization::registerOneShotBufferizePass();
  return asMainReturnCode(run(argc, argv, registry));
}
