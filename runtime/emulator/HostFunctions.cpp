// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "HostFunctions.h"

#include "Block.h"

namespace jpmhc::emulator {
namespace {

BlockRunner &runner() { return *BlockRunner::current; }

void access(void *address, uint32_t site) {
  runner().access(reinterpret_cast<uintptr_t>(address), site);
}
void accessRange(void *address, uint64_t bytes, uint32_t site) {
  runner().access(reinterpret_cast<uintptr_t>(address), bytes, site);
}
void *sharedBase() { return runner().sharedBase(); }
uint32_t specialRegister(uint32_t which) {
  return runner().specialRegister(static_cast<SpecialRegister>(which));
}
uint32_t barrier(uint32_t kind, uint32_t aligned, uint32_t id, uint32_t count,
                 uint32_t predicate, uint32_t site) {
  return runner().barrier(static_cast<BarrierKind>(kind), aligned, id, count,
                          predicate, site);
}
uint64_t collective(uint32_t kind, uint32_t mask, uint64_t value, uint32_t a,
                    uint32_t b, uint32_t site) {
  return runner().collective(static_cast<Collective>(kind), mask, value, a, b,
                             site);
}
void asyncCopy(char *to, const char *from, uint32_t bytes, uint32_t sourceBytes,
               uint32_t fromSite, uint32_t toSite) {
  runner().asyncCopy(to, from, bytes, sourceBytes, fromSite, toSite);
}
void asyncCommit() { runner().asyncCommit(); }
void asyncWait(uint32_t groupsLeft) { runner().asyncWait(groupsLeft); }
void asyncWaitAll() { runner().asyncWaitAll(); }
void yield() { runner().yield(); }
void trap(uint32_t site) { runner().trap(site); }
void exitThread() { runner().exitThread(); }

/// prmt: byte i of the result is the byte of {b, a} that nibble i of `selector`
/// names, or its sign where the nibble's top bit is set.
uint32_t permuteBytes(uint32_t a, uint32_t b, uint32_t selector) {
  uint64_t bytes = uint64_t(b) << 32 | a;
  uint32_t result = 0;
  for (unsigned i = 0; i < 4; ++i) {
    uint32_t nibble = selector >> (4 * i) & 15;
    auto byte = static_cast<uint8_t>(bytes >> (8 * (nibble & 7)));
    if (nibble & 8)
      byte = byte & 0x80 ? 0xff : 0;
    result |= uint32_t(byte) << (8 * i);
  }
  return result;
}

} // namespace

llvm::ArrayRef<HostFunction> getHostFunctions() {
  static const HostFunction functions[] = {
      {"jpmhcEmuAccess", reinterpret_cast<void *>(&access)},
      {"jpmhcEmuAccessRange", reinterpret_cast<void *>(&accessRange)},
      {"jpmhcEmuSharedBase", reinterpret_cast<void *>(&sharedBase)},
      {"jpmhcEmuSpecialRegister", reinterpret_cast<void *>(&specialRegister)},
      {"jpmhcEmuBarrier", reinterpret_cast<void *>(&barrier)},
      {"jpmhcEmuCollective", reinterpret_cast<void *>(&collective)},
      {"jpmhcEmuAsyncCopy", reinterpret_cast<void *>(&asyncCopy)},
      {"jpmhcEmuAsyncCommit", reinterpret_cast<void *>(&asyncCommit)},
      {"jpmhcEmuAsyncWait", reinterpret_cast<void *>(&asyncWait)},
      {"jpmhcEmuAsyncWaitAll", reinterpret_cast<void *>(&asyncWaitAll)},
      {"jpmhcEmuYield", reinterpret_cast<void *>(&yield)},
      {"jpmhcEmuTrap", reinterpret_cast<void *>(&trap)},
      {"jpmhcEmuExit", reinterpret_cast<void *>(&exitThread)},
      {"jpmhcEmuPermuteBytes", reinterpret_cast<void *>(&permuteBytes)},
  };
  return functions;
}

} // namespace jpmhc::emulator
