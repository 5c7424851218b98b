// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ThreadPool.cpp - The process's one thread pool ---------------------===//
#include "ThreadPool.h"

#include "Clock.h"

#include <algorithm>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <linux/futex.h>
#include <new>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

using namespace jpmhc::runtime;

// Parts of the gate's word.
static constexpr uint32_t kInsideMask = 0xff;
static constexpr uint32_t kOpen = 1 << 8;
static constexpr uint32_t kOwnerSleeps = 1 << 9;
static constexpr uint32_t kEpochShift = 10;
static_assert(ThreadPool::kMaxThreads <= kInsideMask);

/// How long a thread spins before it sleeps: longer than the serial code
/// between two kernels of a step, shorter than a scheduler's time slice.
static constexpr int64_t kSpinNs = 30000;
/// Pauses between looks at the clock.
static constexpr int kPausesPerLook = 16;

/// Kernels keep their temporaries on the stack.
static constexpr size_t kStackBytes = 8 << 20;

/// True in workers always, in a caller while its region runs.
static thread_local bool insideRegion = false;

//===----------------------------------------------------------------------===//
// Processor and system helpers
//===----------------------------------------------------------------------===//

static void pauseProcessor() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Rounding and flush-to-zero modes. Workers take over the caller's, for
/// otherwise results would depend on who computed a row.
static uint32_t getFloatControl() {
#if defined(__x86_64__)
  return _mm_getcsr() & ~0x3fu; // without the sticky exception flags
#elif defined(__aarch64__)
  uint64_t control;
  asm volatile("mrs %0, fpcr" : "=r"(control));
  return static_cast<uint32_t>(control);
#else
  return 0;
#endif
}

static void setFloatControl(uint32_t control) {
#if defined(__x86_64__)
  if (getFloatControl() != control)
    _mm_setcsr(control);
#elif defined(__aarch64__)
  if (getFloatControl() != control)
    asm volatile("msr fpcr, %0" : : "r"(uint64_t(control)));
#else
  (void)control;
#endif
}

static void futexWait(std::atomic<uint32_t> &word, uint32_t expected) {
  static_assert(sizeof(word) == sizeof(uint32_t));
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, expected, nullptr, nullptr, 0);
}

static void futexWake(std::atomic<uint32_t> &word, int count) {
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, count, nullptr, nullptr, 0);
}

/// Spins until its time is up.
namespace {
class Spinner {
public:
  /// Pauses; false when it is time to sleep.
  bool spin() {
    pauseProcessor();
    if (++pauses % kPausesPerLook != 0)
      return true;
    int64_t now = nowNs();
    if (deadline == 0)
      deadline = now + kSpinNs;
    return now < deadline;
  }

private:
  int pauses = 0;
  int64_t deadline = 0;
};
} // namespace

/// Processors that this process may run on.
static int countProcessors() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The number in the environment's value; 0 when it cannot be used.
static int parseNumThreads(const char *text) {
  char *end;
  long value = std::strtol(text, &end, 10);
  bool usable = end != text && *end == 0 && value >= 1 &&
                value <= ThreadPool::kMaxThreads;
  return usable ? static_cast<int>(value) : 0;
}

//===----------------------------------------------------------------------===//
// Making, sizing, forking
//===----------------------------------------------------------------------===//

ThreadPool &ThreadPool::get() {
  alignas(ThreadPool) static char storage[sizeof(ThreadPool)];
  static ThreadPool *pool = new (storage) ThreadPool();
  return *pool;
}

ThreadPool::ThreadPool() {
  int count = std::min(countProcessors(), kMaxThreads);
  if (const char *text = std::getenv("JPMHC_NUM_THREADS")) {
    if (int given = parseNumThreads(text))
      count = given;
    else
      badEnvironment = text;
  }
  numThreads.store(count);
  pthread_atfork(beforeFork, afterForkInParent, afterForkInChild);
}

