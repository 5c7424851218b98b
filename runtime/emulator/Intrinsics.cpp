// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// NVVM intrinsics in terms of host code and of the run time. Names are those of
// LLVM 22 without "llvm.nvvm." and without the suffix of overloaded types.
//
// Approximate instructions give the correctly rounded result here, but for
// tanh, whose error on the hardware is large enough to matter (see
// lowerApproximateTanh in Instrument.cpp).

#include "Instrument.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"

#include <optional>

using namespace llvm;

namespace jpmhc::emulator {
namespace {

/// Rewrites one call. Each lower* function returns the replacement, or null
/// where the name is not one of its own. A call without a value is replaced by
/// any value that is not null.
class Lowering {
public:
  Lowering(CallInst &call, StringRef name, RuntimeCalls &runtime)
      : call(call), name(name), runtime(runtime), builder(&call),
        type(call.getType()) {}

  Value *lower() {
    using Member = Value *(Lowering::*)();
    for (Member member :
         {&Lowering::lowerSpecialRegister, &Lowering::lowerBarrier,
          &Lowering::lowerCollective, &Lowering::lowerAsyncCopy,
          &Lowering::lowerControl, &Lowering::lowerMaths, &Lowering::lowerBits,
          &Lowering::lowerConversion, &Lowering::lowerInteger})
      if (Value *value = (this->*member)())
        return value;
    return nullptr;
  }

private:
  Value *lowerSpecialRegister();
  Value *lowerBarrier();
  Value *lowerCollective();
  Value *lowerAsyncCopy();
  Value *lowerControl();
  Value *lowerMaths();
  Value *lowerBits();
  Value *lowerConversion();
  Value *lowerInteger();

  Value *lowerShuffle(StringRef rest);
  Value *collective(Collective kind, Value *mask, Value *value,
                    Value *a = nullptr, Value *b = nullptr);
  Value *flush(Value *value);
  Value *arithmetic(StringRef operation, ArrayRef<Value *> x, bool nan);

  Value *arg(unsigned i) { return call.getArgOperand(i); }
  Value *i32(uint32_t value) { return builder.getInt32(value); }
  template <typename Enum> Value *code(Enum value) {
    return i32(static_cast<uint32_t>(value));
  }
  Value *intrinsic(Intrinsic::ID id, ArrayRef<Value *> x) {
    return builder.CreateIntrinsic(id, {x[0]->getType()}, x);
  }
  Value *anything() { return i32(0); }

