// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From LLVM IR at the level of NVVM intrinsics to PTX text, and from PTX text
// to a report of what ptxas made of it. Needs LLVM with the NVPTX target; no
// CUDA toolkit. ptxas is used where one is installed.

#ifndef JPMHC_TARGET_PTX_H
#define JPMHC_TARGET_PTX_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Module;
class TargetMachine;
} // namespace llvm

namespace jpmhc {

/// The chip that code is written for where none is named.
inline constexpr llvm::StringLiteral kDefaultPTXChip = "sm_100a";

/// How a module becomes PTX.
struct PTXOptions {
  /// Optimisation level, 0 to 3.
  unsigned optLevel = 3;
  /// Fuse every multiply-add, whether or not its instructions carry the
  /// `contract` flag. Off by default: code that compensates rounding errors
  /// leaves the flag out on purpose.
  bool fuseEveryMultiplyAdd = false;
  /// PTX ISA version times ten (86 is 8.6); 0 takes the oldest one that knows
  /// the chip, so that the text loads in as many drivers as can run it.
  unsigned isaVersion = 0;
};

/// The chips PTX is written for, oldest first.
llvm::ArrayRef<llvm::StringRef> getPTXChips();

/// An error that lists the known chips unless `chip` is one of them.
llvm::Error checkPTXChip(llvm::StringRef chip);

/// The oldest PTX ISA version (times ten) that knows `chip`, which must be one
/// of getPTXChips().
unsigned getMinimumISAVersion(llvm::StringRef chip);

/// A target machine for `chip`. Errors: unknown chip, an ISA version older than
/// the chip or unknown, an optimisation level over 3.
llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createPTXTargetMachine(llvm::StringRef chip, const PTXOptions &options = {});

/// Runs LLVM's optimisation pipeline for NVPTX on `module` in place, after
/// setting its triple and data layout. The module that the emulator runs and
/// the one that becomes PTX both pass through here.
void optimizeForPTX(llvm::Module &module, llvm::TargetMachine &machine,
                    unsigned optLevel);

/// Optimises a copy of `module` and returns its PTX.
///
/// Errors: those of createPTXTargetMachine; a module that does not verify; no
/// kernel in the module; a function that is called and not defined (`__nv_expf`
/// of an unlinked libdevice, say); a floating-point intrinsic that NVPTX cannot
/// select. The last two name every culprit.
llvm::Expected<std::string> translateToPTX(const llvm::Module &module,
                                           llvm::StringRef chip,
                                           const PTXOptions &options = {});

/// What ptxas reports of one kernel.
struct KernelResources {
  std::string name;
  unsigned registers = 0;
  /// Bytes a thread.
  uint64_t stackFrame = 0, spillStores = 0, spillLoads = 0;
  /// Static bytes a block.
  uint64_t sharedBytes = 0;
  unsigned barriers = 0;
};

/// What came of assembling a PTX module.
struct AssemblyReport {
  /// False where no ptxas was found; `note` then says so and all else is empty.
  bool assembled = false;
  std::string note;
  /// The assembler used, and its release ("13.0").
  std::string assembler, release;
  std::vector<KernelResources> kernels;
  /// Device code, ready for the driver to load.
  std::vector<char> cubin;
};

/// The path of the ptxas to use: `JPMHC_PTXAS`, else `$CUDA_HOME/bin/ptxas`,
/// else the first on PATH; empty where there is none. Error: `JPMHC_PTXAS` is
/// set and is not an executable file.
llvm::Expected<std::string> findPtxas();

/// Assembles `ptx` for `chip`. Errors: unknown chip, those of findPtxas(), and
/// a failure of ptxas, with its messages.
llvm::Expected<AssemblyReport> assemblePTX(llvm::StringRef ptx,
                                           llvm::StringRef chip);

/// The kernels in the text that `ptxas -v` prints.
std::vector<KernelResources> parsePtxasReport(llvm::StringRef text);

} // namespace jpmhc

#endif // JPMHC_TARGET_PTX_H