void ThreadPool::acquire() {
  while (owned.exchange(true, std::memory_order_acquire))
    sched_yield();
}

void ThreadPool::release() { owned.store(false, std::memory_order_release); }

void ThreadPool::start() {
  if (insideRegion)
    return;
  acquire();
  startWorkers();
  release();
}

/// Brings the number of workers up to numThreads - 1. If the system gives
/// fewer, numThreads becomes what there is.
void ThreadPool::startWorkers() {
  int wanted = numThreads.load(std::memory_order_relaxed) - 1;
  if (numWorkers >= wanted)
    return;
  // Signals are for the program's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  while (numWorkers < wanted &&
         pthread_create(&workers[numWorkers], &attributes, workerMain,
                        reinterpret_cast<void *>(intptr_t(numWorkers + 1))) ==
             0)
    ++numWorkers;
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (numWorkers < wanted)
    numThreads.store(numWorkers + 1);
}

bool ThreadPool::setNumThreads(int count) {
  if (insideRegion)
    return false;
  acquire();
  numThreads.store(count);
  if (numWorkers > count - 1) {
    keep.store(count);
    signal.fetch_add(1);
    futexWake(signal, INT_MAX);
    while (numWorkers > count - 1)
      pthread_join(workers[--numWorkers], nullptr);
    keep.store(kMaxThreads);
  }
  release();
  return true;
}

/// A fork waits for a region in flight: a worker may hold a lock of the BLAS or
/// of malloc, which the child could never take.
void ThreadPool::beforeFork() {
  if (!insideRegion)
    get().acquire();
}

void ThreadPool::afterForkInParent() {
  if (!insideRegion)
    get().release();
}

void ThreadPool::afterForkInChild() {
  ThreadPool &pool = get();
  pool.numWorkers = 0;
  pool.gate.store(0);
  pool.sleepers.store(0);
  pool.release();
}

//===----------------------------------------------------------------------===//
// Workers
//===----------------------------------------------------------------------===//

void *ThreadPool::workerMain(void *argument) {
  int worker = static_cast<int>(reinterpret_cast<intptr_t>(argument));
  char name[16];
  snprintf(name, sizeof(name), "jpmhc-%d", worker);
  pthread_setname_np(pthread_self(), name);
  insideRegion = true;
  get().work(worker);
  return nullptr;
}

void ThreadPool::work(int worker) {
  uint32_t lastEpoch = UINT32_MAX; // no region has this number
  while (awaitRegion(worker, lastEpoch)) {
    setFloatControl(region.floatControl);
    runChunks(worker);
    uint32_t before = gate.fetch_sub(1, std::memory_order_acq_rel);
    if ((before & kOwnerSleeps) && (before & kInsideMask) == 1)
      futexWake(gate, 1);
  }
}

/// Goes into the next open region and sets its number; false to exit.
bool ThreadPool::awaitRegion(int worker, uint32_t &lastEpoch) {
  auto isNew = [&](uint32_t word) {
    return (word & kOpen) && (word >> kEpochShift) != lastEpoch;
  };
  Spinner spinner;
  while (true) {
    // Read before the checks: who opens a region or ends workers afterwards
    // changes it, and the wait returns at once.
    uint32_t seen = signal.load();
    if (worker >= keep.load())
      return false;
    uint32_t word = gate.load(std::memory_order_acquire);
    if (isNew(word)) {
      if (gate.compare_exchange_weak(word, word + 1,
                                     std::memory_order_acq_rel)) {
        lastEpoch = word >> kEpochShift;
        return true;
      }
      continue;
    }
    if (spinner.spin())
      continue;
    // Either the owner sees this sleeper, or the sleeper sees the open gate.
    sleepers.fetch_add(1);
    if (!isNew(gate.load()))
      futexWait(signal, seen);
    sleepers.fetch_sub(1);
    spinner = Spinner();
  }
}

