// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// libFuzzer target: any bytes as a program. They are parsed, verified, printed
// and parsed again, and go through the pipelines; whatever is wrong with them
// must be a diagnostic.

#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"

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

/// Whether `text` gives linalg.transpose, reduce or broadcast something else
/// than a list of numbers, which the parser of LLVM 22 takes and crashes on.
static bool meetsUpstreamFault(llvm::StringRef text) {
  for (llvm::StringRef name : {"permutation", "dimensions"})
    for (size_t at = 0; (at = text.find(name, at)) != llvm::StringRef::npos;) {
      llvm::StringRef rest = text.drop_front(at += name.size()).ltrim();
      if (!rest.consume_front("="))
        continue;
      rest = rest.ltrim();
      if (!rest.consume_front("["))
        return true;
      if (!rest.drop_while([](char c) { return strchr("0123456789, ", c); })
               .starts_with("]"))
        return true;
    }
  return false;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  // A copy, since the lexer looks for the zero behind the last character.
  std::string text(reinterpret_cast<const char *>(data), size);
  if (meetsUpstreamFault(text))
    return 0;
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
