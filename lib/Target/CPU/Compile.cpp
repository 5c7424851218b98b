// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "CodeGen.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

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
                  isa<RankedTensorType>(type),
                  inPlace};
  if (auto tensor = dyn_cast<RankedTensorType>(type))
    spec.shape = tensor.getShape().vec();
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
  auto &session = (*jit)->getExecutionSession();
  llvm::orc::SymbolMap symbols;
  auto add = [&](llvm::StringRef name, auto *function) {
    symbols[(*jit)->mangleAndIntern(name)] = {
        llvm::orc::ExecutorAddr::fromPtr(function),
        llvm::JITSymbolFlags::Exported | llvm::JITSymbolFlags::Callable};
  };
  add("jpmhcLaunch", &jpmhcLaunch);
  add("jpmhcGemm", &jpmhcGemm);
  add("jpmhcGemmBatched", &jpmhcGemmBatched);
  if (auto error = (*jit)->getMainJITDylib().define(
          llvm::orc::absoluteSymbols(std::move(symbols))))
    return error;
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix()); // libm, memcpy
  if (!process)
    return process.takeError();
  (*jit)->getMainJITDylib().addGenerator(std::move(*process));
  (void)session;
  return jit;
}

llvm::Expected<std::unique_ptr<Executable>>
jpmhc::compileForCPU(ModuleOp module, const CPUOptions &options) {
  initializeNativeTarget();
  module->getContext()
      ->loadDialect<JPMHCDialect>(); // a module may hold upstream ops alone
  std::vector<EntrySpec> entries = signaturesOf(module);
  OwningOpRef<ModuleOp> host = module.clone();
  host->getOperation()->setAttr(
      kTargetAttrName,
      TargetAttr::get(module->getContext(), TargetKind::cpu,
                      options.target.chip, options.target.lanes));
  if (auto error =
          runPipeline(*host, buildToKernelsPipeline, "lowering to kernels"))
    return error;
  if (auto error = complete(entries, *host))
    return error;
  auto jit = createJIT();
  if (!jit)
    return jit.takeError();
  auto addObject = [&](ModuleOp part, llvm::StringRef name) -> llvm::Error {
    auto object = generateObject(part, options, name);
    if (!object)
      return object.takeError();
    return (*jit)->addObjectFile(std::move(*object));
  };
  for (auto &[name, kernel] : splitKernels(*host)) {
    if (auto error = runPipeline(*kernel, buildKernelsToLLVMPipeline,
                                 "lowering kernel " + name))
      return error;
    if (auto error = addObject(*kernel, name))
      return error;
  }
  if (auto error =
          runPipeline(*host, buildHostToLLVMPipeline, "lowering the host code"))
    return error;
  if (auto error = addObject(*host, "host"))
    return error;
  auto executable =
      std::make_unique<CPUExecutable>(std::move(entries), std::move(*jit));
  if (auto error = executable->resolve())
    return error;
  return executable;
}
