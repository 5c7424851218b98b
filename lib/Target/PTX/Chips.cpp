// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The chips that PTX is written for. LLVM accepts any -mcpu without a word, so
// the list and its check are ours.

#include "jpmhc/Target/PTX.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Target/TargetOptions.h"

#include <mutex>

using namespace llvm;

namespace jpmhc {
namespace {

struct Chip {
  StringLiteral name;
  unsigned isaVersion; // the oldest PTX ISA that names the chip, times ten
};

constexpr Chip chips[] = {
    {"sm_80", 70},  {"sm_86", 71},   {"sm_87", 74},  {"sm_89", 78},
    {"sm_90", 78},  {"sm_90a", 80},  {"sm_100", 86}, {"sm_100a", 86},
    {"sm_103", 88}, {"sm_103a", 88}, {"sm_120", 87}, {"sm_120a", 87},
    {"sm_121", 88}, {"sm_121a", 88},
};

/// The PTX ISA versions of LLVM 22 that are not older than sm_80.
constexpr unsigned isaVersions[] = {70, 71, 72, 73, 74, 75, 76, 77, 78, 80,
                                    81, 82, 83, 84, 85, 86, 87, 88, 90};

const Chip *findChip(StringRef name) {
  const Chip *chip =
      find_if(chips, [&](const Chip &c) { return c.name == name; });
  return chip == std::end(chips) ? nullptr : chip;
}

} // namespace

ArrayRef<StringRef> getPTXChips() {
  static const SmallVector<StringRef> names = to_vector(
      map_range(chips, [](const Chip &c) { return StringRef(c.name); }));
  return names;
}

Error checkPTXChip(StringRef chip) {
  if (findChip(chip))
    return Error::success();
  return createStringError("unknown chip: expected one of " +
                           join(getPTXChips(), ", ") + ", got '" + chip + "'");
}

unsigned getMinimumISAVersion(StringRef chip) {
  const Chip *known = findChip(chip);
  return known ? known->isaVersion : 0;
}

static Expected<unsigned> chooseISAVersion(StringRef chip, unsigned requested) {
  unsigned minimum = getMinimumISAVersion(chip);
  if (!requested)
    return minimum;
  if (!is_contained(isaVersions, requested)) {
    auto text = map_range(isaVersions, [](unsigned v) { return utostr(v); });
    return createStringError("unknown PTX ISA version: expected one of " +
                             join(text.begin(), text.end(), ", ") + ", got " +
                             Twine(requested));
  }
  if (requested < minimum)
    return createStringError("expected a PTX ISA version of at least " +
                             Twine(minimum) + " for chip " + chip + ", got " +
                             Twine(requested));
  return requested;
}

static const llvm::Target *getNVPTXTarget(std::string &message) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return TargetRegistry::lookupTarget(Triple("nvptx64-nvidia-cuda"), message);
}

Expected<std::unique_ptr<TargetMachine>>
createPTXTargetMachine(StringRef chip, const PTXOptions &options) {
  if (Error error = checkPTXChip(chip))
    return std::move(error);
  if (options.optLevel > 3)
    return createStringError("expected an optimisation level of 0 to 3, got " +
                             Twine(options.optLevel));
  Expected<unsigned> version = chooseISAVersion(chip, options.isaVersion);
  if (!version)
    return version.takeError();

  std::string message;
  const llvm::Target *target = getNVPTXTarget(message);
  if (!target)
    return createStringError("this LLVM has no NVPTX target: " + message);
  TargetOptions targetOptions;
  targetOptions.AllowFPOpFusion =
      options.fuseEveryMultiplyAdd ? FPOpFusion::Fast : FPOpFusion::Standard;
  std::unique_ptr<TargetMachine> machine(target->createTargetMachine(
      Triple("nvptx64-nvidia-cuda"), chip, "+ptx" + utostr(*version),
      targetOptions, Reloc::PIC_, std::nullopt,
      static_cast<CodeGenOptLevel>(options.optLevel)));
  if (!machine)
    return createStringError("LLVM made no target machine for chip " + chip);
  return machine;
}

} // namespace jpmhc
