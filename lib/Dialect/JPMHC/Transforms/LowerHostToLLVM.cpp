// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Buffers.h"
#include "jpmhc/Support/Locations.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/Pattern.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/MemRef/Transforms/Transforms.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"
#include "llvm/Support/xxhash.h"

namespace jpmhc {
#define GEN_PASS_DEF_LOWERHOSTTOLLVM
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h.inc"
} // namespace jpmhc

using namespace mlir;
using namespace jpmhc;

// ---- small helpers on the LLVM dialect ----

static LLVM::LLVMPointerType pointerType(MLIRContext *context) {
  return LLVM::LLVMPointerType::get(context);
}

static Value constant(OpBuilder &b, Location loc, Type type, int64_t value) {
  return LLVM::ConstantOp::create(b, loc, type, IntegerAttr::get(type, value));
}

static LLVM::LLVMFuncOp declare(ModuleOp module, StringRef name,
                                ArrayRef<Type> arguments) {
  if (auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(name))
    return function;
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(b.getI32Type(), arguments);
  return LLVM::LLVMFuncOp::create(b, module.getLoc(), name, type);
}

/// A constant C string of the module, shared by equal texts.
static Value cString(OpBuilder &b, Location loc, ModuleOp module,
                     StringRef text) {
  std::string name = "text." + llvm::utohexstr(llvm::xxh3_64bits(text));
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    std::string bytes = text.str() + '\0';
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes.size());
    LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::Internal, name,
                           b.getStringAttr(bytes));
  }
  return LLVM::AddressOfOp::create(b, loc, pointerType(b.getContext()), name);
}

static Value locationString(OpBuilder &b, Location loc, ModuleOp module) {
  std::string text = userLocation(loc);
  if (text.empty())
    return LLVM::ZeroOp::create(b, loc, pointerType(b.getContext()));
  return cString(b, loc, module, text);
}

/// A constant array of the module, or a null pointer for an empty one.
static Value constantArray(OpBuilder &b, Location loc, ModuleOp module,
                           StringRef name, DenseIntElementsAttr values) {
  auto pointer = pointerType(b.getContext());
  if (values.empty())
    return LLVM::ZeroOp::create(b, loc, pointer);
  if (!module.lookupSymbol(name)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    auto type =
        LLVM::LLVMArrayType::get(values.getElementType(), values.size());
    LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                           LLVM::Linkage::Internal, name, values);
  }
  return LLVM::AddressOfOp::create(b, loc, pointer, name);
}

/// Bytes of an argument of a launch from its address on; -1 when its type does
/// not say.
static int64_t bytesOfArgument(Type type) {
  auto memref = dyn_cast<MemRefType>(type);
  if (!memref)
    return bytesOf(type);
  SmallVector<int64_t> strides;
  int64_t offset;
  if (!memref.hasStaticShape() ||
      failed(memref.getStridesAndOffset(strides, offset)) ||
      ShapedType::isDynamic(offset) || ShapedType::isDynamicShape(strides))
    return -1;
  if (memref.getNumElements() == 0)
    return 0;
  int64_t last = offset;
  for (auto [size, stride] : llvm::zip(memref.getShape(), strides))
    last += (size - 1) * stride;
  return (last + 1) * bytesOf(memref.getElementType());
}

/// Whether a buffer of static shape holds its elements and nothing else, from
/// its address on.
static bool isGapless(MemRefType type) {
  return type.hasStaticShape() && bytesOfArgument(type) == bytesOf(type);
}

/// The jpmhcDType of a floating-point type, 0 for others.
static int8_t codeOf(Type type) {
  return type.isF32()    ? JPMHC_F32
         : type.isBF16() ? JPMHC_BF16
         : type.isF16()  ? JPMHC_F16
         : type.isF64()  ? JPMHC_F64
                         : 0;
}

static bool isForGPU(ModuleOp module) {
  auto target = module->getAttrOfType<TargetAttr>(kTargetAttrName);
  return target && target.getKind() == TargetKind::gpu;
}

// ---- patterns ----

