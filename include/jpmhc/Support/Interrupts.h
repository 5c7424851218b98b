// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ending a long compilation early, as Ctrl-C asks.
#ifndef JPMHC_SUPPORT_INTERRUPTS_H
#define JPMHC_SUPPORT_INTERRUPTS_H

#include "llvm/ADT/STLFunctionalExtras.h"

namespace jpmhc {

/// While it lives, what this thread compiles asks `ask` between passes and
/// kernels whether to end. Once the answer was yes it stays so.
class InterruptScope {
public:
  explicit InterruptScope(llvm::function_ref<bool()> ask);
  ~InterruptScope();
  InterruptScope(const InterruptScope &) = delete;
  InterruptScope &operator=(const InterruptScope &) = delete;

private:
  friend bool isInterrupted();
  llvm::function_ref<bool()> ask;
  bool answered = false;
  InterruptScope *outer;
};

/// Whether what this thread does is to end; false without a scope.
bool isInterrupted();

} // namespace jpmhc

#endif // JPMHC_SUPPORT_INTERRUPTS_H
