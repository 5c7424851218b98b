// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Target/CPUCodeGen.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/Transforms/Instrumentation/AddressSanitizer.h"
#include "llvm/Transforms/Utils/LoopUtils.h"

using namespace jpmhc;

CPUTarget CPUTarget::host() {
  CPUTarget target;
  target.triple = llvm::sys::getProcessTriple();
  target.chip = llvm::sys::getHostCPUName().str();
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  std::vector<std::string> list;
  for (auto &feature : features)
    list.push_back((feature.getValue() ? "+" : "-") + feature.getKey().str());
  llvm::sort(list);
  target.features = llvm::join(list, ",");
  target.lanes = features.lookup("avx512f") ? 16
                 : features.lookup("avx2")  ? 8
                                            : 4;
  return target;
}

llvm::Expected<CPUTarget> CPUTarget::named(llvm::StringRef chip) {
  initializeNativeTarget();
  CPUTarget target;
  target.triple = llvm::sys::getProcessTriple();
  target.chip = chip.str();
  std::string error;
  llvm::Triple triple(target.triple);
  const llvm::Target *backend =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return llvm::createStringError(error);
  std::unique_ptr<llvm::MCSubtargetInfo> info(
      backend->createMCSubtargetInfo(triple, "", ""));
  if (!info->isCPUStringValid(chip))
    return llvm::createStringError(
        "expected a processor of " + triple.getArchName() +
        " that LLVM knows (llc -mcpu=help lists them), got '" + chip + "'");
  info.reset(backend->createMCSubtargetInfo(triple, chip, ""));
  target.lanes = info->checkFeatures("+avx512f") ? 16
                 : info->checkFeatures("+avx2")  ? 8
                                                 : 4;
  return target;
}

void jpmhc::initializeNativeTarget() {
  static const bool initialized = [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)initialized;
}

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const CPUOptions &options) {
  std::string error;
  llvm::Triple triple(options.target.triple);
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return llvm::createStringError("expected a known target, got " +
                                   options.target.triple + ": " + error);
  llvm::TargetOptions targetOptions;
  auto level = options.optLevel >= 2 ? llvm::CodeGenOptLevel::Default
                                     : llvm::CodeGenOptLevel::Less;
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, options.target.chip, options.target.features, targetOptions,
      llvm::Reloc::PIC_, std::nullopt, level));
}

/// Every function is compiled for the processor at its full vector width (LLVM
/// prefers 256 bits by default on some).
static void setFunctionAttributes(llvm::Module &module,
                                  const CPUOptions &options) {
  const CPUTarget &target = options.target;
  std::string width = std::to_string(target.lanes * 32);
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", target.chip);
    function.addFnAttr("target-features", target.features);
    function.addFnAttr("prefer-vector-width", width);
    function.addFnAttr("min-legal-vector-width", width);
    if (options.sanitizeAddress)
      function.addFnAttr(llvm::Attribute::SanitizeAddress);
  }
}

/// Whether a loop inside `loop` carries a number and may reorder a sum.
static bool hasReorderedSum(const llvm::Loop &loop) {
  auto carriesNumber = [](const llvm::Loop &inner) {
    return llvm::any_of(inner.getHeader()->phis(), [](auto &phi) {
      return phi.getType()->isFPOrFPVectorTy();
    });
  };
  auto mayReorder = [](const llvm::Loop &inner) {
    return llvm::any_of(inner.blocks(), [](const llvm::BasicBlock *block) {
      return llvm::any_of(*block, [](const llvm::Instruction &op) {
        return llvm::isa<llvm::FPMathOperator>(op) && op.hasAllowReassoc();
      });
    });
  };
  return llvm::any_of(loop.getSubLoops(), [&](const llvm::Loop *inner) {
    return (carriesNumber(*inner) && mayReorder(*inner)) ||
           hasReorderedSum(*inner);
  });
}

/// Rows with sums in them go one at a time. Vectors of rows would leave a rest,
/// whose sums LLVM may order in another way, and where the rest begins depends
/// on how threads divide the rows.
static void keepRowsScalar(llvm::Module &module) {
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    llvm::DominatorTree dominators(function);
    llvm::LoopInfo loops(dominators);
    for (llvm::Loop *rows : loops)
      if (hasReorderedSum(*rows))
        llvm::addStringMetadataToLoop(rows, "llvm.loop.vectorize.enable", 0);
  }
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine,
                     const CPUOptions &options) {
  unsigned level = options.optLevel;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager cgscc;
  llvm::ModuleAnalysisManager modules;
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = tuning.SLPVectorization = true;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(cgscc);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, cgscc, modules);
  auto optLevel = level == 0   ? llvm::OptimizationLevel::O0
                  : level == 1 ? llvm::OptimizationLevel::O1
                  : level == 2 ? llvm::OptimizationLevel::O2
                               : llvm::OptimizationLevel::O3;
  llvm::ModulePassManager passes =
      level == 0 ? builder.buildO0DefaultPipeline(optLevel)
                 : builder.buildPerModuleDefaultPipeline(optLevel);
  if (options.sanitizeAddress) {
    llvm::AddressSanitizerOptions sanitizer;
    // A call for each access: checks in place make the long straight code of a
    // vectorized kernel compile for minutes.
    sanitizer.InstrumentationWithCallsThreshold = 0;
    passes.addPass(llvm::AddressSanitizerPass(sanitizer));
  }
  passes.run(module, modules);
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
jpmhc::generateObject(mlir::ModuleOp module, const CPUOptions &options,
                      llvm::StringRef name) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> llvmModule =
      mlir::translateModuleToLLVMIR(module, context, name);
  if (!llvmModule)
    return llvm::createStringError(
        "expected a module in the LLVM dialect for " + name);
  auto machine = createTargetMachine(options);
  if (!machine)
    return machine.takeError();
  llvmModule->setDataLayout((*machine)->createDataLayout());
  llvmModule->setTargetTriple(llvm::Triple(options.target.triple));
  setFunctionAttributes(*llvmModule, options);
  keepRowsScalar(*llvmModule);
  optimize(*llvmModule, **machine, options);
  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emit;
  if ((*machine)->addPassesToEmitFile(emit, stream, nullptr,
                                      llvm::CodeGenFileType::ObjectFile))
    return llvm::createStringError(
        "expected a target that writes object files, got " +
        options.target.triple);
  emit.run(*llvmModule);
  return std::make_unique<llvm::SmallVectorMemoryBuffer>(std::move(object),
                                                         name, false);
}
