// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs the blocks of a launch on one host thread, one after the other: a fiber
// a thread, a scheduler that draws whose turn it is, barriers and warp
// collectives, shared memory, and the checks behind every access.

#ifndef JPMHC_RUNTIME_EMULATOR_BLOCK_H
#define JPMHC_RUNTIME_EMULATOR_BLOCK_H

#include "Fiber.h"
#include "Program.h"
#include "Shadow.h"

#include "llvm/ADT/SmallVector.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <random>
#include <vector>

namespace jpmhc::emulator {

using EntryFunction = void (*)(void **);

/// A registered buffer during a launch.
struct BufferState {
  uintptr_t base = 0;
  uint64_t bytes = 0;
  std::string name;
  bool writable = true;
  /// One cell a granule, committed as far as it is touched.
  Cell *cells = nullptr;
};

/// What all blocks of a launch share.
struct LaunchState {
  LaunchState(const Program &program, const KernelInfo &kernel,
              const EmulatorOptions &options, const EmulatorLaunch &launch)
      : program(program), kernel(kernel), options(options), launch(launch) {}

  const Program &program;
  const KernelInfo &kernel;
  const EmulatorOptions &options;
  const EmulatorLaunch &launch;
  EntryFunction entry = nullptr;
  /// Without overlap, by base address.
  std::vector<BufferState> buffers;
  /// The fault of the lowest block, by linear index; later blocks do not start.
  std::mutex faultMutex;
  std::unique_ptr<EmulatorFault> fault;
  std::atomic<uint64_t> faultBlock{UINT64_MAX};
  /// Guards cells where several host threads run; a stripe by address.
  static constexpr size_t stripes = 1024;
  std::unique_ptr<std::atomic_flag[]> locks;
};

/// Figures one host thread gathers.
struct WorkerCounts {
  std::vector<Traffic> buffers; // parallel to LaunchState::buffers
  uint64_t barriers = 0;
  uint64_t readSectors = 0, writtenSectors = 0;
  uint64_t readRequests = 0, writeRequests = 0;
};

class BlockRunner {
public:
  explicit BlockRunner(LaunchState &state);
  ~BlockRunner();

  /// Makes room for stacks and shared memory.
  llvm::Error prepare();

  /// Runs the block with this linear index; a fault is left in the state.
  void run(uint32_t linearBlock);

  const WorkerCounts &getCounts() const { return counts; }

  // What instrumented code calls, on a fiber. See HostFunctions.cpp.
  void access(uintptr_t address, uint64_t bytes, uint32_t site);
  void access(uintptr_t address, uint32_t site) {
    access(address, program.sites[site].bytes, site);
  }
  uint32_t barrier(BarrierKind kind, bool aligned, uint32_t id, uint32_t count,
                   uint32_t predicate, uint32_t site);
  uint64_t collective(Collective kind, uint32_t mask, uint64_t value,
                      uint32_t a, uint32_t b, uint32_t site);
  void asyncCopy(char *to, const char *from, uint32_t bytes,
                 uint32_t sourceBytes, uint32_t fromSite, uint32_t toSite);
  void asyncCommit();
  void asyncWait(uint32_t groupsLeft);
  void asyncWaitAll();
  uint32_t specialRegister(SpecialRegister which) const;
  char *sharedBase() const { return shared; }
  void yield();
  [[noreturn]] void trap(uint32_t site);
  [[noreturn]] void exitThread();

  /// The runner whose fiber runs on this host thread.
  static thread_local BlockRunner *current;

private:
  enum class ThreadState : uint8_t { Ready, AtBarrier, AtCollective, Exited };

  struct PendingCopy {
    char *to;
    const char *from;
    uint32_t bytes, sourceBytes;
    uint32_t toSite;
    uint32_t group;
  };

