// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Clock.h - Monotonic time -------------------------------------------===//
#ifndef JPMHC_RUNTIME_CLOCK_H
#define JPMHC_RUNTIME_CLOCK_H

#include <cstdint>
#include <ctime>

namespace jpmhc::runtime {

/// Nanoseconds of the monotonic clock.
inline int64_t nowNs() {
  timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return int64_t(time.tv_sec) * 1000000000 + time.tv_nsec;
}

} // namespace jpmhc::runtime

#endif // JPMHC_RUNTIME_CLOCK_H