namespace {

/// Pointer to element 0 of a buffer.
Value bufferPointer(OpBuilder &b, Location loc,
                    const LLVMTypeConverter &converter, Value descriptor,
                    MemRefType type) {
  return MemRefDescriptor(descriptor).bufferPtr(b, loc, converter, type);
}

struct LowerLaunch : ConvertOpToLLVMPattern<LaunchOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(LaunchOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &b) const override {
    Location loc = op.getLoc();
    auto module = op->getParentOfType<ModuleOp>();
    auto pointer = pointerType(b.getContext());
    Type i64 = b.getI64Type();
    auto function = op->getParentOfType<FunctionOpInterface>();
    Value context = function.getArgument(0);
    Value array = entryAlloca(b, function, pointer, op.getArgs().size());
    for (auto [i, original, lowered] :
         llvm::enumerate(op.getArgs(), adaptor.getArgs())) {
      Value address;
      if (isa<MemRefType>(original.getType())) {
        // The kernel knows the static offset from its type and adds it itself.
        address = MemRefDescriptor(lowered).alignedPtr(b, loc);
      } else {
        address = entryAlloca(b, function, lowered.getType(), 1);
        LLVM::StoreOp::create(b, loc, lowered, address);
      }
      Value slot =
          LLVM::GEPOp::create(b, loc, pointer, pointer, array,
                              ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
      LLVM::StoreOp::create(b, loc, address, slot);
    }
    auto callee = declare(module, "jpmhcLaunch",
                          {pointer, pointer, pointer, i64, i64, i64, pointer});
    LLVM::CallOp::create(b, loc, callee,
                         ValueRange{context, descriptor(b, op, module),
                                    LLVM::ZeroOp::create(b, loc, pointer),
                                    adaptor.getLower(), adaptor.getUpper(),
                                    constant(b, loc, i64, op.getGrain()),
                                    array});
    b.eraseOp(op);
    return success();
  }

private:
  static Value entryAlloca(OpBuilder &b, FunctionOpInterface function,
                           Type type, int64_t count) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&function.getFunctionBody().front());
    Value n = constant(b, function.getLoc(), b.getI64Type(),
                       std::max<int64_t>(count, 1));
    return LLVM::AllocaOp::create(b, function.getLoc(),
                                  pointerType(b.getContext()), type, n, 16);
  }

  static DenseIntElementsAttr argumentKinds(OpBuilder &b, LaunchOp op) {
    SmallVector<int8_t> kinds;
    for (Type type : op.getArgs().getTypes())
      kinds.push_back(isa<MemRefType>(type) ? JPMHC_ARG_BUFFER
                                            : JPMHC_ARG_SCALAR);
    return cast<DenseIntElementsAttr>(DenseIntElementsAttr::get(
        RankedTensorType::get(kinds.size(), b.getI8Type()), kinds));
  }

  static DenseIntElementsAttr argumentBytes(OpBuilder &b, LaunchOp op) {
    return b.getI64TensorAttr(
        llvm::map_to_vector(op.getArgs().getTypes(),
                            [](Type type) { return bytesOfArgument(type); }));
  }

  /// Types of the gapless floating-point buffers that the kernel writes.
  static DenseIntElementsAttr argumentWrites(OpBuilder &b, LaunchOp op) {
    auto written = op->getAttrOfType<DenseBoolArrayAttr>(kWrittenAttrName);
    SmallVector<int8_t> types(op.getArgs().size(), 0);
    for (auto [i, type] : llvm::enumerate(op.getArgs().getTypes()))
      if (auto memref = dyn_cast<MemRefType>(type);
          written && memref && written[i] && isGapless(memref))
        types[i] = codeOf(memref.getElementType());
    return cast<DenseIntElementsAttr>(DenseIntElementsAttr::get(
        RankedTensorType::get(types.size(), b.getI8Type()), types));
  }

  /// The call site's `jpmhcKernel` (see include/jpmhc/Runtime/Launch.h).
  static Value descriptor(ConversionPatternRewriter &b, LaunchOp op,
                          ModuleOp module) {
    Location loc = op.getLoc();
    auto pointer = pointerType(b.getContext());
    Type i64 = b.getI64Type();
    std::string location = userLocation(loc);
    std::string name = (op.getKernel() + ".descriptor." +
                        llvm::utohexstr(llvm::xxh3_64bits(location)))
                           .str();
    std::string kinds = (op.getKernel() + ".argument_kinds").str();
    std::string bytes = (op.getKernel() + ".argument_bytes").str();
    std::string writes = (op.getKernel() + ".argument_writes").str();
    if (!module.lookupSymbol(name)) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(module.getBody());
      // The fields of jpmhcKernel, in their order.
      auto type = LLVM::LLVMStructType::getLiteral(
          b.getContext(), {pointer, pointer, pointer, i64, pointer, i64,
                           pointer, pointer, pointer});
      auto global =
          LLVM::GlobalOp::create(b, loc, type, /*isConstant=*/true,
                                 LLVM::Linkage::Internal, name, Attribute());
      Block *block = b.createBlock(&global.getInitializerRegion());
      b.setInsertionPointToStart(block);
      Value null = LLVM::ZeroOp::create(b, loc, pointer);
      Value value = LLVM::UndefOp::create(b, loc, type);
      Value kernel = LLVM::AddressOfOp::create(b, loc, pointer, op.getKernel());
      bool gpu = isForGPU(module);
      Value fields[] = {
          gpu ? null : kernel,
          cString(b, loc, module, op.getKernel()),
          locationString(b, loc, module),
          constant(b, loc, i64, 0),
          gpu ? kernel : null,
          constant(b, loc, i64, op.getArgs().size()),
          constantArray(b, loc, module, kinds, argumentKinds(b, op)),
          constantArray(b, loc, module, bytes, argumentBytes(b, op)),
          constantArray(b, loc, module, writes, argumentWrites(b, op))};
      for (auto [i, field] : llvm::enumerate(fields))
        value = LLVM::InsertValueOp::create(
            b, loc, value, field, ArrayRef<int64_t>{static_cast<int64_t>(i)});
      LLVM::ReturnOp::create(b, loc, value);
    }
    return LLVM::AddressOfOp::create(b, loc, pointer, name);
  }
};