  struct Thread {
    FiberContext context;
    ThreadState state = ThreadState::Ready;
    Dim3 position;
    ClockRef known;
    uint32_t clock = 1;
    uint64_t accesses = 0;
    // Where it waits and what for; the result when it goes on.
    uint32_t site = 0, barrierId = 0;
    Collective kind{};
    uint32_t mask = 0, a = 0, b = 0, predicate = 0;
    uint64_t value = 0;
    uint64_t result = 0;
    std::vector<PendingCopy> copies;
    uint32_t copyGroup = 0;
  };

  /// One of the sixteen barriers of a block.
  struct Barrier {
    struct Arrival {
      uint32_t thread;
      uint32_t site;
      bool waits;
      ClockRef known;
      uint32_t clock;
    };
    BarrierKind kind{};
    uint32_t expected = 0;
    std::vector<Arrival> arrivals;
    uint32_t predicates = 0;
    bool aligned = false;
  };

  static void threadMain(void *self);
  void startBlock(uint32_t linearBlock);
  bool takeTurn();
  void wait(ThreadState state);
  void release(uint32_t thread);
  void completeBarrier(Barrier &barrier);
  void checkAligned(const Barrier &barrier);
  struct WarpValues;
  void completeCollective(uint32_t warp, uint32_t lanes);
  WarpValues gather(uint32_t warp, uint32_t lanes);
  void joinClocks(const WarpValues &warp);
  uint64_t resultOf(const WarpValues &warp, uint32_t lane);
  uint64_t shuffle(const Thread &thread, uint32_t lane, uint32_t firstThread,
                   uint32_t lanes);
  void reportDeadlock();

  void accessShared(uintptr_t offset, uint64_t bytes, const Site &site,
                    uint32_t siteIndex);
  void accessGlobal(uintptr_t address, uint64_t bytes, const Site &site,
                    uint32_t siteIndex);
  Conflict recordGlobal(const BufferState &buffer, Traffic &traffic,
                        uint64_t first, uint64_t count, const Site &site,
                        uint32_t siteIndex);
  void countSectors(uintptr_t address, uint64_t bytes, bool written,
                    uint32_t site);
  void finishSectors();
  const BufferState *findBuffer(uintptr_t address, uint64_t bytes,
                                uint32_t site);
  void finishCopies(uint32_t beforeGroup);
  Accessor accessor() const;

  /// Ends the block from a fiber. `makeMessage` returns the text; the fiber's
  /// frames are never unwound, so nothing that owns memory may be alive on
  /// them.
  template <typename MakeMessage>
  [[noreturn]] void fail(FaultKind kind, uint32_t site,
                         MakeMessage makeMessage) {
    noteFault(kind, running, site, makeMessage());
    threads[running].context.finishInto(scheduler);
  }
  void checkClock(uint32_t site);
  void noteFault(FaultKind kind, uint32_t thread, uint32_t site,
                 std::string message);
  std::string nameThread(uint32_t thread) const;
  std::string nameBlock(uint32_t linear) const;
  std::string at(uint32_t site) const;
  std::string nameShared(uint64_t offset) const;
  std::string describeUnregistered(uintptr_t address) const;
  std::string describeConflict(const Conflict &conflict) const;

  LaunchState &state;
  const Program &program;
  const uint32_t threadCount;
  WorkerCounts counts;

  FiberStacks stacks;
  FiberContext scheduler;
  std::vector<Thread> threads;
  std::vector<uint32_t> ready;
  size_t readyHead = 0;
  uint32_t running = 0, exited = 0;
  std::mt19937_64 random;
  bool faulted = false;

  uint32_t linearBlock = 0;
  Dim3 block;
  Barrier barriers[16];

  char *shared = nullptr;
  uint64_t sharedBytes = 0;
  std::vector<Cell> sharedCells, sharedTemplate;

  /// Index of the buffer that a site last touched.
  std::vector<uint32_t> siteBuffer;

  struct SectorTouch {
    uint32_t site, occurrence, warp, written;
    uint64_t sector;
  };
  std::vector<SectorTouch> touches;
  std::vector<uint32_t> occurrences; // thread major, by site
};

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_BLOCK_H
