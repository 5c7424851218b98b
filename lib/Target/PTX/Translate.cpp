// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// LLVM IR to PTX. The back end aborts the process on what it cannot select, so
// every module is checked before it gets there.

#include "jpmhc/Target/PTX.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/CGSCCPassManager.h"
#include "llvm/Analysis/LoopAnalysisManager.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/DiagnosticPrinter.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/SmallVectorMemoryBuffer.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/Utils/Cloning.h"

using namespace llvm;

namespace jpmhc {
namespace {

/// Collects the errors that the code generator reports through the context,
/// which by default are printed and end the process.
class CollectErrors : public DiagnosticHandler {
public:
  explicit CollectErrors(std::string &text) : text(text) {}

  bool handleDiagnostics(const DiagnosticInfo &info) override {
    if (info.getSeverity() != DS_Error)
      return true;
    raw_string_ostream stream(text);
    DiagnosticPrinterRawOStream printer(stream);
    if (!text.empty())
      stream << "; ";
    info.print(printer);
    return true;
  }

private:
  std::string &text;
};

/// Puts a CollectErrors in place for the life of the object.
class ScopedCollectErrors {
public:
  explicit ScopedCollectErrors(LLVMContext &context)
      : context(context), previous(context.getDiagnosticHandler()) {
    context.setDiagnosticHandler(std::make_unique<CollectErrors>(text));
  }
  ~ScopedCollectErrors() { context.setDiagnosticHandler(std::move(previous)); }

  std::string text;

private:
  LLVMContext &context;
  std::unique_ptr<DiagnosticHandler> previous;
};

/// Whether NVPTX has an instruction for a floating-point intrinsic of this type
/// and with these flags. Intrinsics that are not about floating-point maths are
/// left to the back end.
bool isSelectable(const IntrinsicInst &call) {
  Type *type = call.getType()->getScalarType();
  bool approximate = isa<FPMathOperator>(call) && call.hasApproxFunc();
  switch (call.getIntrinsicID()) {
  case Intrinsic::exp:
  case Intrinsic::exp10:
  case Intrinsic::log:
  case Intrinsic::log2:
  case Intrinsic::log10:
  case Intrinsic::pow:
  case Intrinsic::powi:
  case Intrinsic::tan:
  case Intrinsic::sinh:
  case Intrinsic::cosh:
  case Intrinsic::asin:
  case Intrinsic::acos:
  case Intrinsic::atan:
  case Intrinsic::atan2:
  case Intrinsic::sincos:
  case Intrinsic::sincospi:
  case Intrinsic::frexp:
  case Intrinsic::ldexp:
  case Intrinsic::modf:
  case Intrinsic::lrint:
  case Intrinsic::llrint:
  case Intrinsic::lround:
  case Intrinsic::llround:
    return false;
  case Intrinsic::exp2:
    return !type->isDoubleTy();
  case Intrinsic::sin:
  case Intrinsic::cos:
    return approximate && type->isFloatTy();
  case Intrinsic::tanh:
    return approximate && !type->isDoubleTy();
  default:
    return true;
  }
}

/// Every function that is called and not there, or that NVPTX cannot select.
Error checkSelectable(const Module &module) {
  SmallVector<std::string> missing, unselectable;
  auto note = [](SmallVector<std::string> &list, const Twine &name) {
    std::string text = name.str();
    if (!is_contained(list, text))
      list.push_back(text);
  };
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      note(missing, function.getName());
  for (const Function &function : module)
    for (const Instruction &inst : instructions(function))
      if (auto *call = dyn_cast<IntrinsicInst>(&inst);
          call && !isSelectable(*call))
        note(unselectable, call->getCalledFunction()->getName());
  if (missing.empty() && unselectable.empty())
    return Error::success();
  std::string message;
  if (!missing.empty())
    message = "expected every called function to be defined, got calls of " +
              join(missing, ", ");
  if (!unselectable.empty()) {
    message += message.empty() ? "" : "; ";
    message += "no PTX instruction for " + join(unselectable, ", ");
  }
  return createStringError(message);
}

/// Whether a module has functions that no kernel can be calling.
bool lacksKernel(const Module &module) {
  bool empty = true;
  for (const Function &function : module) {
    if (function.isDeclaration())
      continue;
    if (function.getCallingConv() == CallingConv::PTX_Kernel)
      return false;
    empty = false;
  }
  return !empty;
}

OptimizationLevel getLevel(unsigned optLevel) {
  const OptimizationLevel levels[] = {
      OptimizationLevel::O0, OptimizationLevel::O1, OptimizationLevel::O2,
      OptimizationLevel::O3};
  return levels[std::min(optLevel, 3u)];
}

} // namespace

void optimizeForPTX(Module &module, TargetMachine &machine, unsigned optLevel) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());

  LoopAnalysisManager loops;
  FunctionAnalysisManager functions;
  CGSCCAnalysisManager components;
  ModuleAnalysisManager modules;
  PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(components);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, components, modules);
  OptimizationLevel level = getLevel(optLevel);
  ModulePassManager passes = level == OptimizationLevel::O0
                                 ? builder.buildO0DefaultPipeline(level)
                                 : builder.buildPerModuleDefaultPipeline(level);
  passes.run(module, modules);
}

Expected<std::string> translateToPTX(const Module &source, StringRef chip,
                                     const PTXOptions &options) {
  Expected<std::unique_ptr<TargetMachine>> machine =
      createPTXTargetMachine(chip, options);
  if (!machine)
    return machine.takeError();
  std::string problems;
  raw_string_ostream problemStream(problems);
  if (verifyModule(source, &problemStream))
    return createStringError("expected a valid module, got: " +
                             StringRef(problems).rtrim());
  if (lacksKernel(source))
    return createStringError(
        "expected a function with the ptx_kernel calling convention, got none");

  std::unique_ptr<Module> module = CloneModule(source);
  optimizeForPTX(*module, **machine, options.optLevel);
  if (Error error = checkSelectable(*module))
    return std::move(error);

  ScopedCollectErrors errors(module->getContext());
  SmallString<0> text;
  raw_svector_ostream stream(text);
  legacy::PassManager codegen;
  if ((*machine)->addPassesToEmitFile(codegen, stream, nullptr,
                                      CodeGenFileType::AssemblyFile))
    return createStringError("this LLVM does not write PTX");
  codegen.run(*module);
  if (!errors.text.empty())
    return createStringError(errors.text);
  return std::string(text);
}

} // namespace jpmhc
