// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Settings.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Process.h"
#include <mutex>

namespace {
struct Overrides {
  std::mutex mutex;
  llvm::StringMap<std::string> values;
};
} // namespace

static Overrides &overrides() {
  static Overrides one;
  return one;
}

std::optional<std::string> jpmhc::getSetting(llvm::StringRef name) {
  {
    std::lock_guard<std::mutex> lock(overrides().mutex);
    auto found = overrides().values.find(name);
    if (found != overrides().values.end())
      return found->second;
  }
  return llvm::sys::Process::GetEnv(name);
}

void jpmhc::setSetting(llvm::StringRef name, std::optional<std::string> value) {
  std::lock_guard<std::mutex> lock(overrides().mutex);
  if (value)
    overrides().values[name] = std::move(*value);
  else
    overrides().values.erase(name);
}