/// Takes chunks, beginning with the thread's own part, until none is left.
void ThreadPool::runChunks(int thread) {
  int64_t chunks = region.chunks;
  int64_t unitsPerChunk = region.units / chunks;
  int64_t larger = region.units % chunks; // these have one unit more
  int64_t first = thread * chunks / region.threads;
  for (int64_t i = 0; i < chunks; ++i) {
    int64_t chunk = (first + i) % chunks;
    if (taken[chunk].load(std::memory_order_relaxed) ||
        taken[chunk].exchange(1, std::memory_order_relaxed))
      continue;
    int64_t unit = chunk * unitsPerChunk + std::min(chunk, larger);
    int64_t end = unit + unitsPerChunk + (chunk < larger);
    region.function(region.lo + unit * region.grain,
                    end == region.units ? region.hi
                                        : region.lo + end * region.grain,
                    region.user);
  }
}

//===----------------------------------------------------------------------===//
// Callers
//===----------------------------------------------------------------------===//

void ThreadPool::wakeWorkers(int count) {
  if (sleepers.load() == 0)
    return;
  signal.fetch_add(1);
  futexWake(signal, count);
}

/// Lets no more workers in and waits for those inside.
void ThreadPool::closeGate() {
  uint32_t word = gate.fetch_and(~kOpen, std::memory_order_acq_rel) & ~kOpen;
  Spinner spinner;
  while (word & kInsideMask) {
    if (!spinner.spin() &&
        gate.compare_exchange_strong(word, word | kOwnerSleeps,
                                     std::memory_order_acq_rel))
      futexWait(gate, word | kOwnerSleeps);
    word = gate.load(std::memory_order_acquire);
  }
}

void ThreadPool::parallelFor(int64_t lo, int64_t hi, int64_t grain,
                             jpmhcRangeFn function, void *user) {
  if (hi <= lo)
    return;
  grain = std::max<int64_t>(grain, 1);
  int64_t units = (hi - lo - 1) / grain + 1;
  if (units == 1 || insideRegion ||
      numThreads.load(std::memory_order_relaxed) == 1 ||
      owned.exchange(true, std::memory_order_acquire)) {
    function(lo, hi, user);
    return;
  }
  insideRegion = true;
  startWorkers();
  int threads = numWorkers + 1;
  int64_t chunks = std::min<int64_t>(units, threads * kChunksPerThread);
  region = {function,         user, lo, hi, grain, units, chunks, threads,
            getFloatControl()};
  for (int64_t chunk = 0; chunk < chunks; ++chunk)
    taken[chunk].store(0, std::memory_order_relaxed);
  gate.store(++epoch << kEpochShift | kOpen);
  wakeWorkers(static_cast<int>(std::min<int64_t>(numWorkers, units - 1)));
  runChunks(/*thread=*/0);
  closeGate();
  insideRegion = false;
  release();
}

//===----------------------------------------------------------------------===//
// C functions
//===----------------------------------------------------------------------===//

extern "C" int32_t jpmhcSetNumThreads(int32_t count) {
  char message[128];
  if (count < 1 || count > ThreadPool::kMaxThreads) {
    snprintf(message, sizeof(message), "expected 1 to %d threads, got %d",
             ThreadPool::kMaxThreads, count);
    return jpmhcFail(JPMHC_INVALID_ARGUMENT, message);
  }
  if (!ThreadPool::get().setNumThreads(count))
    return jpmhcFail(JPMHC_INVALID_ARGUMENT,
                     "expected the number of threads to be set outside "
                     "parallel regions, got a call from inside one");
  return JPMHC_OK;
}

extern "C" int32_t jpmhcGetNumThreads(void) {
  return ThreadPool::get().getNumThreads();
}

extern "C" void jpmhcParallelFor(int64_t lo, int64_t hi, int64_t grain,
                                 jpmhcRangeFn function, void *user) {
  ThreadPool::get().parallelFor(lo, hi, grain, function, user);
}
