// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns a GPU module into a host module: intrinsics become host code or calls
// into the run time, every access to global or shared memory is announced, and
// each kernel gets an entry that unpacks its arguments.

#ifndef JPMHC_RUNTIME_EMULATOR_INSTRUMENT_H
#define JPMHC_RUNTIME_EMULATOR_INSTRUMENT_H

#include "Program.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/Support/Error.h"

namespace llvm {
class CallInst;
class Instruction;
class Module;
class TargetMachine;
} // namespace llvm

namespace jpmhc::emulator {

/// Rewrites `module` in place for the host of `machine`. Errors: inline
/// assembly, undefined functions, intrinsics without an emulation, stack
/// allocations of a size not known when compiling.
llvm::Expected<Program> instrument(llvm::Module &module,
                                   llvm::TargetMachine &host);

/// The functions of the run time, as the rewritten module calls them.
class RuntimeCalls {
public:
  RuntimeCalls(llvm::Module &module, Program &program)
      : module(module), program(program) {}

  /// A number for the source line of `inst`, as an i32 constant.
  llvm::Value *site(const llvm::Instruction &inst, Site site = {});

  /// A call of the run-time function `name`. `pure` promises that it reads
  /// nothing that changes during the life of a thread.
  llvm::CallInst *call(llvm::IRBuilder<> &builder, llvm::StringRef name,
                       llvm::Type *result,
                       llvm::ArrayRef<llvm::Value *> arguments,
                       bool pure = false);

private:
  llvm::Module &module;
  Program &program;
};

/// Replaces a call of an `llvm.nvvm.*` intrinsic. Returns false where the
/// emulator does not know it.
bool lowerNVVMIntrinsic(llvm::CallInst &call, RuntimeCalls &runtime);

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_INSTRUMENT_H
