// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Machine code of a module: what the JIT links and what a library is made of.
#ifndef JPMHC_LIB_TARGET_CPU_PROGRAM_H
#define JPMHC_LIB_TARGET_CPU_PROGRAM_H

#include "jpmhc/Target/CPU.h"

namespace jpmhc {

/// The program as the cache keeps it: signatures and names as JSON, then the
/// objects.
std::string serializeProgram(const CPUProgram &program);

/// The program of `contents`, or an error if it is not one.
llvm::Expected<CPUProgram> parseProgram(llvm::StringRef contents);

} // namespace jpmhc

#endif // JPMHC_LIB_TARGET_CPU_PROGRAM_H
