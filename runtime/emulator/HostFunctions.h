// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The functions that instrumented code calls, by name.

#ifndef JPMHC_RUNTIME_EMULATOR_HOSTFUNCTIONS_H
#define JPMHC_RUNTIME_EMULATOR_HOSTFUNCTIONS_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

namespace jpmhc::emulator {

struct HostFunction {
  llvm::StringLiteral name;
  void *address;
};

llvm::ArrayRef<HostFunction> getHostFunctions();

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_HOSTFUNCTIONS_H
