// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CodeGen.h"
#include "Program.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/ThreadPool.h"
#include <mutex>

using namespace mlir;
using namespace jpmhc;

// ---- signatures
// --------------------------------------------------------------------------------------------------------

static std::string dtypeName(Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static BufferSpec specOf(Type type, bool inPlace) {
  BufferSpec spec{{},
                  dtypeName(getElementTypeOrSelf(type)),
                  isa<ShapedType>(type),
                  inPlace};
  if (auto shaped = dyn_cast<ShapedType>(type))
    spec.shape = shaped.getShape().vec();
  return spec;
}

/// Signatures as the user wrote them, in the order of the module's public
/// functions.
static std::vector<EntrySpec> signaturesOf(ModuleOp module) {
  std::vector<EntrySpec> entries;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isPrivate() || function.isDeclaration())
      continue;
    EntrySpec entry{function.getName().str(), {}, {}, {}, 0};
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      entry.arguments.push_back(
          specOf(type, function.getArgAttr(i, kInPlaceAttrName) != nullptr));
    for (Type type : function.getResultTypes())
      entry.results.push_back(specOf(type, false));
    entries.push_back(std::move(entry));
  }
  return entries;
}

static KernelSpec kernelSpecOf(func::FuncOp kernel) {
  KernelSpec spec{kernel.getName().str(), {}};
  for (Type type : kernel.getArgumentTypes().drop_front(2))
    spec.arguments.push_back(specOf(type, false));
  return spec;
}

/// Adds what the pipeline decided: aliases and arena.
static llvm::Error complete(std::vector<EntrySpec> &entries, ModuleOp module) {
  for (EntrySpec &entry : entries) {
    auto function = module.lookupSymbol<func::FuncOp>(entry.name);
    auto aliases =
        function ? function->getAttrOfType<DenseI64ArrayAttr>(kAliasesAttrName)
                 : DenseI64ArrayAttr();
    auto bytes = function
                     ? function->getAttrOfType<IntegerAttr>(kArenaBytesAttrName)
                     : IntegerAttr();
    if (!aliases || !bytes)
      return llvm::createStringError("expected a planned function " +
                                     entry.name);
    entry.aliases = std::vector<int64_t>(aliases.asArrayRef().begin(),
                                         aliases.asArrayRef().end());
    entry.arenaBytes = bytes.getInt();
  }
  return llvm::Error::success();
}

// ---- compilation
// -------------------------------------------------------------------------------------------------------

static llvm::Error runPipeline(ModuleOp module,
                               llvm::function_ref<void(OpPassManager &)> build,
                               llvm::StringRef what) {
  PassManager pm(module->getContext(), ModuleOp::getOperationName());
  build(pm);
  if (failed(pm.run(module)))
    return llvm::createStringError("expected " + what + " to succeed");
  return llvm::Error::success();
}

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

static llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> createJIT() {
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

/// All kernels, on as many threads as there are processors; in order.
static llvm::Expected<std::vector<CPUObject>> buildKernels(
    std::vector<std::pair<std::string, OwningOpRef<ModuleOp>>> &kernels,
    const CPUOptions &options, llvm::StringRef settings) {
  std::vector<CPUObject> objects(kernels.size());
  llvm::Error failure = llvm::Error::success();
  std::mutex mutex;
  llvm::DefaultThreadPool pool(llvm::hardware_concurrency());
  for (size_t i = 0; i < kernels.size(); ++i)
    pool.async([&, i] {
      auto object =
          buildKernel(kernels[i].first, *kernels[i].second, options, settings);
      std::lock_guard<std::mutex> lock(mutex);
      if (object)
        objects[i] = std::move(*object);
      else
        failure = llvm::joinErrors(std::move(failure), object.takeError());
    });
  pool.wait();
  if (failure)
    return failure;
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
  if (auto error = complete(program.entries, *host))
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
  return llvm::sys::Process::GetEnv("JPMHC_SANITIZE_KERNELS").value_or("") ==
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
jpmhc::linkForCPU(CPUProgram program) {
  initializeNativeTarget();
  auto jit = createJIT();
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
