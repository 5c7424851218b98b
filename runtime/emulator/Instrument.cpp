// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Instrument.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/ReplaceConstant.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Target/TargetMachine.h"

using namespace llvm;

namespace jpmhc::emulator {
namespace {

/// Address spaces of NVPTX.
enum : unsigned {
  genericSpace = 0,
  globalSpace = 1,
  sharedSpace = 3,
  constantSpace = 4,
  localSpace = 5,
  sharedClusterSpace = 7,
  parameterSpace = 101,
};

/// "file:line", and where the code was inlined, the line it was inlined into.
std::string describe(const DebugLoc &location) {
  if (!location)
    return "";
  auto line = [](const DILocation *at) {
    return (at->getFilename() + ":" + Twine(at->getLine())).str();
  };
  const DILocation *inner = location.get(), *outer = inner;
  while (const DILocation *caller = outer->getInlinedAt())
    outer = caller;
  return outer == inner ? line(inner)
                        : line(inner) + ", inlined at " + line(outer);
}

/// The rewriting of one module.
class Instrumenter {
public:
  Instrumenter(Module &module, TargetMachine &host)
      : module(module), host(host), runtime(module, program) {}

  Expected<Program> run();

private:
  void collectKernels();
  Error checkFunctions();
  Error layOutShared();
  void replaceShared(GlobalVariable &variable, uint64_t offset);
  uint64_t sharedBytesOf(const Function &kernel,
                         ArrayRef<GlobalVariable *> variables);
  void collectGlobals();
  void retarget();
  void stripAttributes(Function &function);
  Error rewriteIntrinsics(Function &function);
  void rewriteNarrowing(Function &function);
  void instrumentAccesses(Function &function);
  void announce(Instruction &inst, Value *pointer, Type *type, Align align,
                AccessKind kind);
  void announceRange(Instruction &inst, Value *pointer, Value *bytes,
                     AccessKind kind);
  bool isWatched(const Value *pointer) const;
  Space spaceOf(const Value *pointer) const;
  Value *genericPointer(IRBuilder<> &builder, Value *pointer);
  void lowerApproximateTanh(CallInst &call);
  void emitEntry(Function &kernel, KernelInfo &info);

