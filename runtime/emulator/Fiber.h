// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fibers: flows of control with a stack each that hand over to one another on
// one host thread. One emulates one GPU thread.

#ifndef JPMHC_RUNTIME_EMULATOR_FIBER_H
#define JPMHC_RUNTIME_EMULATOR_FIBER_H

#include "llvm/Support/Error.h"

#include <cstddef>
#include <cstdint>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

namespace jpmhc::emulator {

/// What AddressSanitizer and ThreadSanitizer must hear of a switch. Does
/// nothing without them.
class SanitizerFiber {
public:
  SanitizerFiber() = default;
  SanitizerFiber(const SanitizerFiber &) = delete;
  SanitizerFiber &operator=(const SanitizerFiber &) = delete;
  ~SanitizerFiber();

  /// A new fiber on this stack.
  void start(const void *low, size_t bytes);
  /// Before a switch. What it returns goes to comeBack() after the switch back.
  void *leaveFor(SanitizerFiber &other, bool forEver);
  static void comeBack(void *fakeStack);
  /// First thing on a new fiber.
  static void arrive();

private:
  // 0 bytes: the host thread's own stack.
  [[maybe_unused]] const void *low = nullptr;
  [[maybe_unused]] size_t bytes = 0;
  [[maybe_unused]] void *handle = nullptr;
  [[maybe_unused]] bool owned = false;
};

/// A place to come back to: where a fiber, or the scheduler, stopped.
class FiberContext {
public:
  /// Makes this the start of `entry(argument)` on the stack [low, low + bytes).
  /// `entry` must not return: it ends in a switchTo() that is never answered.
  void start(void *low, size_t bytes, void (*entry)(void *), void *argument);

  /// Stops here, in this context, and goes on in `other`. Returns when
  /// something switches back.
  void switchTo(FiberContext &other);

  /// Goes on in `other` and never comes back.
  [[noreturn]] void finishInto(FiberContext &other);

private:
  static void run(FiberContext *self);
  void jump(FiberContext &other);

  void (*entry)(void *) = nullptr;
  void *argument = nullptr;
#if defined(__x86_64__)
  void *stackPointer = nullptr;
#else
  ucontext_t context;
  static void trampoline(unsigned high, unsigned low);
#endif
  SanitizerFiber sanitizer;
};

/// Equal stacks in one mapping, a guard page below each. Memory is only
/// committed as far as it is touched.
class FiberStacks {
public:
  FiberStacks() = default;
  FiberStacks(const FiberStacks &) = delete;
  FiberStacks &operator=(const FiberStacks &) = delete;
  ~FiberStacks();

  /// Makes room for `count` stacks of at least `bytes` each. What was there
  /// before is lost.
  llvm::Error reserve(unsigned count, size_t bytes);

  void *low(unsigned index) const { return base + index * stride + guardBytes; }
  size_t bytes() const { return stride - guardBytes; }

  /// Whether `address` lies in the mapping.
  bool contains(uintptr_t address) const {
    return address - reinterpret_cast<uintptr_t>(base) < mapped;
  }

private:
  char *base = nullptr;
  size_t mapped = 0, stride = 0, guardBytes = 0;
};

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_FIBER_H
