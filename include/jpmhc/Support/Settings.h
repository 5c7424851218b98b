// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Settings of the process: environment variables that a program may override.
#ifndef JPMHC_SUPPORT_SETTINGS_H
#define JPMHC_SUPPORT_SETTINGS_H

#include "llvm/ADT/StringRef.h"
#include <optional>
#include <string>

namespace jpmhc {

/// The value of a setting by the name of its variable (`JPMHC_LOG`): what
/// setSetting has given it, else the environment's. Any thread may ask.
std::optional<std::string> getSetting(llvm::StringRef name);

/// Overrides a variable for this process; without a value, the environment
/// holds again.
void setSetting(llvm::StringRef name, std::optional<std::string> value);

} // namespace jpmhc

#endif // JPMHC_SUPPORT_SETTINGS_H
