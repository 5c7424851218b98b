// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Fiber.h"

#include <algorithm>
#include <cerrno>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JPMHC_ASAN_FIBERS 1
#endif
#if __has_feature(thread_sanitizer)
#define JPMHC_TSAN_FIBERS 1
#endif
#endif
#ifdef JPMHC_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef JPMHC_TSAN_FIBERS
#include <sanitizer/tsan_interface.h>
#endif

namespace jpmhc::emulator {

//===----------------------------------------------------------------------===//
// Sanitizers
//===----------------------------------------------------------------------===//

#if defined(JPMHC_ASAN_FIBERS)

namespace {
/// The host thread's own stack, learnt when its first fiber is entered.
thread_local const void *hostStackLow = nullptr;
thread_local size_t hostStackBytes = 0;
} // namespace

SanitizerFiber::~SanitizerFiber() = default;

void SanitizerFiber::start(const void *newLow, size_t newBytes) {
  low = newLow;
  bytes = newBytes;
}

void *SanitizerFiber::leaveFor(SanitizerFiber &other, bool forEver) {
  void *fakeStack = nullptr;
  __sanitizer_start_switch_fiber(forEver ? nullptr : &fakeStack,
                                 other.bytes ? other.low : hostStackLow,
                                 other.bytes ? other.bytes : hostStackBytes);
  return fakeStack;
}

void SanitizerFiber::comeBack(void *fakeStack) {
  __sanitizer_finish_switch_fiber(fakeStack, nullptr, nullptr);
}

void SanitizerFiber::arrive() {
  const void *fromLow;
  size_t fromBytes;
  __sanitizer_finish_switch_fiber(nullptr, &fromLow, &fromBytes);
  if (!hostStackBytes) {
    hostStackLow = fromLow;
    hostStackBytes = fromBytes;
  }
}

#elif defined(JPMHC_TSAN_FIBERS)

SanitizerFiber::~SanitizerFiber() {
  if (owned)
    __tsan_destroy_fiber(handle);
}

void SanitizerFiber::start(const void *, size_t) {
  if (owned)
    __tsan_destroy_fiber(handle);
  handle = __tsan_create_fiber(0);
  owned = true;
}

void *SanitizerFiber::leaveFor(SanitizerFiber &other, bool) {
  if (!owned)
    handle = __tsan_get_current_fiber(); // the host thread itself
  __tsan_switch_to_fiber(other.handle, 0);
  return nullptr;
}

void SanitizerFiber::comeBack(void *) {}
void SanitizerFiber::arrive() {}

#else

SanitizerFiber::~SanitizerFiber() = default;
void SanitizerFiber::start(const void *, size_t) {}
void *SanitizerFiber::leaveFor(SanitizerFiber &, bool) { return nullptr; }
void SanitizerFiber::comeBack(void *) {}
void SanitizerFiber::arrive() {}

#endif

//===----------------------------------------------------------------------===//
// Switching
//===----------------------------------------------------------------------===//

void FiberContext::run(FiberContext *self) {
  SanitizerFiber::arrive();
  self->entry(self->argument);
}

void FiberContext::switchTo(FiberContext &other) {
  void *fakeStack = sanitizer.leaveFor(other.sanitizer, /*forEver=*/false);
  jump(other);
  SanitizerFiber::comeBack(fakeStack);
}

void FiberContext::finishInto(FiberContext &other) {
  sanitizer.leaveFor(other.sanitizer, /*forEver=*/true);
  jump(other);
  __builtin_unreachable();
}

#if defined(__x86_64__)

// jpmhcEmuSwitchStack(void **from, void *to): keeps the registers that a callee
// must preserve on the old stack and takes those of the new one. The control
// words of floating-point arithmetic are the same for all. It ends in a jump,
// since a return would mislead the prediction of returns.
//
// jpmhcEmuFiberStart: where a new fiber's first switch goes to; r12 holds the
// function and r13 its argument.
asm(R"(
.text
.p2align 4
.hidden jpmhcEmuSwitchStack
.globl jpmhcEmuSwitchStack
.type jpmhcEmuSwitchStack,@function
jpmhcEmuSwitchStack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  popq %rcx
  jmpq *%rcx
.size jpmhcEmuSwitchStack,.-jpmhcEmuSwitchStack
.p2align 4
.hidden jpmhcEmuFiberStart
.globl jpmhcEmuFiberStart
.type jpmhcEmuFiberStart,@function
jpmhcEmuFiberStart:
  movq %r13, %rdi
  callq *%r12
  ud2
.size jpmhcEmuFiberStart,.-jpmhcEmuFiberStart
)");

extern "C" void jpmhcEmuSwitchStack(void **from, void *to);
extern "C" void jpmhcEmuFiberStart();

void FiberContext::start(void *low, size_t bytes, void (*function)(void *),
                         void *value) {
  sanitizer.start(low, bytes);
  entry = function;
  argument = value;
  // The frame that jpmhcEmuSwitchStack pops, lowest address first: r15, r14,
  // r13, r12, rbx, rbp, where to go. Once it is popped the stack is aligned to
  // 16 bytes, as before a call.
  auto top = reinterpret_cast<uintptr_t>(low) + bytes;
  auto *frame = reinterpret_cast<uint64_t *>(top & ~uintptr_t(15)) - 7;
  std::fill_n(frame, 7, 0);
  frame[2] = reinterpret_cast<uint64_t>(this);
  frame[3] = reinterpret_cast<uint64_t>(&FiberContext::run);
  frame[6] = reinterpret_cast<uint64_t>(&jpmhcEmuFiberStart);
  stackPointer = frame;
}

void FiberContext::jump(FiberContext &other) {
  jpmhcEmuSwitchStack(&stackPointer, other.stackPointer);
}

#else // any other machine: ucontext, slower by the system call it makes

void FiberContext::trampoline(unsigned high, unsigned low) {
  run(reinterpret_cast<FiberContext *>((uint64_t(high) << 32) | low));
}

void FiberContext::start(void *low, size_t bytes, void (*function)(void *),
                         void *value) {
  sanitizer.start(low, bytes);
  entry = function;
  argument = value;
  getcontext(&context);
  context.uc_stack.ss_sp = low;
  context.uc_stack.ss_size = bytes;
  context.uc_link = nullptr;
  auto self = reinterpret_cast<uint64_t>(this);
  makecontext(&context, reinterpret_cast<void (*)()>(&FiberContext::trampoline),
              2, unsigned(self >> 32), unsigned(self));
}

void FiberContext::jump(FiberContext &other) {
  swapcontext(&context, &other.context);
}

#endif

FiberStacks::~FiberStacks() {
  if (base)
    munmap(base, mapped);
}

llvm::Error FiberStacks::reserve(unsigned count, size_t bytes) {
  size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  size_t newStride = (bytes + page - 1) / page * page + page;
  if (base && newStride <= stride && count * stride <= mapped)
    return llvm::Error::success();
  if (base)
    munmap(base, mapped);
  base = nullptr;
  mapped = 0;
  size_t size = count * newStride;
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    return llvm::createStringError(
        std::error_code(errno, std::generic_category()),
        "cannot map " + llvm::Twine(size) +
            " bytes of stacks for the emulator's threads");
  base = static_cast<char *>(memory);
  mapped = size;
  stride = newStride;
  guardBytes = page;
  for (unsigned i = 0; i < count; ++i)
    mprotect(base + i * stride, page, PROT_NONE);
  return llvm::Error::success();
}

} // namespace jpmhc::emulator
