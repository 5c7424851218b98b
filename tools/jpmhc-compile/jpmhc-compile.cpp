// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles textual IR ahead of time.
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Support/SourceText.h"
#include "jpmhc/Target/Package.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace jpmhc;
namespace cl = llvm::cl;

static cl::OptionCategory category("jpmhc-compile options");
static cl::opt<std::string> input(cl::Positional, cl::desc("IN.mlir"),
                                  cl::init("-"), cl::cat(category));
static cl::opt<std::string> output("o", cl::desc("folder to write to"),
                                   cl::value_desc("DIR"), cl::Required,
                                   cl::cat(category));
static cl::opt<std::string>
    name("name", cl::desc("name of the product (the input's by default)"),
         cl::cat(category));
enum class Product { cpu, ptx };
static cl::opt<Product>
    target("target", cl::desc("what to write"),
           cl::values(clEnumValN(Product::cpu, "cpu", "a shared library"),
                      clEnumValN(Product::ptx, "ptx", "PTX for a GPU")),
           cl::init(Product::cpu), cl::cat(category));
static cl::opt<std::string>
    chip("chip",
         cl::desc("processor (this machine's by default), or GPU (sm_100a)"),
         cl::cat(category));

static llvm::Error writeLibrary(mlir::ModuleOp module, llvm::StringRef stem) {
  CPUOptions options;
  if (!chip.empty()) {
    auto chosen = CPUTarget::named(chip);
    if (!chosen)
      return chosen.takeError();
    options.target = *chosen;
  }
  auto program = buildForCPU(module, options);
  if (!program)
    return program.takeError();
  return writeCPUPackage(*program, options.target, stem, output);
}

static llvm::Error writePTX(mlir::ModuleOp module, llvm::StringRef stem) {
  GPUOptions options;
  if (!chip.empty())
    options.chip = chip;
  auto program = buildForGPU(module, options);
  if (!program)
    return program.takeError();
  return writePTXPackage(*program, options, stem, output);
}

static llvm::Error run() {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  context.printOpOnDiagnostic(false); // the line is enough
  std::string message;
  auto file = mlir::openInputFile(input, &message);
  if (!file)
    return llvm::createStringError(message);
  if (auto error = checkSourceText(file->getBuffer(), input))
    return error;
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(file), llvm::SMLoc());
  mlir::SourceMgrDiagnosticHandler handler(sources, &context);
  auto module = mlir::parseSourceFile<mlir::ModuleOp>(sources, &context);
  if (!module)
    return llvm::createStringError("expected a valid module in " + input);
  std::string stem = name;
  if (stem.empty())
    stem = input == "-" ? "module" : llvm::sys::path::stem(input).str();
  return target == Product::cpu ? writeLibrary(*module, stem)
                                : writePTX(*module, stem);
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(
      argc, argv,
      "Compiles every public function of a module into a product with a C "
      "header and a manifest.\n\n"
      "  jpmhc-compile step.mlir --target=cpu -o out\n"
      "  jpmhc-compile step.mlir --target=ptx --chip=sm_100a -o out\n");
  if (auto error = run()) {
    llvm::errs() << "jpmhc-compile: " << llvm::toString(std::move(error))
                 << "\n";
    return 1;
  }
  return 0;
}
