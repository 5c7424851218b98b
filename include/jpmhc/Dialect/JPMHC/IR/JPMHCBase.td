// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types and base classes that every family of ops shares.
#ifndef JPMHC_BASE_TD
#define JPMHC_BASE_TD

include "jpmhc/Dialect/JPMHC/IR/JPMHCAttributes.td"
include "jpmhc/Interfaces/DifferentiableOpInterface.td"
include "jpmhc/Interfaces/KernelOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

/// Storage types; arithmetic is always f32 or better.
def JPMHC_Float : AnyTypeOf<[F32, BF16, F16], "f32, bf16 or f16">;
def JPMHC_FloatTensor : RankedTensorOf<[JPMHC_Float]>;
def JPMHC_F32Tensor : RankedTensorOf<[F32]>;
def JPMHC_IdTensor : RankedTensorOf<[I32, I64]>;
def JPMHC_FloatVector : 1DTensorOf<[JPMHC_Float]>;
/// One number that is differentiated: a loss, a norm.
def JPMHC_F32Scalar : 0DTensorOf<[F32]>,
                      BuildableType<"::mlir::RankedTensorType::get({}, $_builder.getF32Type())">;

class JPMHC_Op<string mnemonic, list<Trait> traits = []> : Op<JPMHC_Dialect, mnemonic, traits>;

/// A pure op on tensors that emits its own loops when it is bufferized.
class JPMHC_KernelOp<string mnemonic, list<Trait> traits = []>
    : JPMHC_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<JPMHC_KernelOpInterface>], traits)>;

/// The same where results take the buffers of operands (`getInPlaceOperand`).
class JPMHC_InPlaceKernelOp<string mnemonic, list<Trait> traits = []>
    : JPMHC_Op<mnemonic, !listconcat([Pure, DeclareOpInterfaceMethods<JPMHC_KernelOpInterface,
                                                                      ["getInPlaceOperand"]>], traits)>;

/// A kernel op with a reverse-mode rule.
class JPMHC_DifferentiableOp<string mnemonic, list<Trait> traits = []>
    : JPMHC_KernelOp<mnemonic, !listconcat([DeclareOpInterfaceMethods<JPMHC_DifferentiableOpInterface>], traits)>;

#endif // JPMHC_BASE_TD
