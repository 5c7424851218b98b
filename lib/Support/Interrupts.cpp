// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Interrupts.h"

using namespace jpmhc;

static thread_local InterruptScope *innermost = nullptr;

InterruptScope::InterruptScope(llvm::function_ref<bool()> ask)
    : ask(ask), outer(innermost) {
  innermost = this;
}

InterruptScope::~InterruptScope() { innermost = outer; }

bool jpmhc::isInterrupted() {
  if (!innermost)
    return false;
  innermost->answered = innermost->answered || innermost->ask();
  return innermost->answered;
}
