// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the instrumentation tells the run time of a module: the meeting point of
// the two halves of the emulator.

#ifndef JPMHC_RUNTIME_EMULATOR_PROGRAM_H
#define JPMHC_RUNTIME_EMULATOR_PROGRAM_H

#include "jpmhc/Runtime/Emulator.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace jpmhc::emulator {

/// What an access does. An atomic read is ordered with atomic writes by
/// definition; a volatile one counts as plain.
enum class AccessKind : uint8_t {
  Load,
  Store,
  AtomicLoad,
  AtomicStore,
  AtomicUpdate
};

inline bool isAtomic(AccessKind kind) { return kind >= AccessKind::AtomicLoad; }
inline bool reads(AccessKind kind) {
  return kind != AccessKind::Store && kind != AccessKind::AtomicStore;
}
inline bool writes(AccessKind kind) {
  return kind != AccessKind::Load && kind != AccessKind::AtomicLoad;
}

/// What is known of an address when the code is compiled.
enum class Space : uint8_t { Generic, Global, Shared };

/// An instruction that calls into the run time.
struct Site {
  AccessKind kind = AccessKind::Load;
  Space space = Space::Generic;
  uint32_t bytes = 0; // 0: a range, whose size comes with the call
  uint32_t align = 1;
  std::string location; // "file:line", or empty
};

/// A variable in shared memory. One without extent is the dynamic part.
struct SharedVariable {
  std::string name;
  uint64_t offset = 0, bytes = 0;
};

/// A variable in global or constant memory; the run time registers it.
struct GlobalVariableInfo {
  std::string symbol, name;
  uint64_t bytes = 0;
  bool constant = false;
};

struct KernelInfo {
  std::string name;
  /// Symbol of `void entry(void **arguments)`.
  std::string entry;
  unsigned parameters = 0;
  /// Extents the block must have, and the most threads it may have.
  std::optional<Dim3> requiredBlock;
  std::optional<uint64_t> maxThreads;
  /// Static shared memory that the kernel uses.
  uint64_t staticSharedBytes = 0;
};

struct Program {
  std::vector<Site> sites;
  std::vector<KernelInfo> kernels;
  std::vector<SharedVariable> shared;
  std::vector<GlobalVariableInfo> globals;
  /// Static shared memory of all kernels with the gaps between variables, and
  /// where the dynamic part starts.
  uint64_t sharedExtent = 0;
  /// Every access but ranges is a multiple of this many bytes, at a multiple of
  /// it (a power of two, at most 4).
  uint32_t granule = 4;
  /// Stack that local variables need, all functions together.
  uint64_t localBytes = 0;
};

/// Bytes between two variables in shared memory, so that running off one is
/// not running into the next.
constexpr uint64_t sharedGap = 64;

/// The least alignment of the dynamic part of shared memory.
constexpr uint64_t dynamicSharedAlign = 1024;

enum class SpecialRegister : uint32_t {
  TidX,
  TidY,
  TidZ,
  NtidX,
  NtidY,
  NtidZ,
  CtaidX,
  CtaidY,
  CtaidZ,
  NctaidX,
  NctaidY,
  NctaidZ,
  LaneId,
  WarpId,
  NumWarps,
  LaneMaskEq,
  LaneMaskLt,
  LaneMaskLe,
  LaneMaskGt,
  LaneMaskGe,
  DynamicSharedBytes,
  TotalSharedBytes,
};

enum class BarrierKind : uint32_t { Sync, Arrive, And, Or, Popc };

/// Instructions that the threads of a mask execute together. Values travel as
/// 64 bits: the result in the low half (all of it for match on i64), a
/// predicate in bit 32 where the instruction returns one.
enum class Collective : uint32_t {
  SyncWarp,
  ShuffleIdx,
  ShuffleUp,
  ShuffleDown,
  ShuffleBfly,
  VoteAll,
  VoteAny,
  VoteUni,
  VoteBallot,
  MatchAny,
  MatchAll,
  ReduceAdd,
  ReduceMinS,
  ReduceMaxS,
  ReduceMinU,
  ReduceMaxU,
  ReduceAnd,
  ReduceOr,
  ReduceXor,
  Elect,
};

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_PROGRAM_H
