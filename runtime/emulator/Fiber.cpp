// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Fiber.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JPMHC_ASAN_FIBERS 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define JPMHC_ASAN_FIBERS 1
#endif
#ifdef JPMHC_ASAN_FIBERS
#include <sanitizer/common_interface_defs.h>
#endif

namespace jpmhc::emulator {

// AddressSanitizer is told of every switch: before it of the stack gone to,
// after it that it has happened.
#ifdef JPMHC_ASAN_FIBERS
namespace {
/// The host thread's own stack, learnt when its first fiber is entered.
thread_local const void *hostStackLow = nullptr;
thread_local size_t hostStackBytes = 0;
} // namespace

static void beforeSwitch(void **fakeStack, const void *low, size_t bytes) {
  __sanitizer_start_switch_fiber(fakeStack, bytes ? low : hostStackLow,
                                 bytes ? bytes : hostStackBytes);
}
static void afterSwitch(void *fakeStack) {
  __sanitizer_finish_switch_fiber(fakeStack, nullptr, nullptr);
}
static void afterFirstSwitch() {
  const void *low;
  size_t bytes;
  __sanitizer_finish_switch_fiber(nullptr, &low, &bytes);
  if (!hostStackBytes) {
    hostStackLow = low;
    hostStackBytes = bytes;
  }
}
#else
static void beforeSwitch(void **, const void *, size_t) {}
static void afterSwitch(void *) {}
static void afterFirstSwitch() {}
#endif

void FiberContext::run(FiberContext *self) {
  afterFirstSwitch();
  self->entry(self->argument);
}

void FiberContext::switchTo(FiberContext &other) {
  void *fakeStack = nullptr;
  beforeSwitch(&fakeStack, other.stackLow, other.stackBytes);
  jump(other);
  afterSwitch(fakeStack);
}

void FiberContext::finishInto(FiberContext &other) {
  beforeSwitch(nullptr, other.stackLow, other.stackBytes);
  jump(other);
  __builtin_unreachable();
}

#if defined(__x86_64__)

// jpmhcEmuSwitchStack(void **from, void *to): keeps the registers that a callee
// must preserve, and the floating-point control words, on the old stack, and
// takes those of the new one.
//
// jpmhcEmuFiberStart: where a new fiber's first switch "returns" to; r12 holds
// the function and r13 its argument.
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
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
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
  stackLow = low;
  stackBytes = bytes;
  entry = function;
  argument = value;
  // The frame that jpmhcEmuSwitchStack pops, lowest address first: control
  // words, r15, r14, r13, r12, rbx, rbp, return address. The stack is 16-byte
  // aligned once it is popped, as before a call.
  auto top = reinterpret_cast<uintptr_t>(low) + bytes;
  auto *frame = reinterpret_cast<uint64_t *>((top & ~uintptr_t(15)) - 16) - 8;
  uint32_t control[2] = {0, 0};
  asm("stmxcsr %0\n\tfnstcw %1" : "=m"(control[0]), "=m"(control[1]));
  std::memset(frame, 0, 8 * sizeof(uint64_t));
  std::memcpy(&frame[0], control, sizeof(control));
  frame[3] = reinterpret_cast<uint64_t>(this);
  frame[4] = reinterpret_cast<uint64_t>(&FiberContext::run);
  frame[7] = reinterpret_cast<uint64_t>(&jpmhcEmuFiberStart);
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
  stackLow = low;
  stackBytes = bytes;
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
