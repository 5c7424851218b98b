// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ThreadPool.h - The process's one thread pool -----------------------===//
//
// A region is cut into chunks. Each thread first takes those of its own part,
// so that a row stays with one core's cache from kernel to kernel, then any
// that are left: a worker that sleeps or was descheduled holds up nobody.
//
// The caller opens a region at the gate, a word that counts the workers inside.
// It works itself, closes the gate when no chunk is left, and waits only for
// the workers that went in. A worker reads the region only while inside, so one
// that comes late finds the gate closed and never sees a stale region. Workers
// spin for a short while after a region, then sleep on a futex.
//
// One caller at a time owns the pool; a region called from inside a region, or
// while another thread owns the pool, runs serially in its caller. After a fork
// the child has no workers and starts new ones when it needs them.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_RUNTIME_THREADPOOL_H
#define JPMHC_RUNTIME_THREADPOOL_H

#include "jpmhc/Runtime/Launch.h"

#include <atomic>
#include <cstdint>
#include <pthread.h>

namespace jpmhc::runtime {

class ThreadPool {
public:
  /// Most threads; the BLAS has buffers for as many concurrent calls.
  static constexpr int kMaxThreads = 128;

  /// The one pool, never destroyed: workers may outlive static destructors.
  static ThreadPool &get();

  /// See jpmhcParallelFor.
  void parallelFor(int64_t lo, int64_t hi, int64_t grain, jpmhcRangeFn function,
                   void *user);

  int getNumThreads() const { return numThreads.load(); }
  /// False from inside a region. 1 <= count <= kMaxThreads.
  bool setNumThreads(int count);

  /// Starts the workers now instead of at the first region.
  void start();

  /// Null, or the value of JPMHC_NUM_THREADS that could not be used.
  const char *getBadEnvironment() const { return badEnvironment; }

private:
  struct Region {
    jpmhcRangeFn function;
    void *user;
    int64_t lo, hi, grain;
    /// Number of grains, of chunks, and of threads the chunks are dealt to.
    int64_t units, chunks;
    int threads;
    uint32_t floatControl;
  };

  static constexpr int kChunksPerThread = 4;
  static constexpr int kMaxChunks = kMaxThreads * kChunksPerThread;

  ThreadPool();
  void startWorkers();
  static void *workerMain(void *argument);
  void work(int worker);
  bool awaitRegion(int worker, uint32_t &lastEpoch);
  void runChunks(int thread);
  void closeGate();
  void wakeWorkers(int count);
  void acquire();
  void release();

  static void beforeFork();
  static void afterForkInParent();
  static void afterForkInChild();

  std::atomic<int> numThreads;
  const char *badEnvironment = nullptr;

  /// Set while a caller owns the pool; guards everything below.
  std::atomic<bool> owned{false};
  int numWorkers = 0;
  pthread_t workers[kMaxThreads];
  uint32_t epoch = 0;

  /// The gate: epoch, waiting and open bits, number of workers inside.
  alignas(64) std::atomic<uint32_t> gate{0};
  alignas(64) Region region{};
  alignas(64) std::atomic<uint8_t> taken[kMaxChunks];
  /// Sleeping: count of sleepers, and the futex word they wait on.
  alignas(64) std::atomic<int> sleepers{0};
  std::atomic<uint32_t> signal{0};
  /// Workers numbered from here on are to exit.
  std::atomic<int> keep{kMaxThreads};
};

} // namespace jpmhc::runtime

#endif // JPMHC_RUNTIME_THREADPOOL_H
