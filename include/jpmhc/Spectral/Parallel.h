// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Parallel.h - Work over chunks, with progress and a stop ---*- C++
//-*-===//
//
// Chunks have a fixed size, so that what is warm started within a chunk does
// not depend on the number of threads. Between two points the thread that
// called asks the observer whether to go on; the others see its answer.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_SPECTRAL_PARALLEL_H
#define JPMHC_SPECTRAL_PARALLEL_H

#include "jpmhc/Spectral/Status.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>

namespace jpmhc::spectral {

/// Told how many of `total` steps are done; false stops the computation. Called
/// on the thread that started it, about ten times a second.
using Observer = std::function<bool(int64_t done, int64_t total)>;

/// Counts steps of all threads and passes the caller's wish to stop to them.
class Progress {
public:
  Progress(int64_t total, const Observer &observer)
      : total(total), observer(observer), owner(std::this_thread::get_id()),
        last(std::chrono::steady_clock::now()) {}

  /// Call after each step; false when the work is to end.
  bool advance(int64_t steps = 1);
  bool isStopped() const { return stopped.load(std::memory_order_relaxed); }
  /// Tells the observer that all is done.
  Status finish();

private:
  int64_t total;
  const Observer &observer;
  std::thread::id owner;
  std::chrono::steady_clock::time_point last;
  std::atomic<int64_t> done{0};
  std::atomic<bool> stopped{false};
};

/// Runs `body(lo, hi, progress)` for each chunk of [0, count), on the process's
/// thread pool. The body calls `progress.advance()` after each element.
Status
forEachChunk(int64_t count, int64_t chunk, const Observer &observer,
             const std::function<void(int64_t, int64_t, Progress &)> &body);

} // namespace jpmhc::spectral

#endif // JPMHC_SPECTRAL_PARALLEL_H
