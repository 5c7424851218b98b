// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Parallel.cpp - Work over chunks, with progress and a stop ----------===//
#include "jpmhc/Spectral/Parallel.h"

#include "jpmhc/Runtime/Launch.h"

#include <algorithm>

using namespace jpmhc::spectral;

static constexpr std::chrono::milliseconds kLook{100};

bool Progress::advance(int64_t steps) {
  int64_t now = done.fetch_add(steps, std::memory_order_relaxed) + steps;
  if (observer && std::this_thread::get_id() == owner) {
    auto time = std::chrono::steady_clock::now();
    if (time - last >= kLook) {
      last = time;
      if (!observer(now, total))
        stopped.store(true, std::memory_order_relaxed);
    }
  }
  return !isStopped();
}

Status Progress::finish() {
  if (!isStopped() && observer && !observer(total, total))
    stopped.store(true);
  return isStopped() ? Status::interrupted() : Status::ok();
}

namespace {
struct Work {
  int64_t count, chunk;
  const std::function<void(int64_t, int64_t, Progress &)> &body;
  Progress progress;
};
} // namespace

static void runChunks(int64_t lo, int64_t hi, void *user) {
  Work &work = *static_cast<Work *>(user);
  for (int64_t i = lo; i < hi && !work.progress.isStopped(); ++i)
    work.body(i * work.chunk, std::min(work.count, (i + 1) * work.chunk),
              work.progress);
}

Status jpmhc::spectral::forEachChunk(
    int64_t count, int64_t chunk, const Observer &observer,
    const std::function<void(int64_t, int64_t, Progress &)> &body) {
  Work work{count, chunk, body, Progress(count, observer)};
  jpmhcParallelFor(0, (count + chunk - 1) / chunk, 1, runChunks, &work);
  return work.progress.finish();
}