struct LowerGemm : ConvertOpToLLVMPattern<GemmOp> {
  using ConvertOpToLLVMPattern::ConvertOpToLLVMPattern;

  LogicalResult matchAndRewrite(GemmOp op, OpAdaptor adaptor,
                                ConversionPatternRewriter &b) const override {
    Location loc = op.getLoc();
    auto module = op->getParentOfType<ModuleOp>();
    auto pointer = pointerType(b.getContext());
    Type i32 = b.getI32Type(), i64 = b.getI64Type();
    MemRefType types[] = {cast<MemRefType>(op.getA().getType()),
                          cast<MemRefType>(op.getB().getType()),
                          cast<MemRefType>(op.getC().getType())};
    SmallVector<SmallVector<int64_t>> strides(3);
    for (auto [i, type] : llvm::enumerate(types)) {
      int64_t offset;
      if (!type.hasStaticShape() ||
          failed(type.getStridesAndOffset(strides[i], offset)))
        return b.notifyMatchFailure(op, "expected static shapes and strides");
    }
    MemRefType aType = types[0], cType = types[2];
    int64_t rank = cType.getRank(), m = cType.getDimSize(rank - 2),
            n = cType.getDimSize(rank - 1),
            k = aType.getDimSize(op.getTransA() ? rank - 2 : rank - 1);
    auto address = [&](Value original, Value lowered) {
      return bufferPointer(b, loc, *getTypeConverter(), lowered,
                           cast<MemRefType>(original.getType()));
    };
    auto number = [&](int64_t v) { return constant(b, loc, i64, v); };
    // A single row or column may come with any stride; the library wants at
    // least the row length.
    auto leading = [&](unsigned i) {
      MemRefType type = types[i];
      return number(
          std::max<int64_t>(strides[i][rank - 2],
                            std::max<int64_t>(type.getDimSize(rank - 1), 1)));
    };
    Value inputs = constant(b, loc, i32, codeOf(aType.getElementType())),
          output = constant(b, loc, i32, codeOf(cType.getElementType()));
    Value beta =
        LLVM::ConstantOp::create(b, loc, b.getF32Type(), op.getBetaAttr());
    Value context = op->getParentOfType<FunctionOpInterface>().getArgument(0);
    Value stream = LLVM::ZeroOp::create(b, loc, pointer);
    Value tA = constant(b, loc, i32, op.getTransA()),
          tB = constant(b, loc, i32, op.getTransB());
    Value a = address(op.getA(), adaptor.getA()),
          bb = address(op.getB(), adaptor.getB()),
          c = address(op.getC(), adaptor.getC()),
          where = locationString(b, loc, module);
    SmallVector<Value> arguments{context, stream, inputs, output, tA, tB};
    if (rank == 3) {
      arguments.append({number(cType.getDimSize(0)), number(m), number(n),
                        number(k), a, leading(0), number(strides[0][0]), bb,
                        leading(1), number(strides[1][0]), beta, c, leading(2),
                        number(strides[2][0]), where});
    } else {
      arguments.append({number(m), number(n), number(k), a, leading(0), bb,
                        leading(1), beta, c, leading(2), where});
    }
    auto callee = declare(
        module, rank == 3 ? "jpmhcGemmBatched" : "jpmhcGemm",
        llvm::map_to_vector(arguments, [](Value v) { return v.getType(); }));
    LLVM::CallOp::create(b, loc, callee, arguments);
    b.eraseOp(op);
    return success();
  }
};

} // namespace

