// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- CpuDevice.cpp - The launch ABI on the process's threads ------------===//
//
// Every call is done when it returns; streams are tokens and events are times.
//
//===----------------------------------------------------------------------===//
#include "CpuDevice.h"

#include "Clock.h"
#include "Gemm.h"
#include "ThreadPool.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <sys/mman.h>

// GCC defines __SANITIZE_ADDRESS__, clang has a feature.
#ifndef __has_feature
#define __has_feature(name) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define JPMHC_ASAN 1
#else
#define JPMHC_ASAN 0
#endif

using namespace jpmhc::runtime;

static constexpr int64_t kAlignment = 64;
static constexpr int64_t kPageBytes = 4096;
static constexpr int64_t kHugePageBytes = 2 << 20;
/// Bytes of a copy or fill that are worth a thread.
static constexpr int64_t kCopyGrain = 256 << 10;

namespace {

struct Event {
  int64_t time = -1;
};

struct LaunchTask {
  jpmhcKernelFn function;
  void **args;
};

struct CopyTask {
  char *target;
  const char *source;
};

struct FillTask {
  char *target;
  int value;
};

class CpuDevice : public Device {
public:
  int32_t launch(const jpmhcKernel &kernel, void *stream, int64_t lo,
                 int64_t hi, int64_t grain, void **args) override;
  int32_t gemm(const GemmCall &call, void *stream) override;
  int32_t copy(void *target, const void *source, int64_t bytes,
               void *stream) override;
  int32_t fill(void *target, int32_t value, int64_t bytes,
               void *stream) override;

  void *allocate(int64_t bytes) override;
  void deallocate(void *memory, int64_t bytes) override;

  int32_t createStream(void **stream) override;
  int32_t destroyStream(void *stream) override;
  int32_t synchronize(void *) override { return JPMHC_OK; }
  int32_t createEvent(void **event) override;
  int32_t destroyEvent(void *event) override;
  int32_t recordEvent(void *event, void *stream) override;
  int32_t waitEvent(void *, void *) override { return JPMHC_OK; }
  int32_t elapsed(void *start, void *end, int64_t *nanoseconds) override;
};

} // namespace

//===----------------------------------------------------------------------===//
// Work
//===----------------------------------------------------------------------===//

int32_t CpuDevice::launch(const jpmhcKernel &kernel, void *, int64_t lo,
                          int64_t hi, int64_t grain, void **args) {
  if (!kernel.function)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected kernel '%s' to have a CPU entry, got null",
                kernel.name);
  LaunchTask task{kernel.function, args};
  ThreadPool::get().parallelFor(
      lo, hi, grain,
      [](int64_t begin, int64_t end, void *user) {
        auto *task = static_cast<LaunchTask *>(user);
        task->function(begin, end, task->args);
      },
      &task);
  return JPMHC_OK;
}

int32_t CpuDevice::gemm(const GemmCall &call, void *) {
  if (call.inputType != JPMHC_F32 || call.outputType != JPMHC_F32)
    return fail(JPMHC_UNSUPPORTED,
                "expected a product of f32 into f32, got %s into %s",
                getTypeName(call.inputType), getTypeName(call.outputType));
  int64_t largest =
      std::max({call.m, call.n, call.k, call.lda, call.ldb, call.ldc});
  if (largest > INT32_MAX)
    return fail(JPMHC_UNSUPPORTED,
                "expected sizes and leading dimensions of a product below "
                "2^31, got %lld",
                static_cast<long long>(largest));
  runGemm(call);
  return JPMHC_OK;
}

int32_t CpuDevice::copy(void *target, const void *source, int64_t bytes,
                        void *) {
  CopyTask task{static_cast<char *>(target), static_cast<const char *>(source)};
  ThreadPool::get().parallelFor(
      0, bytes, kCopyGrain,
      [](int64_t begin, int64_t end, void *user) {
        auto *task = static_cast<CopyTask *>(user);
        std::memcpy(task->target + begin, task->source + begin, end - begin);
      },
      &task);
  return JPMHC_OK;
}

