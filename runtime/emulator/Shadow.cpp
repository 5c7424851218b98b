// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "Shadow.h"

namespace jpmhc::emulator {

/// Adds an access to those that are not ordered before it; the latter it stands
/// for from now on. Returns whether it went to the first slot.
static bool keep(Stamp (&slots)[2], const Accessor &accessor) {
  for (Stamp &slot : slots)
    if (slot && accessor.isAfter(slot))
      slot = 0;
  for (Stamp &slot : slots)
    if (slot == 0) {
      slot = accessor.stamp();
      return &slot == slots;
    }
  return false;
}

static Conflict conflictWith(Conflict::Kind kind, Stamp stamp, uint32_t site,
                             bool siteKnown) {
  return {kind, threadOf(stamp), site, siteKnown, 0};
}

/// The conflict with one of `slots`. The place of a read is kept for slot 0.
static Conflict findUnordered(Conflict::Kind kind, const Stamp (&slots)[2],
                              const Accessor &accessor, uint32_t site,
                              bool siteKnown) {
  for (unsigned i = 0; i < 2; ++i)
    if (slots[i] && !accessor.isAfter(slots[i]))
      return conflictWith(kind, slots[i], site, siteKnown && i == 0);
  return {};
}

Conflict recordAccess(Cell &cell, AccessKind kind, const Accessor &accessor,
                      uint32_t site) {
  if (cell.write && !accessor.isAfter(cell.write))
    return conflictWith(Conflict::Write, cell.write, cell.writeSite, true);
  if (kind == AccessKind::AtomicLoad)
    return {}; // may run beside atomic writes
  if (!isAtomic(kind))
    if (Conflict c =
            findUnordered(Conflict::Atomic, cell.atomic, accessor, 0, false);
        c.kind)
      return c;
  if (kind != AccessKind::Load)
    if (Conflict c = findUnordered(Conflict::Read, cell.read, accessor,
                                   cell.readSite, true);
        c.kind)
      return c;

  if (kind == AccessKind::Load) {
    if (keep(cell.read, accessor))
      cell.readSite = site;
    return {};
  }
  cell.read[0] = cell.read[1] = 0;
  if (isAtomic(kind)) {
    keep(cell.atomic, accessor);
    return {};
  }
  cell.atomic[0] = cell.atomic[1] = 0;
  cell.write = accessor.stamp();
  cell.writeSite = site;
  return {};
}

Conflict enterBlock(Cell &cell, uint32_t block, AccessKind kind) {
  uint32_t owner = cell.blockAndFlags & Cell::blockMask;
  if (owner == block + 1)
    return {};
  uint32_t flags = cell.blockAndFlags & ~Cell::blockMask;
  auto conflict = [&](Conflict::Kind what, Stamp stamp, uint32_t site,
                      bool siteKnown) {
    return Conflict{what, threadOf(stamp), site, siteKnown, owner};
  };
  bool atomicHere = cell.atomic[0] || (flags & Cell::atomicBefore);
  bool readHere = cell.read[0] || (flags & Cell::readBefore);
  if (cell.write)
    return conflict(Conflict::Write, cell.write, cell.writeSite, true);
  if (atomicHere && !isAtomic(kind))
    return conflict(Conflict::Atomic, cell.atomic[0], 0, false);
  if (readHere && writes(kind))
    return conflict(Conflict::Read, cell.read[0], cell.readSite,
                    cell.read[0] != 0);
  if (cell.read[0])
    flags |= Cell::readBefore;
  if (cell.atomic[0])
    flags |= Cell::atomicBefore;
  cell = Cell{};
  cell.blockAndFlags = flags | (block + 1);
  return {};
}

} // namespace jpmhc::emulator
