// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Who touched what, and what came before what.
//
// Order between the threads of a block is kept in vector clocks: every thread
// counts its synchronisations, and knows up to which count of every other
// thread everything has happened before now. Threads that leave a barrier share
// one vector, so that a barrier costs one copy, not one a thread. Blocks of a
// launch are never ordered.

#ifndef JPMHC_RUNTIME_EMULATOR_SHADOW_H
#define JPMHC_RUNTIME_EMULATOR_SHADOW_H

#include "Program.h"

#include "llvm/ADT/IntrusiveRefCntPtr.h"

#include <algorithm>
#include <cstdint>
#include <vector>

namespace jpmhc::emulator {

/// The most threads a block can have, as on the hardware.
constexpr uint32_t maxThreads = 1024;

/// An access in 32 bits: the thread in its block, and its clock at the time.
/// Clocks start at 1, so 0 is no access.
using Stamp = uint32_t;

constexpr uint32_t maxClock = (uint32_t(1) << 22) - 2;
inline Stamp makeStamp(uint32_t thread, uint32_t clock) {
  return clock << 10 | thread;
}
inline uint32_t threadOf(Stamp stamp) { return stamp & (maxThreads - 1); }
inline uint32_t clockOf(Stamp stamp) { return stamp >> 10; }

/// What some threads know of all: shared by those that learnt it together.
struct VectorClock : llvm::RefCountedBase<VectorClock> {
  explicit VectorClock(uint32_t threads) : clocks(threads, 0) {}
  VectorClock(const VectorClock &) = default;

  void merge(const VectorClock &other) {
    for (size_t i = 0; i < clocks.size(); ++i)
      clocks[i] = std::max(clocks[i], other.clocks[i]);
  }

  std::vector<uint32_t> clocks;
};
using ClockRef = llvm::IntrusiveRefCntPtr<VectorClock>;

/// The accesses that one granule of memory has seen, as far as they can still
/// matter. All zero is an untouched granule.
///
/// Reads (and atomics) not ordered with one another are kept as the first two
/// from different threads: whatever thread conflicts with the set then finds
/// one that is not its own.
struct Cell {
  uint32_t blockAndFlags; // linear block index + 1, and the flags below
  Stamp write;
  Stamp read[2];
  Stamp atomic[2];
  uint32_t writeSite, readSite;

  static constexpr uint32_t blockMask = (uint32_t(1) << 28) - 1;
  static constexpr uint32_t everRead = uint32_t(1) << 28;
  static constexpr uint32_t everWritten = uint32_t(1) << 29;
  static constexpr uint32_t readBefore = uint32_t(1)
                                         << 30; // by an earlier block
  static constexpr uint32_t atomicBefore = uint32_t(1)
                                           << 31; // by an earlier block

  /// Bytes between variables in shared memory.
  static constexpr Stamp gap = ~Stamp(0);
};

/// The thread that makes an access, and what it knows.
struct Accessor {
  uint32_t thread, clock;
  const uint32_t *known;

  Stamp stamp() const { return makeStamp(thread, clock); }
  /// Whether the access `other` happened before now.
  bool isAfter(Stamp other) const {
    uint32_t t = threadOf(other);
    return t == thread || known[t] >= clockOf(other);
  }
};

/// A pair of accesses that nothing orders; `site` 0 with `known` false where
/// the earlier one's place was not kept.
struct Conflict {
  enum Kind { None, Write, Read, Atomic } kind = None;
  uint32_t thread = 0;
  uint32_t site = 0;
  bool siteKnown = false;
  uint32_t block = 0; // linear index + 1; 0: the same block
};

/// Adds an access to `cell` by a thread of the block that owns it. Returns the
/// conflict it makes, in which case the cell is left as it was.
Conflict recordAccess(Cell &cell, AccessKind kind, const Accessor &accessor,
                      uint32_t site);

/// Makes linear block `block` the owner of `cell` before it records an access
/// there. Returns the conflict with an earlier block.
Conflict enterBlock(Cell &cell, uint32_t block, AccessKind kind);

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_SHADOW_H