int32_t CpuDevice::fill(void *target, int32_t value, int64_t bytes, void *) {
  FillTask task{static_cast<char *>(target), value};
  ThreadPool::get().parallelFor(
      0, bytes, kCopyGrain,
      [](int64_t begin, int64_t end, void *user) {
        auto *task = static_cast<FillTask *>(user);
        std::memset(task->target + begin, task->value, end - begin);
      },
      &task);
  return JPMHC_OK;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static int64_t roundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// Small blocks come from the heap, and all of them under AddressSanitizer,
/// which watches only the heap's edges.
static bool isOnHeap(int64_t bytes) {
  return JPMHC_ASAN || bytes < kHugePageBytes;
}

void *CpuDevice::allocate(int64_t bytes) {
  if (isOnHeap(bytes))
    return std::aligned_alloc(kAlignment, bytes);
  // Map one huge page more and give back what lies outside the aligned part.
  int64_t mapped = roundUp(bytes, kPageBytes);
  void *whole = mmap(nullptr, mapped + kHugePageBytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (whole == MAP_FAILED)
    return nullptr;
  char *begin = static_cast<char *>(whole);
  int64_t head = roundUp(reinterpret_cast<intptr_t>(begin), kHugePageBytes) -
                 reinterpret_cast<intptr_t>(begin);
  if (head > 0)
    munmap(begin, head);
  if (head < kHugePageBytes)
    munmap(begin + head + mapped, kHugePageBytes - head);
  madvise(begin + head, mapped, MADV_HUGEPAGE);
  return begin + head;
}

void CpuDevice::deallocate(void *memory, int64_t bytes) {
  if (isOnHeap(bytes))
    std::free(memory);
  else
    munmap(memory, roundUp(bytes, kPageBytes));
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

int32_t CpuDevice::createStream(void **stream) {
  *stream = new (std::nothrow) char;
  return *stream ? JPMHC_OK
                 : fail(JPMHC_OUT_OF_MEMORY, "no memory for a stream");
}

int32_t CpuDevice::destroyStream(void *stream) {
  delete static_cast<char *>(stream);
  return JPMHC_OK;
}

int32_t CpuDevice::createEvent(void **event) {
  *event = new (std::nothrow) Event;
  return *event ? JPMHC_OK
                : fail(JPMHC_OUT_OF_MEMORY, "no memory for an event");
}

int32_t CpuDevice::destroyEvent(void *event) {
  delete static_cast<Event *>(event);
  return JPMHC_OK;
}

int32_t CpuDevice::recordEvent(void *event, void *) {
  static_cast<Event *>(event)->time = nowNs();
  return JPMHC_OK;
}

int32_t CpuDevice::elapsed(void *start, void *end, int64_t *nanoseconds) {
  int64_t from = static_cast<Event *>(start)->time;
  int64_t to = static_cast<Event *>(end)->time;
  if (from < 0 || to < 0)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected two recorded events, got one never recorded");
  *nanoseconds = to - from;
  return JPMHC_OK;
}

//===----------------------------------------------------------------------===//
// Making
//===----------------------------------------------------------------------===//

Device *jpmhc::runtime::createCpuDevice(int32_t *status) {
  ThreadPool &pool = ThreadPool::get();
  if (const char *text = pool.getBadEnvironment()) {
    *status = fail(JPMHC_INVALID_ARGUMENT,
                   "expected JPMHC_NUM_THREADS to be 1 to %d, got '%s'",
                   ThreadPool::kMaxThreads, text);
    return nullptr;
  }
  *status = loadBlas();
  if (*status != JPMHC_OK)
    return nullptr;
  pool.start();
  warmUpBlas();
  Device *device = new (std::nothrow) CpuDevice;
  if (!device)
    *status = fail(JPMHC_OUT_OF_MEMORY, "no memory for a device");
  return device;
}