// ---- the pass ----

/// Adds the context argument and the status result to every function and call,
/// and to names the suffix that no function which kernels call has.
static void addContextAndStatus(ModuleOp module) {
  OpBuilder b(module.getContext());
  module.walk([&](func::CallOp call) {
    b.setInsertionPoint(call);
    SmallVector<Value> operands{
        call->getParentOfType<func::FuncOp>().getArgument(0)};
    llvm::append_range(operands, call.getOperands());
    func::CallOp::create(b, call.getLoc(),
                         (call.getCallee() + kStepSuffix).str(),
                         TypeRange{b.getI32Type()}, operands);
    call.erase();
  });
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isDeclaration())
      continue;
    Operation *terminator = function.getBody().front().getTerminator();
    b.setInsertionPoint(terminator);
    Value zero = arith::ConstantIntOp::create(b, terminator->getLoc(), 0, 32);
    func::ReturnOp::create(b, terminator->getLoc(), zero);
    terminator->erase();
    (void)function.insertResult(0, b.getI32Type(), DictionaryAttr());
    function.setName((function.getName() + kStepSuffix).str());
  }
}

static void insertContextArguments(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration())
      (void)function.insertArgument(0, pointerType(module.getContext()),
                                    DictionaryAttr(), function.getLoc());
}

/// After every call that returns a status: leave with it unless it is 0.
static void checkStatuses(LLVM::LLVMFuncOp function) {
  SmallVector<LLVM::CallOp> calls;
  function.walk([&](LLVM::CallOp call) {
    if (call.getNumResults() == 1 && call.getResult().use_empty())
      calls.push_back(call);
  });
  for (LLVM::CallOp call : calls) {
    OpBuilder b(call);
    Block *before = call->getBlock();
    Block *after = before->splitBlock(call->getNextNode());
    auto *failed = new Block;
    failed->addArgument(b.getI32Type(), call.getLoc());
    function.getBody().push_back(failed);
    b.setInsertionPointToEnd(before);
    Value zero = constant(b, call.getLoc(), b.getI32Type(), 0);
    Value ok = LLVM::ICmpOp::create(b, call.getLoc(), LLVM::ICmpPredicate::eq,
                                    call.getResult(), zero);
    LLVM::CondBrOp::create(b, call.getLoc(), ok, after, ValueRange{}, failed,
                           ValueRange{call.getResult()});
    b.setInsertionPointToEnd(failed);
    LLVM::ReturnOp::create(b, call.getLoc(), failed->getArgument(0));
  }
}

