// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Context.cpp - Memory accounting ------------------------------------===//
#include "Context.h"

#include <algorithm>
#include <new>

using namespace jpmhc::runtime;

void *ArenaList::allocate(Device &device, int64_t bytes) {
  Arena *arena = new (std::nothrow) Arena;
  if (!arena)
    return nullptr;
  void *memory = device.allocate(bytes);
  if (!memory) {
    delete arena;
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(mutex);
  *arena = {memory, bytes, first};
  first = arena;
  currentBytes += bytes;
  peakBytes = std::max(peakBytes, currentBytes);
  return memory;
}

bool ArenaList::free(Device &device, void *memory) {
  std::lock_guard<std::mutex> lock(mutex);
  for (Arena **link = &first; *link; link = &(*link)->next) {
    Arena *arena = *link;
    if (arena->memory != memory)
      continue;
    *link = arena->next;
    currentBytes -= arena->bytes;
    device.deallocate(memory, arena->bytes);
    delete arena;
    return true;
  }
  return false;
}

void ArenaList::freeAll(Device &device) {
  while (first)
    free(device, first->memory);
}

int64_t ArenaList::getCurrentBytes() const {
  std::lock_guard<std::mutex> lock(mutex);
  return currentBytes;
}

int64_t ArenaList::getPeakBytes() const {
  std::lock_guard<std::mutex> lock(mutex);
  return peakBytes;
}

void ArenaList::resetPeak() {
  std::lock_guard<std::mutex> lock(mutex);
  peakBytes = currentBytes;
}
