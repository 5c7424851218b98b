// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The checks behind every load, store and atomic.

#include "Block.h"

#include "llvm/ADT/StringExtras.h"

#include <algorithm>

using namespace llvm;

namespace jpmhc::emulator {

static StringRef nameAccess(AccessKind kind) {
  switch (kind) {
  case AccessKind::Load:
    return "load";
  case AccessKind::Store:
    return "store";
  case AccessKind::AtomicLoad:
    return "atomic load";
  case AccessKind::AtomicStore:
    return "atomic store";
  case AccessKind::AtomicUpdate:
    return "atomic update";
  }
  return "";
}

static std::string describeAccess(const Site &site, uint64_t bytes) {
  return (nameAccess(site.kind) + " of " + Twine(bytes) +
          (bytes == 1 ? " byte" : " bytes"))
      .str();
}

static std::string hex(uintptr_t address) {
  return "0x" + utohexstr(address, /*LowerCase=*/true);
}

void BlockRunner::access(uintptr_t address, uint64_t bytes,
                         uint32_t siteIndex) {
  if (bytes == 0)
    return;
  const Site &site = program.sites[siteIndex];
  Thread &thread = threads[running];
  if (++thread.accesses > state.options.maxAccesses &&
      state.options.maxAccesses)
    fail(FaultKind::AccessLimit, siteIndex, [&] {
      return "more than " + utostr(state.options.maxAccesses) +
             " accesses by one thread";
    });
  if (address % site.align != 0)
    fail(FaultKind::Misaligned, siteIndex, [&] {
      return describeAccess(site, bytes) + " at " + hex(address) +
             ", expected a multiple of " + utostr(site.align);
    });
  uintptr_t offset = address - reinterpret_cast<uintptr_t>(shared);
  if (site.space == Space::Shared ||
      (site.space == Space::Generic && offset < sharedBytes))
    accessShared(offset, bytes, site, siteIndex);
  else if (site.space == Space::Global || !stacks.contains(address))
    accessGlobal(address, bytes, site, siteIndex);
  // An atomic may wait for another thread's: let the others go on.
  if (isAtomic(site.kind))
    yield();
}

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

/// "byte 12 of shared variable 's'", or how far off the nearest it is.
std::string BlockRunner::nameShared(uint64_t offset) const {
  auto within = [&](StringRef name, uint64_t begin) {
    return ("byte " + Twine(offset - begin) + " of " + name).str();
  };
  for (const SharedVariable &variable : program.shared)
    if (offset - variable.offset < variable.bytes)
      return within("shared variable '" + variable.name + "'", variable.offset);
  if (offset - program.sharedExtent < state.launch.dynamicSharedBytes)
    return within("dynamic shared memory", program.sharedExtent);

  std::string nearest = "byte " + utostr(offset) + " of shared memory";
  uint64_t distance = UINT64_MAX;
  auto consider = [&](StringRef name, uint64_t end, uint64_t bytes) {
    if (offset >= end && offset - end < distance) {
      distance = offset - end;
      nearest = (Twine(distance) + " bytes past the end of " + name + " (" +
                 Twine(bytes) + " bytes)")
                    .str();
    }
  };
  for (const SharedVariable &variable : program.shared)
    consider("shared variable '" + variable.name + "'",
             variable.offset + variable.bytes, variable.bytes);
  consider("dynamic shared memory",
           program.sharedExtent + state.launch.dynamicSharedBytes,
           state.launch.dynamicSharedBytes);
  return nearest;
}

/// " meets the write by thread (3,0,0) at file:line, with no barrier between".
std::string BlockRunner::describeConflict(const Conflict &conflict) const {
  std::string text = " meets the ";
  text += conflict.kind == Conflict::Write  ? "write"
          : conflict.kind == Conflict::Read ? "read"
                                            : "atomic update";
  text += " by ";
  if (conflict.block)
    text += "block " + nameBlock(conflict.block - 1) + ", ";
  text += "thread " + nameThread(conflict.thread);
  if (conflict.siteKnown)
    text += at(conflict.site);
  return text + (conflict.block ? "; blocks are not ordered"
                                : " with no barrier between them");
}

void BlockRunner::accessShared(uintptr_t offset, uint64_t bytes,
                               const Site &site, uint32_t siteIndex) {
  if (offset >= sharedBytes || bytes > sharedBytes - offset)
    fail(FaultKind::OutOfBounds, siteIndex, [&] {
      return describeAccess(site, bytes) + " at " + nameShared(offset);
    });
  uint64_t first = offset / program.granule,
           last = (offset + bytes - 1) / program.granule;
  Accessor by = accessor();
  for (uint64_t i = first; i <= last; ++i) {
    Cell &cell = sharedCells[i];
    uint64_t byte = std::max<uint64_t>(i * program.granule, offset);
    if (cell.write == Cell::gap)
      fail(FaultKind::OutOfBounds, siteIndex, [&] {
        return describeAccess(site, bytes) + " at " + nameShared(byte);
      });
    if (reads(site.kind) && !(cell.blockAndFlags & Cell::everWritten))
      fail(FaultKind::UninitializedShared, siteIndex, [&] {
        return describeAccess(site, bytes) + " at " + nameShared(byte) +
               ", which nothing has written";
      });
    if (state.options.checkRaces)
      if (Conflict conflict = recordAccess(cell, site.kind, by, siteIndex);
          conflict.kind)
        fail(FaultKind::DataRace, siteIndex, [&] {
          return describeAccess(site, bytes) + " at " + nameShared(byte) +
                 describeConflict(conflict);
        });
    if (writes(site.kind))
      cell.blockAndFlags |= Cell::everWritten;
  }
}

//===----------------------------------------------------------------------===//
// Global memory
//===----------------------------------------------------------------------===//

std::string BlockRunner::describeUnregistered(uintptr_t address) const {
  const BufferState *nearest = nullptr;
  uint64_t distance = UINT64_MAX;
  for (const BufferState &buffer : state.buffers) {
    uint64_t d = address < buffer.base
                     ? buffer.base - address
                     : address - std::min(address, buffer.base + buffer.bytes);
    if (d < distance) {
      distance = d;
      nearest = &buffer;
    }
  }
  // Further off than this, a name would mislead.
  if (!nearest || distance > std::max<uint64_t>(nearest->bytes, 1 << 20))
    return " at " + hex(address) + ", in no registered buffer";
  std::string name =
      "buffer '" + nearest->name + "' (" + utostr(nearest->bytes) + " bytes)";
  if (address < nearest->base)
    return " at " + hex(address) + ", " + utostr(distance) + " bytes before " +
           name;
  return " at byte " + utostr(address - nearest->base) + " of " + name;
}

const BufferState *BlockRunner::findBuffer(uintptr_t address, uint64_t bytes,
                                           uint32_t site) {
  auto holds = [&](const BufferState &buffer) {
    return address - buffer.base < buffer.bytes &&
           bytes <= buffer.bytes - (address - buffer.base);
  };
  if (state.buffers.empty())
    return nullptr;
  uint32_t &remembered = siteBuffer[site];
  if (holds(state.buffers[remembered]))
    return &state.buffers[remembered];
  auto after =
      std::upper_bound(state.buffers.begin(), state.buffers.end(), address,
                       [](uintptr_t value, const BufferState &buffer) {
                         return value < buffer.base;
                       });
  if (after == state.buffers.begin() || !holds(*std::prev(after)))
    return nullptr;
  remembered = std::prev(after) - state.buffers.begin();
  return &state.buffers[remembered];
}

/// Adds an access to `count` cells of `buffer`, and the bytes that are new.
Conflict BlockRunner::recordGlobal(const BufferState &buffer, Traffic &traffic,
                                   uint64_t first, uint64_t count,
                                   const Site &site, uint32_t siteIndex) {
  Accessor by = accessor();
  for (uint64_t i = first; i < first + count; ++i) {
    Cell &cell = buffer.cells[i];
    if (state.options.checkRaces) {
      if (Conflict conflict = enterBlock(cell, linearBlock, site.kind);
          conflict.kind)
        return conflict;
      if (Conflict conflict = recordAccess(cell, site.kind, by, siteIndex);
          conflict.kind)
        return conflict;
    }
    if (reads(site.kind) && !(cell.blockAndFlags & Cell::everRead)) {
      cell.blockAndFlags |= Cell::everRead;
      traffic.uniqueRead += program.granule;
    }
    if (writes(site.kind) && !(cell.blockAndFlags & Cell::everWritten)) {
      cell.blockAndFlags |= Cell::everWritten;
      traffic.uniqueWritten += program.granule;
    }
  }
  return {};
}

void BlockRunner::accessGlobal(uintptr_t address, uint64_t bytes,
                               const Site &site, uint32_t siteIndex) {
  const BufferState *buffer = findBuffer(address, bytes, siteIndex);
  if (!buffer)
    fail(FaultKind::OutOfBounds, siteIndex, [&] {
      return describeAccess(site, bytes) + describeUnregistered(address);
    });
  if (writes(site.kind) && !buffer->writable)
    fail(FaultKind::ReadOnlyWrite, siteIndex, [&] {
      return describeAccess(site, bytes) + " at byte " +
             utostr(address - buffer->base) + " of buffer '" + buffer->name +
             "', which is read-only";
    });
  Traffic &traffic = counts.buffers[buffer - state.buffers.data()];
  if (reads(site.kind))
    traffic.requestedRead += bytes;
  if (writes(site.kind))
    traffic.requestedWritten += bytes;
  if (state.options.countSectors)
    countSectors(address, bytes, writes(site.kind), siteIndex);

  // Cells are locked in stripes of 64: what a vector access touches is one or
  // two of them.
  uint64_t next = (address - buffer->base) / program.granule;
  uint64_t end = (address - buffer->base + bytes - 1) / program.granule + 1;
  Conflict conflict;
  while (next < end && !conflict.kind) {
    uint64_t count = std::min(end, (next / 64 + 1) * 64) - next;
    std::atomic_flag *lock = nullptr;
    if (state.locks) {
      lock =
          &state.locks[(buffer->base / 64 + next / 64) % LaunchState::stripes];
      while (lock->test_and_set(std::memory_order_acquire))
        ;
    }
    conflict = recordGlobal(*buffer, traffic, next, count, site, siteIndex);
    if (lock)
      lock->clear(std::memory_order_release);
    next += count;
  }
  if (conflict.kind)
    fail(FaultKind::DataRace, siteIndex, [&] {
      return describeAccess(site, bytes) + " at byte " +
             utostr(address - buffer->base) + " of buffer '" + buffer->name +
             "'" + describeConflict(conflict);
    });
}

//===----------------------------------------------------------------------===//
// Sectors
//===----------------------------------------------------------------------===//

/// Notes the 32-byte sectors of an access. The n-th time that the threads of a
/// warp come to an instruction counts as one execution of it by the warp.
void BlockRunner::countSectors(uintptr_t address, uint64_t bytes, bool written,
                               uint32_t site) {
  uint32_t occurrence =
      occurrences[size_t(running) * program.sites.size() + site]++;
  for (uint64_t sector = address / 32; sector <= (address + bytes - 1) / 32;
       ++sector)
    touches.push_back({site, occurrence, running / 32, written, sector});
}

void BlockRunner::finishSectors() {
  auto request = [](const SectorTouch &t) {
    return std::tie(t.warp, t.site, t.occurrence);
  };
  auto key = [&](const SectorTouch &t) {
    return std::tie(t.warp, t.site, t.occurrence, t.sector);
  };
  std::sort(touches.begin(), touches.end(),
            [&](const SectorTouch &a, const SectorTouch &b) {
              return key(a) < key(b);
            });
  for (size_t i = 0; i < touches.size(); ++i) {
    const SectorTouch &touch = touches[i];
    bool newRequest = i == 0 || request(touches[i - 1]) != request(touch);
    bool newSector = i == 0 || key(touches[i - 1]) != key(touch);
    (touch.written ? counts.writeRequests : counts.readRequests) += newRequest;
    (touch.written ? counts.writtenSectors : counts.readSectors) += newSector;
  }
}

} // namespace jpmhc::emulator