  Module &module;
  TargetMachine &host;
  Program program;
  RuntimeCalls runtime;
  SmallVector<Function *> kernels; // parallel to program.kernels
};

std::optional<Dim3> readExtents(const Function &function, StringRef attribute) {
  if (!function.hasFnAttribute(attribute))
    return std::nullopt;
  Dim3 extents;
  uint32_t *parts[] = {&extents.x, &extents.y, &extents.z};
  StringRef rest = function.getFnAttribute(attribute).getValueAsString();
  for (uint32_t *part : parts) {
    if (rest.empty())
      break;
    StringRef text;
    std::tie(text, rest) = rest.split(',');
    if (text.trim().getAsInteger(10, *part))
      return std::nullopt;
  }
  return extents;
}

void Instrumenter::collectKernels() {
  for (Function &function : module) {
    if (function.isDeclaration() ||
        function.getCallingConv() != CallingConv::PTX_Kernel)
      continue;
    KernelInfo info;
    info.name = function.getName().str();
    info.entry = "jpmhcEmuEntry." + info.name;
    info.parameters = function.arg_size();
    info.requiredBlock = readExtents(function, "nvvm.reqntid");
    if (std::optional<Dim3> most = readExtents(function, "nvvm.maxntid"))
      info.maxThreads = most->count();
    kernels.push_back(&function);
    program.kernels.push_back(std::move(info));
  }
}

/// Everything the emulation cannot do, found before anything is changed.
Error Instrumenter::checkFunctions() {
  SetVector<StringRef> missing;
  for (const Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      missing.insert(function.getName());
  if (!missing.empty())
    return createStringError(
        "expected every called function to be defined, got calls of " +
        join(missing, ", "));
  for (const Function &function : module)
    for (const Instruction &inst : instructions(function)) {
      auto *call = dyn_cast<CallBase>(&inst);
      if (call && call->isInlineAsm())
        return createStringError(
            "the emulator does not run inline assembly: '" +
            cast<InlineAsm>(call->getCalledOperand())->getAsmString() +
            "' in " + function.getName());
      auto *alloca = dyn_cast<AllocaInst>(&inst);
      if (alloca && !alloca->getAllocationSize(module.getDataLayout()))
        return createStringError(
            "expected stack allocations of constant size, got one in " +
            function.getName());
    }
  return Error::success();
}

/// Variables that `kernel` reaches, through calls too.
uint64_t Instrumenter::sharedBytesOf(const Function &kernel,
                                     ArrayRef<GlobalVariable *> variables) {
  SetVector<const Function *> reached;
  reached.insert(&kernel);
  for (unsigned i = 0; i < reached.size(); ++i)
    for (const Instruction &inst : instructions(*reached[i]))
      if (auto *call = dyn_cast<CallBase>(&inst))
        if (const Function *callee = call->getCalledFunction();
            callee && !callee->isDeclaration())
          reached.insert(callee);
  uint64_t bytes = 0;
  for (GlobalVariable *variable : variables) {
    bool used = any_of(variable->users(), [&](const User *user) {
      auto *inst = dyn_cast<Instruction>(user);
      return inst && reached.contains(inst->getFunction());
    });
    if (!used)
      continue;
    Align align = module.getDataLayout().getPreferredAlign(variable);
    bytes = alignTo(bytes, align) +
            module.getDataLayout().getTypeAllocSize(variable->getValueType());
  }
  return bytes;
}

/// Gives every shared variable a place in the block's memory, and its users a
/// pointer into it. Variables declared without a size are one: the dynamic part
/// behind all others.
Error Instrumenter::layOutShared() {
  SmallVector<GlobalVariable *> variables;
  SmallVector<Constant *> constants;
  for (GlobalVariable &variable : module.globals())
    if (variable.getAddressSpace() == sharedSpace) {
      variables.push_back(&variable);
      constants.push_back(&variable);
    }
  if (variables.empty())
    return Error::success();
  convertUsersOfConstantsToInstructions(constants);
  for (GlobalVariable *variable : variables)
    for (const User *user : variable->users())
      if (!isa<Instruction>(user))
        return createStringError(
            "expected shared variable " + variable->getName() +
            " to be used in functions alone, got a use in a constant");
  for (auto [kernel, info] : zip(kernels, program.kernels))
    info.staticSharedBytes = sharedBytesOf(*kernel, variables);

  const DataLayout &layout = module.getDataLayout();
  uint64_t offset = 0;
  for (GlobalVariable *variable : variables) {
    uint64_t bytes = layout.getTypeAllocSize(variable->getValueType());
    if (variable->isDeclaration() || bytes == 0)
      continue;
    offset = alignTo(offset,
                     std::max(layout.getPreferredAlign(variable), Align(16)));
    program.shared.push_back({variable->getName().str(), offset, bytes});
    offset += bytes + sharedGap;
  }
  program.sharedExtent = alignTo(offset, dynamicSharedAlign);
  unsigned next = 0;
  for (GlobalVariable *variable : variables) {
    bool dynamic = variable->isDeclaration() ||
                   layout.getTypeAllocSize(variable->getValueType()) == 0;
    replaceShared(*variable, dynamic ? program.sharedExtent
                                     : program.shared[next++].offset);
  }
  return Error::success();
}

void Instrumenter::replaceShared(GlobalVariable &variable, uint64_t offset) {
  DenseMap<Function *, Value *> pointers;
  while (!variable.use_empty()) {
    Use &use = *variable.use_begin();
    Function *function = cast<Instruction>(use.getUser())->getFunction();
    Value *&pointer = pointers[function];
    if (!pointer) {
      IRBuilder<> builder(
          &*function->getEntryBlock().getFirstNonPHIOrDbgOrAlloca());
      Value *base =
          runtime.call(builder, "jpmhcEmuSharedBase", variable.getType(), {},
                       /*pure=*/true);
      pointer = builder.CreatePtrAdd(base, builder.getInt64(offset));
    }
    use.set(pointer);
  }
  variable.eraseFromParent();
}

/// Variables in global and constant memory, which get names that cannot meet
/// those of the process.
void Instrumenter::collectGlobals() {
  unsigned number = 0;
  for (GlobalVariable &variable : module.globals()) {
    unsigned space = variable.getAddressSpace();
    if (variable.getName().starts_with("llvm.") ||
        (space != genericSpace && space != globalSpace &&
         space != constantSpace))
      continue;
    GlobalVariableInfo info;
    info.name = variable.getName().str();
    info.symbol = ("jpmhcEmuGlobal." + Twine(number++)).str();
    info.bytes =
        module.getDataLayout().getTypeAllocSize(variable.getValueType());
    info.constant = variable.isConstant() || space == constantSpace;
    if (variable.isDeclaration())
      variable.setInitializer(Constant::getNullValue(variable.getValueType()));
    variable.setName(info.symbol);
    variable.setLinkage(GlobalValue::ExternalLinkage);
    variable.setVisibility(GlobalValue::DefaultVisibility);
    variable.setUnnamedAddr(GlobalValue::UnnamedAddr::None);
    if (info.bytes)
      program.globals.push_back(std::move(info));
  }
}

/// Attributes say what is true of the GPU code; announcing an access makes most
/// of them false.
void Instrumenter::stripAttributes(Function &function) {
  LLVMContext &context = module.getContext();
  auto keep = [&](AttributeList list, unsigned count) {
    AttributeList kept;
    for (unsigned i = 0; i < count; ++i)
      for (Attribute::AttrKind kind :
           {Attribute::ByVal, Attribute::StructRet, Attribute::Alignment})
        if (list.hasParamAttr(i, kind))
          kept = kept.addParamAttribute(context, i, list.getParamAttr(i, kind));
    return kept;
  };
  function.setAttributes(keep(function.getAttributes(), function.arg_size()));
  function.addFnAttr(Attribute::NoUnwind);
  function.addFnAttr("target-cpu", host.getTargetCPU());
  function.addFnAttr("target-features", host.getTargetFeatureString());
  function.addFnAttr("reciprocal-estimates", "none");
  function.addFnAttr("no-builtins");
  function.setCallingConv(CallingConv::C);
  for (User *user : function.users())
    if (auto *call = dyn_cast<CallBase>(user);
        call && call->getCalledFunction() == &function) {
      call->setAttributes(keep(call->getAttributes(), call->arg_size()));
      call->setCallingConv(CallingConv::C);
    }
}

void Instrumenter::retarget() {
  module.setTargetTriple(host.getTargetTriple());
  module.setDataLayout(host.createDataLayout());
  for (Function &function : module) {
    if (function.isDeclaration())
      continue;
    stripAttributes(function);
    function.setLinkage(GlobalValue::InternalLinkage);
    function.setVisibility(GlobalValue::DefaultVisibility);
    function.setDSOLocal(true);
    function.setComdat(nullptr);
  }
  // The sets of external names that CUDA front ends leave behind.
  for (StringRef name : {"llvm.used", "llvm.compiler.used"})
    if (GlobalVariable *used = module.getNamedGlobal(name))
      used->eraseFromParent();
}

/// tanh.approx is good to a relative 2^-11, far from the host's tanh: leave the
/// bits that the hardware has.
void Instrumenter::lowerApproximateTanh(CallInst &call) {
  if (!call.getType()->isFloatTy() || !call.hasApproxFunc())
    return;
  IRBuilder<> builder(call.getNextNode());
  Value *bits = builder.CreateBitCast(&call, builder.getInt32Ty());
  Value *rounded = builder.CreateAnd(
      builder.CreateAdd(bits, builder.getInt32(0x800)), 0xfffff000u);
  Value *coarse = builder.CreateBitCast(rounded, call.getType());
  Value *isNumber = builder.CreateFCmpORD(&call, &call);
  Value *result = builder.CreateSelect(isNumber, coarse, &call);
  call.replaceUsesWithIf(result, [&](Use &use) {
    return use.getUser() != bits && use.getUser() != isNumber &&
           use.getUser() != result;
  });
}

/// Intrinsics that touch no memory a kernel can see.
bool isHarmless(const IntrinsicInst &call) {
  switch (call.getIntrinsicID()) {
  case Intrinsic::lifetime_start:
  case Intrinsic::lifetime_end:
  case Intrinsic::assume:
  case Intrinsic::prefetch:
  case Intrinsic::invariant_start:
  case Intrinsic::invariant_end:
  case Intrinsic::experimental_noalias_scope_decl:
    return true;
  default:
    return call.doesNotAccessMemory() || isa<DbgInfoIntrinsic>(call) ||
           none_of(call.args(), [](const Use &use) {
             return use->getType()->isPtrOrPtrVectorTy();
           });
  }
}

Error Instrumenter::rewriteIntrinsics(Function &function) {
  SetVector<StringRef> unknown;
  for (Instruction &inst : make_early_inc_range(instructions(function))) {
    auto *call = dyn_cast<IntrinsicInst>(&inst);
    if (!call)
      continue;
    StringRef name = call->getCalledFunction()->getName();
    if (name.starts_with("llvm.nvvm.")) {
      if (!lowerNVVMIntrinsic(*call, runtime))
        unknown.insert(name);
    } else if (call->getIntrinsicID() == Intrinsic::tanh) {
      lowerApproximateTanh(*call);
    } else if (call->getIntrinsicID() == Intrinsic::trap ||
               call->getIntrinsicID() == Intrinsic::debugtrap) {
      IRBuilder<> builder(call);
      runtime.call(builder, "jpmhcEmuTrap", builder.getVoidTy(),
                   {runtime.site(*call)});
      call->eraseFromParent();
    } else if (call->getIntrinsicID() == Intrinsic::prefetch) {
      call->eraseFromParent();
    } else if (!isa<MemIntrinsic>(call) && !isHarmless(*call)) {
      unknown.insert(name);
    }
  }
  if (unknown.empty())
    return Error::success();
  return createStringError("the emulator does not know " + join(unknown, ", ") +
                           " in " + function.getName());
}

/// f32 to bf16 by integer arithmetic, to the nearest and ties to even as PTX
/// has it: the host may have an instruction that flushes subnormal numbers, or
/// none.
void Instrumenter::rewriteNarrowing(Function &function) {
  for (Instruction &inst : make_early_inc_range(instructions(function))) {
    auto *narrow = dyn_cast<FPTruncInst>(&inst);
    if (!narrow || !narrow->getType()->getScalarType()->isBFloatTy() ||
        !narrow->getOperand(0)->getType()->getScalarType()->isFloatTy())
      continue;
    IRBuilder<> builder(narrow);
    Value *value = narrow->getOperand(0);
    Type *wide = value->getType()->getWithNewType(builder.getInt32Ty());
    Type *half = value->getType()->getWithNewType(builder.getInt16Ty());
    auto constant = [&](uint64_t number) {
      return ConstantInt::get(wide, number);
    };
    Value *bits = builder.CreateBitCast(value, wide);
    Value *odd =
        builder.CreateAnd(builder.CreateLShr(bits, constant(16)), constant(1));
    Value *rounded =
        builder.CreateAdd(bits, builder.CreateAdd(odd, constant(0x7fff)));
    Value *isNumber = builder.CreateFCmpORD(value, value);
    Value *result =
        builder.CreateSelect(isNumber, rounded, constant(0x7fff0000));
    result =
        builder.CreateTrunc(builder.CreateLShr(result, constant(16)), half);
    narrow->replaceAllUsesWith(
        builder.CreateBitCast(result, narrow->getType()));
    narrow->eraseFromParent();
  }
}

/// Local variables and parameters are a thread's own.
bool Instrumenter::isWatched(const Value *pointer) const {
  unsigned space = pointer->getType()->getPointerAddressSpace();
  if (space == localSpace || space == parameterSpace)
    return false;
  const Value *object = getUnderlyingObject(pointer, /*MaxLookup=*/0);
  if (isa<AllocaInst>(object))
    return false;
  auto *argument = dyn_cast<Argument>(object);
  return !argument || !argument->hasByValAttr();
}

Space Instrumenter::spaceOf(const Value *pointer) const {
  switch (pointer->getType()->getPointerAddressSpace()) {
  case globalSpace:
  case constantSpace:
    return Space::Global;
  case sharedSpace:
  case sharedClusterSpace:
    return Space::Shared;
  default:
    return Space::Generic;
  }
}

Value *Instrumenter::genericPointer(IRBuilder<> &builder, Value *pointer) {
  return builder.CreateAddrSpaceCast(pointer, builder.getPtrTy());
}

void Instrumenter::announce(Instruction &inst, Value *pointer, Type *type,
                            Align align, AccessKind kind) {
  if (!isWatched(pointer))
    return;
  uint64_t bytes = module.getDataLayout().getTypeStoreSize(type);
  if (bytes == 0)
    return;
  while (program.granule > align.value() || bytes % program.granule)
    program.granule /= 2;
  Site site{kind, spaceOf(pointer), static_cast<uint32_t>(bytes),
            static_cast<uint32_t>(align.value()), ""};
  IRBuilder<> builder(&inst);
  runtime.call(builder, "jpmhcEmuAccess", builder.getVoidTy(),
               {genericPointer(builder, pointer), runtime.site(inst, site)});
}

void Instrumenter::announceRange(Instruction &inst, Value *pointer,
                                 Value *bytes, AccessKind kind) {
  if (!isWatched(pointer))
    return;
  program.granule = 1;
  IRBuilder<> builder(&inst);
  runtime.call(builder, "jpmhcEmuAccessRange", builder.getVoidTy(),
               {genericPointer(builder, pointer),
                builder.CreateZExtOrTrunc(bytes, builder.getInt64Ty()),
                runtime.site(inst, {kind, spaceOf(pointer), 0, 1, ""})});
}

void Instrumenter::instrumentAccesses(Function &function) {
  for (Instruction &inst : make_early_inc_range(instructions(function))) {
    if (auto *load = dyn_cast<LoadInst>(&inst)) {
      announce(inst, load->getPointerOperand(), load->getType(),
               load->getAlign(),
               load->isAtomic() ? AccessKind::AtomicLoad : AccessKind::Load);
    } else if (auto *store = dyn_cast<StoreInst>(&inst)) {
      announce(inst, store->getPointerOperand(),
               store->getValueOperand()->getType(), store->getAlign(),
               store->isAtomic() ? AccessKind::AtomicStore : AccessKind::Store);
    } else if (auto *update = dyn_cast<AtomicRMWInst>(&inst)) {
      announce(inst, update->getPointerOperand(), update->getType(),
               update->getAlign(), AccessKind::AtomicUpdate);
      update->setSyncScopeID(SyncScope::System);
    } else if (auto *exchange = dyn_cast<AtomicCmpXchgInst>(&inst)) {
      announce(inst, exchange->getPointerOperand(),
               exchange->getCompareOperand()->getType(), exchange->getAlign(),
               AccessKind::AtomicUpdate);
      exchange->setSyncScopeID(SyncScope::System);
    } else if (auto *fence = dyn_cast<FenceInst>(&inst)) {
      fence->setSyncScopeID(SyncScope::System);
    } else if (auto *copy = dyn_cast<MemTransferInst>(&inst)) {
      announceRange(inst, copy->getRawSource(), copy->getLength(),
                    AccessKind::Load);
      announceRange(inst, copy->getRawDest(), copy->getLength(),
                    AccessKind::Store);
    } else if (auto *fill = dyn_cast<MemSetInst>(&inst)) {
      announceRange(inst, fill->getRawDest(), fill->getLength(),
                    AccessKind::Store);
    } else if (auto *alloca = dyn_cast<AllocaInst>(&inst)) {
      program.localBytes += *alloca->getAllocationSize(module.getDataLayout());
    }
  }
}

/// void entry(void **arguments): calls the kernel with what they point to.
void Instrumenter::emitEntry(Function &kernel, KernelInfo &info) {
  IRBuilder<> builder(module.getContext());
  auto *type =
      FunctionType::get(builder.getVoidTy(), {builder.getPtrTy()}, false);
  auto *entry =
      Function::Create(type, GlobalValue::ExternalLinkage, info.entry, module);
  stripAttributes(*entry);
  builder.SetInsertPoint(BasicBlock::Create(module.getContext(), "", entry));
  SmallVector<Value *> values;
  AttributeList attributes;
  for (Argument &argument : kernel.args()) {
    unsigned i = argument.getArgNo();
    Value *slot = builder.CreateConstInBoundsGEP1_64(builder.getPtrTy(),
                                                     entry->getArg(0), i);
    Value *value = builder.CreateLoad(builder.getPtrTy(), slot);
    if (argument.hasByValAttr()) {
      attributes = attributes.addParamAttribute(
          module.getContext(), i, argument.getAttribute(Attribute::ByVal));
      value = builder.CreateAddrSpaceCast(value, argument.getType());
    } else {
      value = builder.CreateAlignedLoad(argument.getType(), value, Align(1));
    }
    values.push_back(value);
  }
  builder.CreateCall(&kernel, values)->setAttributes(attributes);
  builder.CreateRetVoid();
}

Expected<Program> Instrumenter::run() {
  collectKernels();
  if (Error error = checkFunctions())
    return std::move(error);
  if (Error error = layOutShared())
    return std::move(error);
  retarget();
  collectGlobals();
  SmallVector<Function *> functions;
  for (Function &function : module)
    if (!function.isDeclaration())
      functions.push_back(&function);
  for (Function *function : functions) {
    if (Error error = rewriteIntrinsics(*function))
      return std::move(error);
    rewriteNarrowing(*function);
    instrumentAccesses(*function);
  }
  for (auto [kernel, info] : zip(kernels, program.kernels))
    emitEntry(*kernel, info);
  std::string problems;
  raw_string_ostream stream(problems);
  if (verifyModule(module, &stream))
    return createStringError(
        "internal error: the emulator made an invalid module: " + problems);
  return std::move(program);
}

} // namespace

Value *RuntimeCalls::site(const Instruction &inst, Site site) {
  site.location = describe(inst.getDebugLoc());
  program.sites.push_back(std::move(site));
  return ConstantInt::get(Type::getInt32Ty(module.getContext()),
                          program.sites.size() - 1);
}

CallInst *RuntimeCalls::call(IRBuilder<> &builder, StringRef name, Type *result,
                             ArrayRef<Value *> arguments, bool pure) {
  SmallVector<Type *> types;
  for (Value *value : arguments)
    types.push_back(value->getType());
  FunctionCallee callee =
      module.getOrInsertFunction(name, FunctionType::get(result, types, false));
  CallInst *call = builder.CreateCall(callee, arguments);
  call->setDoesNotThrow();
  if (pure) {
    call->setDoesNotAccessMemory();
    call->addFnAttr(Attribute::WillReturn);
  } else {
    call->setConvergent();
  }
  return call;
}

Expected<Program> instrument(Module &module, TargetMachine &host) {
  return Instrumenter(module, host).run();
}

} // namespace jpmhc::emulator
