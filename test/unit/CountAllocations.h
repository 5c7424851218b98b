// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Counts every allocation of the process: these functions stand before the C
// library's. For one source file of a program; not under a sanitizer, which
// has allocators of its own.
#ifndef JPMHC_TEST_UNIT_COUNTALLOCATIONS_H
#define JPMHC_TEST_UNIT_COUNTALLOCATIONS_H

#include <atomic>
#include <cstdint>
#include <cstdlib>

static std::atomic<int64_t> allocations{0};

extern "C" {
void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

__attribute__((visibility("default"))) void *malloc(size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
__attribute__((visibility("default"))) void *calloc(size_t count,
                                                    size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
__attribute__((visibility("default"))) void *realloc(void *memory,
                                                     size_t bytes) {
  ++allocations;
  return __libc_realloc(memory, bytes);
}
__attribute__((visibility("default"))) void *memalign(size_t alignment,
                                                      size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
__attribute__((visibility("default"))) void *aligned_alloc(size_t alignment,
                                                           size_t bytes) {
  return memalign(alignment, bytes);
}
__attribute__((visibility("default"))) int
posix_memalign(void **memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory ? 0 : 12; // ENOMEM
}
}

/// Allocations of ten steps once every worker has run. A worker makes its
/// thread-local storage of the libraries when it first runs, and which step
/// that is depends on the scheduler: rounds of ten steps are repeated until one
/// allocates nothing, so code that allocates in every step always shows.
template <typename Step> int64_t allocationsOfTenSteps(Step step) {
  int64_t counted = 0;
  for (int round = 0; round < 20; ++round) {
    int64_t before = allocations;
    for (int i = 0; i < 10; ++i)
      step();
    counted = allocations - before;
    if (counted == 0)
      break;
  }
  return counted;
}

#endif // JPMHC_TEST_UNIT_COUNTALLOCATIONS_H
