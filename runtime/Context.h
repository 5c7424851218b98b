// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Context.h - A device with its memory accounting and trace ----------===//
#ifndef JPMHC_RUNTIME_CONTEXT_H
#define JPMHC_RUNTIME_CONTEXT_H

#include "jpmhc/Runtime/Device.h"

#include <atomic>
#include <cstdint>
#include <mutex>

namespace jpmhc::runtime {

/// The arenas of a context: there are few, and they live long.
class ArenaList {
public:
  /// bytes >= 1, a multiple of 64; null when there is no memory.
  void *allocate(Device &device, int64_t bytes);
  /// False when the memory is not in the list.
  bool free(Device &device, void *memory);
  void freeAll(Device &device);

  int64_t getCurrentBytes() const;
  int64_t getPeakBytes() const;
  void resetPeak();

private:
  struct Arena {
    void *memory;
    int64_t bytes;
    Arena *next;
  };

  mutable std::mutex mutex;
  Arena *first = nullptr;
  int64_t currentBytes = 0;
  int64_t peakBytes = 0;
};

} // namespace jpmhc::runtime

struct jpmhcContext {
  explicit jpmhcContext(jpmhc::runtime::Device *device) : device(device) {}
  ~jpmhcContext() {
    arenas.freeAll(*device);
    delete device;
  }

  jpmhc::runtime::Device *const device;
  jpmhc::runtime::ArenaList arenas;
  std::atomic<jpmhcTraceFn> trace{nullptr};
  std::atomic<void *> traceUser{nullptr};
  std::atomic<bool> checksFinite{false};
};

#endif // JPMHC_RUNTIME_CONTEXT_H
