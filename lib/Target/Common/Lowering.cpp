// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Target/Lowering.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Support/Dump.h"
#include "jpmhc/Support/Interrupts.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace jpmhc;

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

std::vector<EntrySpec> jpmhc::signaturesOf(ModuleOp module) {
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

KernelSpec jpmhc::kernelSpecOf(func::FuncOp kernel) {
  KernelSpec spec{kernel.getName().str(), {}};
  for (Type type : kernel.getArgumentTypes().drop_front(2))
    spec.arguments.push_back(specOf(type, false));
  return spec;
}

llvm::Error jpmhc::completeSignatures(std::vector<EntrySpec> &entries,
                                      ModuleOp module) {
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

// ---- what can be compiled ----

/// Says which dimension of a type is dynamic; false if none is.
static bool reportDynamic(Location loc, Type type, const Twine &what) {
  auto shaped = dyn_cast<ShapedType>(type);
  if (!shaped || (shaped.hasRank() && shaped.hasStaticShape()))
    return false;
  InFlightDiagnostic error = emitError(loc) << "expected static shapes, got ";
  if (!shaped.hasRank())
    error << "no rank";
  else
    error << "a dynamic dimension "
          << llvm::find(shaped.getShape(), ShapedType::kDynamic) -
                 shaped.getShape().begin();
  error << " of " << what << ", " << type;
  return true;
}

static bool reportDynamic(func::FuncOp function) {
  for (BlockArgument argument : function.getArguments())
    if (reportDynamic(argument.getLoc(), argument.getType(),
                      "argument " + Twine(argument.getArgNumber()) +
                          " of function '" + function.getName() + "'"))
      return true;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (reportDynamic(function.getLoc(), type,
                      "result " + Twine(i) + " of function '" +
                          function.getName() + "'"))
      return true;
  return function
      .walk([&](Operation *op) {
        for (Type type : op->getResultTypes())
          if (reportDynamic(op->getLoc(), type,
                            "a result of '" + op->getName().getStringRef() +
                                "' in function '" + function.getName() + "'"))
            return WalkResult::interrupt();
        return WalkResult::advance();
      })
      .wasInterrupted();
}

llvm::Error jpmhc::checkStaticShapes(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (reportDynamic(function))
      return llvm::createStringError("expected static shapes");
  return llvm::Error::success();
}

// ---- running passes ----

namespace {
/// Has passes skipped once what this thread does is to end.
class SkippingHandler {
public:
  explicit SkippingHandler(MLIRContext *context) : context(context) {
    context->registerActionHandler(
        [](llvm::function_ref<void()> run, const tracing::Action &action) {
          if (!isa<PassExecutionAction>(action) || !isInterrupted())
            run();
        });
  }
  ~SkippingHandler() { context->registerActionHandler(nullptr); }

private:
  MLIRContext *context;
};
} // namespace

llvm::Error jpmhc::runPipeline(ModuleOp module,
                               llvm::function_ref<void(OpPassManager &)> build,
                               llvm::StringRef what) {
  PassManager pm(module->getContext(), ModuleOp::getOperationName());
  build(pm);
  // A third of the time would go to verification after each pass; once at the
  // end is enough for what follows. Debug builds look for the pass at fault.
#ifdef NDEBUG
  pm.enableVerifier(false);
#endif
  SkippingHandler skipping(module->getContext());
  bool passed = succeeded(pm.run(module));
  if (isInterrupted())
    return llvm::createStringError("interrupted while " + what);
  if (!passed || failed(verify(module)))
    return llvm::createStringError("expected " + what + " to succeed");
  dumpStage(module, what);
  return llvm::Error::success();
}
