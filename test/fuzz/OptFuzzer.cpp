// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: any bytes as a program. As in jpmhc-opt, the text is
// looked at, then parsed and verified; it is printed and parsed again, and goes
// through the pipelines. Whatever is wrong with it must be a diagnostic.

#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Support/SourceText.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;

static MLIRContext &context() {
  static MLIRContext *const one = [] {
    DialectRegistry registry;
    jpmhc::registerAllDialects(registry);
    auto *made = new MLIRContext(registry, MLIRContext::Threading::DISABLED);
    made->getDiagEngine().registerHandler([](Diagnostic &) {});
    return made;
  }();
  return *one;
}

static void run(ModuleOp module, void (*build)(OpPassManager &)) {
  OwningOpRef<ModuleOp> copy(module.clone());
  PassManager manager(&context());
  build(manager);
  (void)manager.run(*copy);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy, since the lexer looks for the zero behind the last character.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (llvm::Error error = jpmhc::checkSourceText(text, "input")) {
    llvm::consumeError(std::move(error));
    return 0;
  }
  OwningOpRef<ModuleOp> module =
      parseSourceString<ModuleOp>(text, ParserConfig(&context()));
  if (!module)
    return 0;
  std::string printed;
  llvm::raw_string_ostream(printed) << *module;
  if (!parseSourceString<ModuleOp>(printed, ParserConfig(&context())))
    llvm::report_fatal_error("a module that verifies does not parse again");
  run(*module, [](OpPassManager &pm) {
    jpmhc::buildToKernelsPipeline(pm);
    jpmhc::buildKernelsToLLVMPipeline(pm);
  });
  run(*module, [](OpPassManager &pm) {
    jpmhc::buildToKernelsPipeline(pm);
    jpmhc::buildKernelsToNVVMPipeline(pm);
  });
  return 0;
}
