// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KernelObjects.h"
#include "Program.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Settings.h"
#include "jpmhc/Target/CPUCodeGen.h"
#include "jpmhc/Target/Lowering.h"
#include "jpmhc/Target/Passes.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include <chrono>

using namespace mlir;
using namespace jpmhc;

/// Seconds since `start`.
static double secondsSince(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
      .count();
}

// ---- linking ----

namespace {
class CPUExecutable : public Executable {
public:
  CPUExecutable(std::vector<EntrySpec> entries, CompilationReport compilation,
                std::unique_ptr<llvm::orc::LLJIT> jit)
      : specs(std::move(entries)), compilation(std::move(compilation)),
        jit(std::move(jit)) {}

  llvm::Error resolve() {
    for (const EntrySpec &spec : specs) {
      auto address = jit->lookup(spec.name + kEntrySuffix.str());
      if (!address)
        return address.takeError();
      functions.push_back(address->toPtr<Function>());
    }
    return llvm::Error::success();
  }

  llvm::ArrayRef<EntrySpec> entries() const override { return specs; }
  const CompilationReport &report() const override { return compilation; }
  void setLinkSeconds(double seconds) { compilation.linkSeconds = seconds; }
  int32_t run(size_t entry, jpmhcContext *context,
              void **buffers) const override {
    return functions[entry](context, buffers);
  }

private:
  using Function = int32_t (*)(jpmhcContext *, void **);
  std::vector<EntrySpec> specs;
  CompilationReport compilation;
  std::unique_ptr<llvm::orc::LLJIT> jit;
  std::vector<Function> functions;
};
} // namespace

static llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>>
createJIT(const llvm::StringMap<void *> &handles) {
  auto jit = llvm::orc::LLJITBuilder().create();
  if (!jit)
    return jit.takeError();
  llvm::orc::SymbolMap symbols;
#define JPMHC_DEFINE(name)                                                     \
  symbols[(*jit)->mangleAndIntern(#name)] = {                                  \
      llvm::orc::ExecutorAddr::fromPtr(&name),                                 \
      llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  JPMHC_RUNTIME_SYMBOLS(JPMHC_DEFINE)
#undef JPMHC_DEFINE
  for (const auto &handle : handles)
    symbols[(*jit)->mangleAndIntern(handle.getKey())] = {
        llvm::orc::ExecutorAddr::fromPtr(handle.getValue()),
        llvm::JITSymbolFlags::Exported};
  if (auto error = (*jit)->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix()); // libm, memcpy
  if (!process)
    return process.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  return jit;
}

// ---- compilation ----

/// Everything but the program that decides what the compiler makes of it.
static std::string settingsOf(const CPUOptions &options) {
  const CPUTarget &target = options.target;
  return digestOf(compilerDigest() + "|" + target.triple + "|" + target.chip +
                  "|" + target.features + "|" + std::to_string(target.lanes) +
                  "|" + std::to_string(options.optLevel) +
                  (options.sanitizeAddress ? "|asan" : ""));
}

/// A module as text, with locations.
static std::string textOf(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().useLocalScope().enableDebugInfo());
  return text;
}

/// Tensors to host code, and each kernel in a module of its own.
static void buildToSplitKernels(OpPassManager &pm) {
  buildToKernelsPipeline(pm);
  pm.addPass(createSplitKernels());
}

/// Hands the kernels of a lowered program on and leaves the host code.
static void takeKernels(ModuleOp host, CPUProgram &program,
                        KernelObjects &objects) {
  for (ModuleOp kernel : llvm::to_vector(host.getOps<ModuleOp>())) {
    program.kernels.push_back(
        kernelSpecOf(*kernel.getOps<func::FuncOp>().begin()));
    objects.add(kernel);
    kernel.erase();
  }
}

static llvm::Error compileHost(ModuleOp host, const CPUOptions &options,
                               CPUObject &object) {
  if (auto error =
          runPipeline(host, buildHostToLLVMPipeline, "lowering the host code"))
    return error;
  auto code = generateObject(host, options, "host");
  if (!code)
    return code.takeError();
  object = {"host", std::move(*code)};
  return llvm::Error::success();
}

static llvm::Expected<CPUProgram>
compile(ModuleOp module, const CPUOptions &options, llvm::StringRef settings) {
  auto start = std::chrono::steady_clock::now();
  CPUProgram program;
  if (auto error = checkStaticShapes(module))
    return error;
  program.entries = signaturesOf(module);
  OwningOpRef<ModuleOp> host = module.clone();
  host->getOperation()->setAttr(
      kTargetAttrName,
      TargetAttr::get(module->getContext(), TargetKind::cpu,
                      options.target.chip, options.target.lanes));
  if (auto error =
          runPipeline(*host, buildToSplitKernels, "lowering to kernels"))
    return error;
  if (auto error = completeSignatures(program.entries, *host))
    return error;
  program.report.loweringSeconds = secondsSince(start);

  start = std::chrono::steady_clock::now();
  KernelObjects kernels(options, settings);
  takeKernels(*host, program, kernels);
  kernels.start();
  CPUObject object;
  if (auto error = compileHost(*host, options, object))
    return error;
  auto objects = kernels.finish(module->getContext());
  if (!objects)
    return objects.takeError();
  program.objects = std::move(*objects);
  program.objects.push_back(std::move(object));
  program.report.compiledKernels = kernels.numCompiled();
  program.report.codeSeconds = secondsSince(start);
  return program;
}

bool CPUOptions::sanitizeAddressByDefault() {
  return getSetting("JPMHC_SANITIZE_KERNELS").value_or("") == "address";
}

llvm::Expected<CPUProgram> jpmhc::buildForCPU(ModuleOp module,
                                              const CPUOptions &options) {
  initializeNativeTarget();
  module->getContext()
      ->loadDialect<JPMHCDialect>(); // a module may hold upstream ops alone
  std::string settings = settingsOf(options), digest;
  if (options.cache.isOn()) {
    // The host code names the user's lines, so they are part of the key.
    digest = digestOf(textOf(module));
    if (auto kept = options.cache.load("the program", digest, settings)) {
      auto program = parseProgram(kept->getBuffer());
      if (program) {
        program->report.fromCache = true;
        return program;
      }
      llvm::consumeError(program.takeError());
    }
  }
  auto program = compile(module, options, settings);
  if (program && options.cache.isOn())
    options.cache.store(digest, settings, serializeProgram(*program));
  return program;
}

llvm::Expected<std::unique_ptr<Executable>>
jpmhc::linkForCPU(CPUProgram program, const llvm::StringMap<void *> &handles) {
  initializeNativeTarget();
  auto start = std::chrono::steady_clock::now();
  auto jit = createJIT(handles);
  if (!jit)
    return jit.takeError();
  for (CPUObject &object : program.objects)
    if (auto error = (*jit)->addObjectFile(std::move(object.code)))
      return error;
  auto executable = std::make_unique<CPUExecutable>(
      std::move(program.entries), program.report, std::move(*jit));
  if (auto error = executable->resolve())
    return error;
  executable->setLinkSeconds(secondsSince(start));
  return executable;
}

llvm::Expected<std::unique_ptr<Executable>>
jpmhc::compileForCPU(ModuleOp module, const CPUOptions &options) {
  auto program = buildForCPU(module, options);
  if (!program)
    return program.takeError();
  return linkForCPU(std::move(*program));
}