/// `i32 name.entry(ptr context, ptr arguments)` in front of an entry.
static void wrapEntry(LLVM::LLVMFuncOp function) {
  OpBuilder b(function);
  Location loc = function.getLoc();
  auto pointer = pointerType(b.getContext());
  StringRef name = function.getName();
  name.consume_back(kStepSuffix);
  auto entry = LLVM::LLVMFuncOp::create(
      b, loc, (name + kEntrySuffix).str(),
      LLVM::LLVMFunctionType::get(b.getI32Type(), {pointer, pointer}));
  Block *block = entry.addEntryBlock(b);
  b.setInsertionPointToStart(block);
  SmallVector<Value> arguments{block->getArgument(0)};
  for (auto [i, type] :
       llvm::enumerate(function.getArgumentTypes().drop_front())) {
    Value slot =
        LLVM::GEPOp::create(b, loc, pointer, pointer, block->getArgument(1),
                            ArrayRef<LLVM::GEPArg>{static_cast<int32_t>(i)});
    Value value = LLVM::LoadOp::create(b, loc, pointer, slot);
    if (type != pointer)
      value = LLVM::LoadOp::create(b, loc, type, value);
    arguments.push_back(value);
  }
  auto call = LLVM::CallOp::create(
      b, loc, TypeRange{b.getI32Type()},
      FlatSymbolRefAttr::get(function.getNameAttr()), arguments);
  LLVM::ReturnOp::create(b, loc, call.getResults());
}

/// Kernels live in modules of their own; here their symbols are declared: a
/// function on the CPU, on a GPU what the device made of the kernel.
static void declareKernels(ModuleOp module) {
  SmallVector<func::FuncOp> kernels;
  for (auto function : module.getOps<func::FuncOp>())
    if (function.isDeclaration() && function->hasAttr(kKernelNameAttrName))
      kernels.push_back(function);
  auto pointer = pointerType(module.getContext());
  for (func::FuncOp kernel : kernels) {
    OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
    std::string name = kernel.getName().str();
    Location loc = kernel.getLoc();
    kernel.erase();
    if (isForGPU(module)) {
      LLVM::GlobalOp::create(b, loc, b.getI8Type(), /*isConstant=*/false,
                             LLVM::Linkage::External, name, Attribute());
      continue;
    }
    auto type =
        LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                    {b.getI64Type(), b.getI64Type(), pointer});
    LLVM::LLVMFuncOp::create(b, loc, name, type);
  }
}

namespace {
struct LowerHostToLLVMPass
    : jpmhc::impl::LowerHostToLLVMBase<LowerHostToLLVMPass> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    MLIRContext *context = &getContext();
    insertContextArguments(module);
    addContextAndStatus(module);
    declareKernels(module);
    module.walk([](LaunchArgumentOp op) {
      op.replaceAllUsesWith(op.getValue());
      op.erase();
    });

    RewritePatternSet views(context);
    memref::populateExpandStridedMetadataPatterns(views);
    if (failed(applyPatternsGreedily(module, std::move(views))))
      return signalPassFailure();

    LowerToLLVMOptions options(context);
    options.useBarePtrCallConv = true;
    LLVMTypeConverter converter(context, options);
    RewritePatternSet patterns(context);
    patterns.add<LowerLaunch, LowerGemm>(converter);
    populateFuncToLLVMConversionPatterns(converter, patterns);
    populateFinalizeMemRefToLLVMConversionPatterns(converter, patterns);
    arith::populateArithToLLVMConversionPatterns(converter, patterns);
    populateMathToLLVMConversionPatterns(converter, patterns);
    LLVMConversionTarget target(*context);
    // Kernels lie in modules of their own, lowered already.
    target.addLegalOp<ModuleOp, gpu::BinaryOp>();
    if (failed(applyFullConversion(module, target, std::move(patterns))))
      return signalPassFailure();

    SmallVector<LLVM::LLVMFuncOp> functions;
    for (auto function : module.getOps<LLVM::LLVMFuncOp>())
      if (!function.isExternal())
        functions.push_back(function);
    for (LLVM::LLVMFuncOp function : functions) {
      checkStatuses(function);
      function.setLinkage(LLVM::Linkage::Internal);
      if (function->hasAttr(kEntryAttrName))
        wrapEntry(function);
    }
  }
};
} // namespace
