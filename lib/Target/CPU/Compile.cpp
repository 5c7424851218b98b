// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CodeGen.h"
#include "Program.h"
#include "Signatures.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Settings.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

using namespace mlir;
using namespace jpmhc;

// ---- compilation
// -------------------------------------------------------------------------------------------------------

/// Moves every kernel into a module of its own, leaving a declaration.
static std::vector<std::pair<std::string, OwningOpRef<ModuleOp>>>
splitKernels(ModuleOp module) {
  std::vector<std::pair<std::string, OwningOpRef<ModuleOp>>> kernels;
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>())) {
    if (!function->hasAttr(kKernelNameAttrName) || function.isDeclaration())
      continue;
    OwningOpRef<ModuleOp> own = ModuleOp::create(function.getLoc());
    OpBuilder builder = OpBuilder::atBlockEnd(own->getBody());
    builder.clone(*function);
    kernels.push_back({function.getName().str(), std::move(own)});
    function.eraseBody();
  }
  return kernels;
}

namespace {
class CPUExecutable : public Executable {
public:
  CPUExecutable(std::vector<EntrySpec> entries,
                std::unique_ptr<llvm::orc::LLJIT> jit)
      : specs(std::move(entries)), jit(std::move(jit)) {}

  llvm::Error resolve() {
    for (const EntrySpec &spec : specs) {
      auto address = jit->lookup(spec.name);
      if (!address)
        return address.takeError();
      functions.push_back(address->toPtr<Function>());
    }
    return llvm::Error::success();
  }

  llvm::ArrayRef<EntrySpec> entries() const override { return specs; }
  int32_t run(size_t entry, jpmhcContext *context,
              void **buffers) const override {
    return functions[entry](context, buffers);
  }

private:
  using Function = int32_t (*)(jpmhcContext *, void **);
  std::vector<EntrySpec> specs;
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

// ---- the whole ----

/// Everything but the program that decides what the compiler makes of it.
static std::string settingsOf(const CPUOptions &options) {
  const CPUTarget &target = options.target;
  return digestOf(compilerDigest() + "|" + target.triple + "|" + target.chip +
                  "|" + target.features + "|" + std::to_string(target.lanes) +
                  "|" + std::to_string(options.optLevel) +
                  (options.sanitizeAddress ? "|asan" : ""));
}

static std::string textOf(ModuleOp module, bool withLocations) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  flags.useLocalScope();
  if (withLocations)
    flags.enableDebugInfo();
  module->print(stream, flags);
  return text;
}

/// One kernel's object, from the cache or compiled.
static llvm::Expected<CPUObject> buildKernel(llvm::StringRef name,
                                             ModuleOp kernel,
                                             const CPUOptions &options,
                                             llvm::StringRef settings) {
  std::string digest = digestOf(textOf(kernel, /*withLocations=*/false));
  if (auto code = options.cache.load("kernel " + name.str(), digest, settings))
    return CPUObject{name.str(), std::move(code)};
  if (auto error = runPipeline(kernel, buildKernelsToLLVMPipeline,
                               "lowering kernel " + name.str()))
    return error;
  auto code = generateObject(kernel, options, name);
  if (!code)
    return code.takeError();
  options.cache.store(digest, settings, (*code)->getBuffer());
  return CPUObject{name.str(), std::move(*code)};
}

/// All kernels, in order and one after the other: pass managers of several
/// threads on one context crashed now and then.
static llvm::Expected<std::vector<CPUObject>> buildKernels(
    std::vector<std::pair<std::string, OwningOpRef<ModuleOp>>> &kernels,
    const CPUOptions &options, llvm::StringRef settings) {
  std::vector<CPUObject> objects;
  for (auto &[name, kernel] : kernels) {
    auto object = buildKernel(name, *kernel, options, settings);
    if (!object)
      return object.takeError();
    objects.push_back(std::move(*object));
  }
  return objects;
}

static llvm::Expected<CPUProgram>
compile(ModuleOp module, const CPUOptions &options, llvm::StringRef settings) {
  CPUProgram program;
  program.entries = signaturesOf(module);
  OwningOpRef<ModuleOp> host = module.clone();
  host->getOperation()->setAttr(
      kTargetAttrName,
      TargetAttr::get(module->getContext(), TargetKind::cpu,
                      options.target.chip, options.target.lanes));
  if (auto error =
          runPipeline(*host, buildToKernelsPipeline, "lowering to kernels"))
    return error;
  if (auto error = completeSignatures(program.entries, *host))
    return error;
  auto kernels = splitKernels(*host);
  for (auto &[name, kernel] : kernels)
    program.kernels.push_back(
        kernelSpecOf(*kernel->getOps<func::FuncOp>().begin()));
  auto objects = buildKernels(kernels, options, settings);
  if (!objects)
    return objects.takeError();
  program.objects = std::move(*objects);
  if (auto error =
          runPipeline(*host, buildHostToLLVMPipeline, "lowering the host code"))
    return error;
  auto code = generateObject(*host, options, "host");
  if (!code)
    return code.takeError();
  program.objects.push_back({"host", std::move(*code)});
  return program;
}

bool CPUOptions::sanitizeAddressByDefault() {
  return getSetting("JPMHC_SANITIZE_KERNELS").value_or("") ==
         "address";
}

llvm::Expected<CPUProgram> jpmhc::buildForCPU(ModuleOp module,
                                              const CPUOptions &options) {
  initializeNativeTarget();
  module->getContext()
      ->loadDialect<JPMHCDialect>(); // a module may hold upstream ops alone
  std::string settings = settingsOf(options), digest;
  if (options.cache.isOn()) {
    // The host code names the user's lines, so they are part of the key.
    digest = digestOf(textOf(module, /*withLocations=*/true));
    if (auto kept = options.cache.load("the program", digest, settings)) {
      auto program = parseProgram(kept->getBuffer());
      if (program)
        return program;
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
  auto jit = createJIT(handles);
  if (!jit)
    return jit.takeError();
  for (CPUObject &object : program.objects)
    if (auto error = (*jit)->addObjectFile(std::move(object.code)))
      return error;
  auto executable = std::make_unique<CPUExecutable>(std::move(program.entries),
                                                    std::move(*jit));
  if (auto error = executable->resolve())
    return error;
  return executable;
}

llvm::Expected<std::unique_ptr<Executable>>
jpmhc::compileForCPU(ModuleOp module, const CPUOptions &options) {
  auto program = buildForCPU(module, options);
  if (!program)
    return program.takeError();
  return linkForCPU(std::move(*program));
}