  CallInst &call;
  StringRef name;
  RuntimeCalls &runtime;
  IRBuilder<> builder;
  Type *type;
};

Value *Lowering::lowerSpecialRegister() {
  StringRef rest = name;
  if (!rest.consume_front("read.ptx.sreg."))
    return nullptr;
  if (rest == "warpsize")
    return i32(32);
  using R = SpecialRegister;
  auto which = StringSwitch<std::optional<R>>(rest)
                   .Case("tid.x", R::TidX)
                   .Case("tid.y", R::TidY)
                   .Case("tid.z", R::TidZ)
                   .Case("ntid.x", R::NtidX)
                   .Case("ntid.y", R::NtidY)
                   .Case("ntid.z", R::NtidZ)
                   .Case("ctaid.x", R::CtaidX)
                   .Case("ctaid.y", R::CtaidY)
                   .Case("ctaid.z", R::CtaidZ)
                   .Case("nctaid.x", R::NctaidX)
                   .Case("nctaid.y", R::NctaidY)
                   .Case("nctaid.z", R::NctaidZ)
                   .Case("laneid", R::LaneId)
                   .Case("warpid", R::WarpId)
                   .Case("nwarpid", R::NumWarps)
                   .Case("lanemask.eq", R::LaneMaskEq)
                   .Case("lanemask.lt", R::LaneMaskLt)
                   .Case("lanemask.le", R::LaneMaskLe)
                   .Case("lanemask.gt", R::LaneMaskGt)
                   .Case("lanemask.ge", R::LaneMaskGe)
                   .Case("dynamic_smem_size", R::DynamicSharedBytes)
                   .Case("total_smem_size", R::TotalSharedBytes)
                   .Default(std::nullopt);
  if (!which)
    return nullptr;
  return runtime.call(builder, "jpmhcEmuSpecialRegister", builder.getInt32Ty(),
                      {code(*which)},
                      /*pure=*/true);
}

Value *Lowering::lowerBarrier() {
  if (name == "bar.warp.sync")
    return collective(Collective::SyncWarp, arg(0), i32(0));
  StringRef rest = name;
  if (!rest.consume_front("barrier.cta."))
    return nullptr;
  auto kind = StringSwitch<std::optional<BarrierKind>>(rest)
                  .StartsWith("sync.", BarrierKind::Sync)
                  .StartsWith("arrive.", BarrierKind::Arrive)
                  .StartsWith("red.and.", BarrierKind::And)
                  .StartsWith("red.or.", BarrierKind::Or)
                  .StartsWith("red.popc.", BarrierKind::Popc)
                  .Default(std::nullopt);
  if (!kind)
    return nullptr;
  bool aligned = rest.contains(".aligned");
  bool counted = rest.ends_with(".count");
  bool reduces = *kind >= BarrierKind::And;
  Value *count = counted ? arg(1) : i32(0);
  Value *predicate =
      reduces ? builder.CreateZExt(arg(counted ? 2 : 1), builder.getInt32Ty())
              : i32(0);
  Value *result = runtime.call(builder, "jpmhcEmuBarrier", builder.getInt32Ty(),
                               {code(*kind), i32(aligned), arg(0), count,
                                predicate, runtime.site(call)});
  if (type->isVoidTy())
    return result;
  return builder.CreateTruncOrBitCast(result, type); // i1 for and, or
}

Value *Lowering::collective(Collective kind, Value *mask, Value *value,
                            Value *a, Value *b) {
  value = builder.CreateZExt(value, builder.getInt64Ty());
  return runtime.call(builder, "jpmhcEmuCollective", builder.getInt64Ty(),
                      {code(kind), mask, value, a ? a : i32(0), b ? b : i32(0),
                       runtime.site(call)});
}

/// shfl.sync.{idx,up,down,bfly}.{i32,f32}[p](mask, value, operand, clamp).
Value *Lowering::lowerShuffle(StringRef rest) {
  auto kind = StringSwitch<std::optional<Collective>>(rest.split('.').first)
                  .Case("idx", Collective::ShuffleIdx)
                  .Case("up", Collective::ShuffleUp)
                  .Case("down", Collective::ShuffleDown)
                  .Case("bfly", Collective::ShuffleBfly)
                  .Default(std::nullopt);
  if (!kind)
    return nullptr;
  Value *bits = builder.CreateBitCast(arg(1), builder.getInt32Ty());
  Value *both = collective(*kind, arg(0), bits, arg(2), arg(3));
  Value *value = builder.CreateTrunc(both, builder.getInt32Ty());
  value = builder.CreateBitCast(value, arg(1)->getType());
  if (!type->isStructTy())
    return value;
  Value *inRange =
      builder.CreateTrunc(builder.CreateLShr(both, 32), builder.getInt1Ty());
  Value *pair = builder.CreateInsertValue(PoisonValue::get(type), value, 0);
  return builder.CreateInsertValue(pair, inRange, 1);
}

Value *Lowering::lowerCollective() {
  StringRef rest = name;
  if (rest.consume_front("shfl.sync."))
    return lowerShuffle(rest);
  auto vote = StringSwitch<std::optional<Collective>>(name)
                  .Case("vote.all.sync", Collective::VoteAll)
                  .Case("vote.any.sync", Collective::VoteAny)
                  .Case("vote.uni.sync", Collective::VoteUni)
                  .Case("vote.ballot.sync", Collective::VoteBallot)
                  .Default(std::nullopt);
  if (vote)
    return builder.CreateTrunc(collective(*vote, arg(0), arg(1)), type);
  if (name == "match.any.sync.i32" || name == "match.any.sync.i64")
    return builder.CreateTrunc(collective(Collective::MatchAny, arg(0), arg(1)),
                               type);
  bool matchAll =
      name == "match.all.sync.i32p" || name == "match.all.sync.i64p";
  if (matchAll || name == "elect.sync") {
    Value *both = matchAll ? collective(Collective::MatchAll, arg(0), arg(1))
                           : collective(Collective::Elect, arg(0), i32(0));
    Value *value = builder.CreateTrunc(both, builder.getInt32Ty());
    Value *predicate =
        builder.CreateTrunc(builder.CreateLShr(both, 32), builder.getInt1Ty());
    Value *pair = builder.CreateInsertValue(PoisonValue::get(type), value, 0);
    return builder.CreateInsertValue(pair, predicate, 1);
  }
  auto reduce = StringSwitch<std::optional<Collective>>(name)
                    .Case("redux.sync.add", Collective::ReduceAdd)
                    .Case("redux.sync.min", Collective::ReduceMinS)
                    .Case("redux.sync.max", Collective::ReduceMaxS)
                    .Case("redux.sync.umin", Collective::ReduceMinU)
                    .Case("redux.sync.umax", Collective::ReduceMaxU)
                    .Case("redux.sync.and", Collective::ReduceAnd)
                    .Case("redux.sync.or", Collective::ReduceOr)
                    .Case("redux.sync.xor", Collective::ReduceXor)
                    .Default(std::nullopt);
  if (reduce)
    return builder.CreateTrunc(collective(*reduce, arg(1), arg(0)), type);
  return nullptr;
}

/// cp.async: the copy happens when the thread waits for it, so that reading
/// too early reads what was there before.
Value *Lowering::lowerAsyncCopy() {
  Type *none = builder.getVoidTy();
  if (name == "cp.async.commit.group")
    return runtime.call(builder, "jpmhcEmuAsyncCommit", none, {});
  if (name == "cp.async.wait.group")
    return runtime.call(builder, "jpmhcEmuAsyncWait", none, {arg(0)});
  if (name == "cp.async.wait.all")
    return runtime.call(builder, "jpmhcEmuAsyncWaitAll", none, {});
  StringRef rest = name;
  if (!rest.consume_front("cp.async.ca.shared.global.") &&
      !rest.consume_front("cp.async.cg.shared.global."))
    return nullptr;
  bool partial = rest.consume_back(".s");
  uint32_t bytes;
  if (rest.getAsInteger(10, bytes))
    return nullptr;
  Value *sourceBytes =
      partial ? builder.CreateZExtOrTrunc(arg(2), builder.getInt32Ty())
              : i32(bytes);
  Value *from =
      runtime.site(call, {AccessKind::Load, Space::Global, 0, bytes, ""});
  Value *to =
      runtime.site(call, {AccessKind::Store, Space::Shared, 0, bytes, ""});
  auto generic = [&](Value *pointer) {
    return builder.CreateAddrSpaceCast(pointer, builder.getPtrTy());
  };
  return runtime.call(
      builder, "jpmhcEmuAsyncCopy", none,
      {generic(arg(0)), generic(arg(1)), i32(bytes), sourceBytes, from, to});
}

Value *Lowering::lowerControl() {
  Type *none = builder.getVoidTy();
  if (name == "exit")
    return runtime.call(builder, "jpmhcEmuExit", none, {});
  if (name == "nanosleep")
    return runtime.call(builder, "jpmhcEmuYield", none, {});
  if (name.starts_with("membar.") || name == "fence.sc.cluster")
    return builder.CreateFence(AtomicOrdering::SequentiallyConsistent);
  return nullptr;
}

/// Subnormal numbers become zeros of their sign.
Value *Lowering::flush(Value *value) {
  Type *t = value->getType();
  if (!t->getScalarType()->isFloatTy())
    return value; // ftz is about f32; f16 and bf16 variants flush f32-like
                  // ranges
  Value *magnitude = intrinsic(Intrinsic::fabs, {value});
  Value *smallest =
      ConstantFP::get(t, APFloat::getSmallestNormalized(APFloat::IEEEsingle()));
  Value *zero = builder.CreateBinaryIntrinsic(Intrinsic::copysign,
                                              ConstantFP::getZero(t), value);
  return builder.CreateSelect(builder.CreateFCmpOLT(magnitude, smallest), zero,
                              value);
}

/// One floating-point instruction, by its name without type and modifiers.
Value *Lowering::arithmetic(StringRef operation, ArrayRef<Value *> x,
                            bool nan) {
  Value *one = ConstantFP::get(x[0]->getType(), 1.0);
  if (operation == "fma.rn")
    return intrinsic(Intrinsic::fma, x);
  if (operation == "add.rn")
    return builder.CreateFAdd(x[0], x[1]);
  if (operation == "mul.rn")
    return builder.CreateFMul(x[0], x[1]);
  if (operation == "div.rn" || operation == "div.full" ||
      operation == "div.approx")
    return builder.CreateFDiv(x[0], x[1]);
  if (operation == "rcp.rn" || operation == "rcp.approx")
    return builder.CreateFDiv(one, x[0]);
  if (operation == "sqrt.rn" || operation == "sqrt.approx" ||
      operation == "sqrt")
    return intrinsic(Intrinsic::sqrt, x);
  if (operation == "rsqrt.approx")
    return builder.CreateFDiv(one, intrinsic(Intrinsic::sqrt, x));
  if (operation == "ex2.approx")
    return intrinsic(Intrinsic::exp2, x);
  if (operation == "lg2.approx")
    return intrinsic(Intrinsic::log2, x);
  if (operation == "sin.approx")
    return intrinsic(Intrinsic::sin, x);
  if (operation == "cos.approx")
    return intrinsic(Intrinsic::cos, x);
  if (operation == "fabs")
    return intrinsic(Intrinsic::fabs, x);
  if (operation == "neg")
    return builder.CreateFNeg(x[0]);
  if (operation == "floor")
    return intrinsic(Intrinsic::floor, x);
  if (operation == "ceil")
    return intrinsic(Intrinsic::ceil, x);
  if (operation == "trunc")
    return intrinsic(Intrinsic::trunc, x);
  if (operation == "round") // cvt.rni: to even
    return intrinsic(Intrinsic::roundeven, x);
  if (operation == "fmin")
    return intrinsic(nan ? Intrinsic::minimum : Intrinsic::minimumnum, x);
  if (operation == "fmax")
    return intrinsic(nan ? Intrinsic::maximum : Intrinsic::maximumnum, x);
  if (operation == "saturate")
    return x[0];
  return nullptr;
}

/// "add.rn.ftz.sat.f" → operation "add.rn", modifiers ftz and sat.
Value *Lowering::lowerMaths() {
  if (!type->isFPOrFPVectorTy() || call.arg_empty())
    return nullptr;
  for (Value *value : call.args())
    if (value->getType() != type)
      return nullptr;
  bool ftz = false, sat = false, relu = false, nan = false;
  SmallString<32> operation;
  for (StringRef rest = name; !rest.empty();) {
    StringRef part;
    std::tie(part, rest) = rest.split('.');
    bool *modifier = StringSwitch<bool *>(part)
                         .Case("ftz", &ftz)
                         .Case("sat", &sat)
                         .Case("relu", &relu)
                         .Case("nan", &nan)
                         .Default(nullptr);
    bool typeName =
        StringSwitch<bool>(part)
            .Cases({"f", "d", "f16", "f16x2", "bf16", "bf16x2"}, true)
            .Default(false);
    if (modifier) {
      *modifier = true;
    } else if (!typeName) {
      operation += operation.empty() ? "" : ".";
      operation += part;
    }
  }
  SmallVector<Value *> x;
  for (Value *value : call.args())
    x.push_back(ftz ? flush(value) : value);
  Value *result = arithmetic(operation, x, nan);
  if (!result)
    return nullptr;
  Value *zero = ConstantFP::getZero(type), *one = ConstantFP::get(type, 1.0);
  if (sat || operation == "saturate") { // NaN becomes 0
    result = builder.CreateBinaryIntrinsic(Intrinsic::maximumnum, result, zero);
    result = builder.CreateBinaryIntrinsic(Intrinsic::minimumnum, result, one);
  }
  if (relu) // NaN stays NaN
    result = builder.CreateBinaryIntrinsic(Intrinsic::maximum, result, zero);
  return ftz ? flush(result) : result;
}

/// The same bits in another type, or halves of them.
Value *Lowering::lowerBits() {
  if (name == "d2i.lo" || name == "d2i.hi") {
    Value *bits = builder.CreateBitCast(arg(0), builder.getInt64Ty());
    if (name == "d2i.hi")
      bits = builder.CreateLShr(bits, 32);
    return builder.CreateTrunc(bits, type);
  }
  if (name == "lohi.i2d") {
    Value *low = builder.CreateZExt(arg(0), builder.getInt64Ty());
    Value *high =
        builder.CreateShl(builder.CreateZExt(arg(1), builder.getInt64Ty()), 32);
    return builder.CreateBitCast(builder.CreateOr(low, high), type);
  }
  if (name.starts_with("bitcast.") || name.starts_with("move."))
    return builder.CreateBitCast(arg(0), type);
  return nullptr;
}

/// "d2i.rz", "ui2f.rn", "ff2bf16x2.rn.relu", …
Value *Lowering::lowerConversion() {
  auto [conversion, modifiers] = name.split('.');
  auto [from, to] = conversion.split('2');
  auto [rounding, rest] = modifiers.split('.');
  bool ftz = rest == "ftz", relu = rest == "relu";
  if (!rest.empty() && !ftz && !relu)
    return nullptr;
  auto narrow = [&](Value *value, Type *target) {
    value = builder.CreateFPTrunc(value, target);
    if (!relu)
      return value;
    return builder.CreateBinaryIntrinsic(Intrinsic::maximum, value,
                                         ConstantFP::getZero(target));
  };
  if (from == "ff" && (to == "bf16x2" || to == "f16x2") && rounding == "rn") {
    // The first operand is the upper half.
    Type *element = cast<VectorType>(type)->getElementType();
    Value *pair = builder.CreateInsertElement(
        PoisonValue::get(type), narrow(arg(1), element), uint64_t(0));
    return builder.CreateInsertElement(pair, narrow(arg(0), element), 1);
  }
  if (from == "f" && to == "h" && rounding == "rn" && type->isIntegerTy(16))
    return builder.CreateBitCast(
        narrow(ftz ? flush(arg(0)) : arg(0), builder.getHalfTy()), type);
  bool fromFloat = from == "f" || from == "d";
  if (fromFloat && rounding == "rn" && type->isFloatingPointTy() &&
      type->getPrimitiveSizeInBits() <
          arg(0)->getType()->getPrimitiveSizeInBits())
    return narrow(ftz ? flush(arg(0)) : arg(0), type);

  bool fromInteger =
      from == "i" || from == "ui" || from == "ll" || from == "ull";
  bool isUnsigned = from.starts_with("u") || to.starts_with("u");
  if (fromInteger && type->isFloatingPointTy() && rounding == "rn")
    return isUnsigned ? builder.CreateUIToFP(arg(0), type)
                      : builder.CreateSIToFP(arg(0), type);
  if (fromFloat && type->isIntegerTy()) {
    auto round = StringSwitch<Intrinsic::ID>(rounding)
                     .Case("rn", Intrinsic::roundeven)
                     .Case("rz", Intrinsic::trunc)
                     .Case("rm", Intrinsic::floor)
                     .Case("rp", Intrinsic::ceil)
                     .Default(Intrinsic::not_intrinsic);
    if (round == Intrinsic::not_intrinsic)
      return nullptr;
    Value *whole = intrinsic(round, {ftz ? flush(arg(0)) : arg(0)});
    return builder.CreateIntrinsic(isUnsigned ? Intrinsic::fptoui_sat
                                              : Intrinsic::fptosi_sat,
                                   {type, whole->getType()}, {whole});
  }
  return nullptr;
}

Value *Lowering::lowerInteger() {
  StringRef rest = name;
  if (rest.consume_front("mulhi.")) {
    bool isUnsigned = rest.starts_with("u");
    Type *wide = type->getExtendedType();
    auto extend = [&](Value *x) {
      return isUnsigned ? builder.CreateZExt(x, wide)
                        : builder.CreateSExt(x, wide);
    };
    Value *product = builder.CreateMul(extend(arg(0)), extend(arg(1)));
    return builder.CreateTrunc(
        builder.CreateLShr(product, type->getScalarSizeInBits()), type);
  }
  if (name == "prmt")
    return runtime.call(builder, "jpmhcEmuPermuteBytes", type,
                        {arg(0), arg(1), arg(2)},
                        /*pure=*/true);
  if (rest.consume_front("sad.")) {
    bool isUnsigned = rest.starts_with("u");
    auto least = isUnsigned ? Intrinsic::umin : Intrinsic::smin;
    auto most = isUnsigned ? Intrinsic::umax : Intrinsic::smax;
    Value *difference =
        builder.CreateSub(builder.CreateBinaryIntrinsic(most, arg(0), arg(1)),
                          builder.CreateBinaryIntrinsic(least, arg(0), arg(1)));
    return builder.CreateAdd(difference, arg(2));
  }
  if (name == "fshl.clamp" || name == "fshr.clamp") {
    Type *wide = builder.getInt64Ty();
    Value *both = builder.CreateOr(
        builder.CreateShl(builder.CreateZExt(arg(0), wide), 32),
        builder.CreateZExt(arg(1), wide));
    Value *amount =
        builder.CreateBinaryIntrinsic(Intrinsic::umin, arg(2), i32(32));
    amount = builder.CreateZExt(amount, wide);
    Value *shifted =
        name == "fshr.clamp"
            ? builder.CreateLShr(both, amount)
            : builder.CreateLShr(builder.CreateShl(both, amount), 32);
    return builder.CreateTrunc(shifted, type);
  }
  return nullptr;
}

} // namespace

bool lowerNVVMIntrinsic(CallInst &call, RuntimeCalls &runtime) {
  StringRef name = Intrinsic::getBaseName(call.getIntrinsicID());
  if (!name.consume_front("llvm.nvvm."))
    return false;
  Value *value = Lowering(call, name, runtime).lower();
  if (!value)
    return false;
  if (!call.getType()->isVoidTy())
    call.replaceAllUsesWith(value);
  call.eraseFromParent();
  return true;
}

} // namespace jpmhc::emulator
