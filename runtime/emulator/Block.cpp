// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scheduling of a block's threads, barriers, warp collectives.

#include "Block.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstring>

using namespace llvm;

namespace jpmhc::emulator {

constexpr uint32_t warpSize = 32;

thread_local BlockRunner *BlockRunner::current = nullptr;

static Dim3 unflatten(uint32_t linear, const Dim3 &extents) {
  return {linear % extents.x, linear / extents.x % extents.y,
          linear / extents.x / extents.y};
}

static std::string format(const Dim3 &position) {
  return ("(" + Twine(position.x) + "," + Twine(position.y) + "," +
          Twine(position.z) + ")")
      .str();
}

BlockRunner::BlockRunner(LaunchState &state)
    : state(state), program(state.program),
      threadCount(state.launch.block.count()) {
  counts.buffers.resize(state.buffers.size());
  siteBuffer.assign(program.sites.size(), 0);
}

BlockRunner::~BlockRunner() { std::free(shared); }

Error BlockRunner::prepare() {
  size_t stackBytes = state.options.stackBytes + 2 * program.localBytes;
  if (Error error = stacks.reserve(threadCount, stackBytes))
    return error;
  threads = std::vector<Thread>(threadCount);
  sharedBytes = program.sharedExtent + state.launch.dynamicSharedBytes;
  uint64_t allocated =
      alignTo(std::max<uint64_t>(sharedBytes, 1), dynamicSharedAlign);
  shared =
      static_cast<char *>(std::aligned_alloc(dynamicSharedAlign, allocated));
  if (!shared)
    return createStringError("cannot allocate " + Twine(allocated) +
                             " bytes of shared memory");

  // Everything but the variables is out of bounds.
  uint32_t granule = program.granule;
  Cell gap{};
  gap.write = Cell::gap;
  sharedTemplate.assign(divideCeil(sharedBytes, granule), gap);
  auto open = [&](uint64_t offset, uint64_t bytes) {
    std::fill_n(sharedTemplate.begin() + offset / granule,
                divideCeil(bytes, granule), Cell{});
  };
  for (const SharedVariable &variable : program.shared)
    open(variable.offset, variable.bytes);
  open(program.sharedExtent, state.launch.dynamicSharedBytes);
  return Error::success();
}

void BlockRunner::threadMain(void *self) {
  auto &runner = *static_cast<BlockRunner *>(self);
  runner.state.entry(const_cast<void **>(runner.state.launch.arguments.data()));
  runner.exitThread();
}

void BlockRunner::startBlock(uint32_t linear) {
  linearBlock = linear;
  block = unflatten(linear, state.launch.grid);
  // 0xff bytes are NaNs in every floating-point type.
  std::memset(shared, 0xff, sharedBytes);
  sharedCells = sharedTemplate;
  random.seed(state.launch.seed ^ (uint64_t(linear) * 0x9e3779b97f4a7c15u));
  for (Barrier &barrier : barriers)
    barrier = Barrier{};
  ready.clear();
  readyHead = 0;
  exited = 0;
  faulted = false;
  ClockRef nothing(new VectorClock(threadCount));
  for (uint32_t i = 0; i < threadCount; ++i) {
    Thread &thread = threads[i];
    thread.state = ThreadState::Ready;
    thread.position = unflatten(i, state.launch.block);
    thread.known = nothing;
    thread.clock = 1;
    thread.accesses = 0;
    thread.copies.clear();
    thread.copyGroup = 0;
    thread.context.start(stacks.low(i), stacks.bytes(),
                         &BlockRunner::threadMain, this);
    ready.push_back(i);
  }
  if (state.options.countSectors) {
    touches.clear();
    occurrences.assign(size_t(threadCount) * program.sites.size(), 0);
  }
}

void BlockRunner::run(uint32_t linear) {
  BlockRunner *outer = current;
  current = this;
  startBlock(linear);
  while (takeTurn())
    ;
  if (!faulted && exited != threadCount)
    reportDeadlock();
  if (state.options.countSectors)
    finishSectors();
  current = outer;
}

/// Lets one ready thread run until it waits. False when there is none.
bool BlockRunner::takeTurn() {
  if (faulted || readyHead == ready.size())
    return false;
  if (state.launch.seed != 0) {
    size_t left = ready.size() - readyHead;
    std::swap(ready[readyHead], ready[readyHead + random() % left]);
  }
  running = ready[readyHead++];
  if (readyHead * 2 >
      ready.size() + threadCount) { // drop those that had their turn
    ready.erase(ready.begin(), ready.begin() + readyHead);
    readyHead = 0;
  }
  scheduler.switchTo(threads[running].context);
  return true;
}

void BlockRunner::wait(ThreadState waiting) {
  Thread &thread = threads[running];
  thread.state = waiting;
  thread.context.switchTo(scheduler);
}

void BlockRunner::release(uint32_t index) {
  threads[index].state = ThreadState::Ready;
  ready.push_back(index);
}

void BlockRunner::yield() {
  if (readyHead == ready.size())
    return;
  ready.push_back(running);
  threads[running].context.switchTo(scheduler);
}

void BlockRunner::exitThread() {
  finishCopies(UINT32_MAX);
  Thread &thread = threads[running];
  thread.state = ThreadState::Exited;
  thread.known.reset();
  ++exited;
  thread.context.finishInto(scheduler);
}

Accessor BlockRunner::accessor() const {
  const Thread &thread = threads[running];
  return {running, thread.clock, thread.known->clocks.data()};
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

namespace {
/// Gathers what threads know at a synchronisation.
class ClockJoin {
public:
  void add(uint32_t thread, const ClockRef &known, uint32_t clock) {
    if (!joined)
      joined = ClockRef(new VectorClock(*known));
    else if (known != last)
      joined->merge(*known);
    last = known;
    own.push_back({thread, clock});
  }
  ClockRef finish() {
    for (auto [thread, clock] : own)
      joined->clocks[thread] = std::max(joined->clocks[thread], clock);
    return joined;
  }

private:
  ClockRef joined, last;
  SmallVector<std::pair<uint32_t, uint32_t>, 32> own;
};
} // namespace

uint32_t BlockRunner::barrier(BarrierKind kind, bool aligned, uint32_t id,
                              uint32_t count, uint32_t predicate,
                              uint32_t site) {
  if (id >= std::size(barriers))
    fail(FaultKind::InvalidOperand, site,
         [&] { return "expected a barrier from 0 to 15, got " + utostr(id); });
  if (count % warpSize != 0)
    fail(FaultKind::InvalidOperand, site, [&] {
      return "expected a barrier's thread count to be a multiple of 32, got " +
             utostr(count);
    });
  uint32_t expected = count ? count : threadCount;
  if (expected > alignTo(threadCount, warpSize))
    fail(FaultKind::InvalidOperand, site, [&] {
      return "expected at most the block's " + utostr(threadCount) +
             " threads at a barrier, got " + utostr(expected);
    });
  expected = std::min(expected, threadCount);

  Barrier &barrier = barriers[id];
  bool first = barrier.arrivals.empty();
  bool arrives = kind == BarrierKind::Arrive;
  if (first)
    barrier.expected = expected;
  else if (barrier.expected != expected)
    fail(FaultKind::DivergentCollective, site, [&] {
      return "barrier " + utostr(id) + " is for " + utostr(expected) +
             " threads here and for " + utostr(barrier.expected) +
             " in thread " + nameThread(barrier.arrivals[0].thread) +
             at(barrier.arrivals[0].site);
    });
  // sync and arrive meet at one barrier; a reduction meets its like only.
  BarrierKind family = arrives ? BarrierKind::Sync : kind;
  if (first)
    barrier.kind = family;
  else if (barrier.kind != family)
    fail(FaultKind::DivergentCollective, site, [&] {
      return "barrier " + utostr(id) +
             " has another kind here than in thread " +
             nameThread(barrier.arrivals[0].thread) +
             at(barrier.arrivals[0].site);
    });

  Thread &thread = threads[running];
  checkClock(site);
  barrier.aligned = aligned;
  barrier.arrivals.push_back(
      {running, site, !arrives, thread.known, thread.clock});
  barrier.predicates += predicate != 0;
  ++thread.clock;
  thread.site = site;
  thread.barrierId = id;
  bool complete = barrier.arrivals.size() == barrier.expected;
  if (complete)
    completeBarrier(barrier);
  if (arrives)
    return 0;
  wait(complete ? ThreadState::Ready : ThreadState::AtBarrier);
  return static_cast<uint32_t>(thread.result);
}

/// An aligned barrier must be the same instruction for all threads of a warp.
void BlockRunner::checkAligned(const Barrier &barrier) {
  uint32_t firstOfWarp[maxThreads / warpSize];
  std::fill(std::begin(firstOfWarp), std::end(firstOfWarp), UINT32_MAX);
  for (const Barrier::Arrival &arrival : barrier.arrivals) {
    uint32_t &site = firstOfWarp[arrival.thread / warpSize];
    if (site == UINT32_MAX)
      site = arrival.site;
    else if (site != arrival.site)
      fail(FaultKind::DivergentCollective, arrival.site, [&] {
        return "the threads of warp " + utostr(arrival.thread / warpSize) +
               " reach an aligned barrier at different instructions:" +
               at(arrival.site) + " and" + at(site);
      });
  }
}

void BlockRunner::completeBarrier(Barrier &barrier) {
  if (barrier.aligned)
    checkAligned(barrier);
  ClockJoin join;
  for (const Barrier::Arrival &arrival : barrier.arrivals)
    join.add(arrival.thread, arrival.known, arrival.clock);
  ClockRef known = join.finish();
  uint32_t result = 0;
  switch (barrier.kind) {
  case BarrierKind::And:
    result = barrier.predicates == barrier.arrivals.size();
    break;
  case BarrierKind::Or:
    result = barrier.predicates != 0;
    break;
  case BarrierKind::Popc:
    result = barrier.predicates;
    break;
  default:
    break;
  }
  for (const Barrier::Arrival &arrival : barrier.arrivals) {
    if (!arrival.waits)
      continue;
    threads[arrival.thread].known = known;
    threads[arrival.thread].result = result;
    release(arrival.thread);
  }
  barrier.arrivals.clear();
  barrier.predicates = 0;
  ++counts.barriers;
}

void BlockRunner::reportDeadlock() {
  SmallVector<uint32_t> waiting;
  std::string gone;
  for (uint32_t i = 0; i < threadCount; ++i)
    if (threads[i].state != ThreadState::Exited)
      waiting.push_back(i);
    else if (gone.empty())
      gone = "; thread " + nameThread(i) + " has exited";
  const Thread &first = threads[waiting[0]];
  std::string text;
  if (first.state == ThreadState::AtBarrier) {
    const Barrier &barrier = barriers[first.barrierId];
    text = "barrier " + utostr(first.barrierId) + " waits for " +
           utostr(barrier.expected) + " threads, " +
           utostr(barrier.arrivals.size()) + " came";
  } else {
    text = "a warp collective with mask 0x" + utohexstr(first.mask) +
           " waits for all its lanes";
  }
  // The first thread that waits for something else.
  for (uint32_t i : waiting) {
    const Thread &other = threads[i];
    if (other.state != first.state || other.site != first.site) {
      text += "; thread " + nameThread(i) + " waits for " +
              (other.state == ThreadState::AtBarrier
                   ? "barrier " + utostr(other.barrierId)
                   : "a warp collective") +
              at(other.site);
      break;
    }
  }
  noteFault(FaultKind::Deadlock, waiting[0], first.site, text + gone);
}

//===----------------------------------------------------------------------===//
// Warp collectives
//===----------------------------------------------------------------------===//

uint64_t BlockRunner::collective(Collective kind, uint32_t mask, uint64_t value,
                                 uint32_t a, uint32_t b, uint32_t site) {
  Thread &thread = threads[running];
  checkClock(site);
  uint32_t warp = running / warpSize, lane = running % warpSize;
  uint32_t first = warp * warpSize;
  // Lanes beyond the end of the block do not exist; the hardware ignores them.
  uint32_t existing =
      threadCount - first >= warpSize ? ~0u : (1u << (threadCount - first)) - 1;
  uint32_t lanes = mask & existing;
  if (!(mask >> lane & 1))
    fail(FaultKind::InvalidOperand, site, [&] {
      return "expected the mask of a warp collective to hold the thread's own "
             "lane " +
             utostr(lane) + ", got 0x" + utohexstr(mask);
    });
  thread.kind = kind;
  thread.mask = mask;
  thread.value = value;
  thread.a = a;
  thread.b = b;
  thread.site = site;
  bool complete = true;
  for (uint32_t i = 0; i < warpSize; ++i) {
    if (!(lanes >> i & 1) || i == lane)
      continue;
    const Thread &other = threads[first + i];
    if (other.state == ThreadState::Exited)
      fail(FaultKind::DivergentCollective, site, [&] {
        return "a warp collective with mask 0x" + utohexstr(mask) +
               " waits for thread " + nameThread(first + i) +
               ", which has exited";
      });
    if (other.state != ThreadState::AtCollective) {
      complete = false;
      continue;
    }
    if (other.kind != kind || other.mask != mask || other.site != site)
      fail(FaultKind::DivergentCollective, site, [&] {
        return "a warp collective with mask 0x" + utohexstr(mask) +
               " meets another one, with mask 0x" + utohexstr(other.mask) +
               ", in thread " + nameThread(first + i) + at(other.site);
      });
  }
  if (complete)
    completeCollective(warp, lanes);
  wait(complete ? ThreadState::Ready : ThreadState::AtCollective);
  return thread.result;
}

/// shfl.sync, as the PTX manual writes it. A source lane that does not take
/// part gives all ones, a NaN.
uint64_t BlockRunner::shuffle(const Thread &thread, uint32_t lane,
                              uint32_t first, uint32_t lanes) {
  uint32_t operand = thread.a & 31, clamp = thread.b & 31,
           segment = thread.b >> 8 & 31;
  uint32_t lowest = lane & segment, highest = lowest | (clamp & ~segment);
  int source = 0;
  bool inRange = false;
  switch (thread.kind) {
  case Collective::ShuffleUp:
    source = int(lane) - int(operand);
    inRange = source >= int(highest);
    break;
  case Collective::ShuffleDown:
    source = lane + operand;
    inRange = source <= int(highest);
    break;
  case Collective::ShuffleBfly:
    source = lane ^ operand;
    inRange = source <= int(highest);
    break;
  default:
    source = lowest | (operand & ~segment);
    inRange = source <= int(highest);
    break;
  }
  if (!inRange)
    source = lane;
  uint64_t value = lanes >> source & 1
                       ? threads[first + source].value & 0xffffffff
                       : 0xffffffff;
  return value | uint64_t(inRange) << 32;
}

/// redux.sync: two 32-bit values combined. Other collectives have no use for
/// it.
static uint32_t combine(Collective kind, uint32_t a, uint32_t b) {
  switch (kind) {
  case Collective::ReduceAdd:
    return a + b;
  case Collective::ReduceMinS:
    return std::min(int32_t(a), int32_t(b));
  case Collective::ReduceMaxS:
    return std::max(int32_t(a), int32_t(b));
  case Collective::ReduceMinU:
    return std::min(a, b);
  case Collective::ReduceMaxU:
    return std::max(a, b);
  case Collective::ReduceAnd:
    return a & b;
  case Collective::ReduceOr:
    return a | b;
  case Collective::ReduceXor:
    return a ^ b;
  default:
    return a;
  }
}

/// What the collectives of a warp find in the values of those that take part.
struct BlockRunner::WarpValues {
  uint32_t first;                    ///< thread of lane 0
  uint32_t lanes;                    ///< mask of those that take part
  SmallVector<uint32_t, 32> members; ///< their lanes
  uint32_t ballot = 0;               ///< lowest bits
  uint64_t total = 0;                ///< the first, combined with the others
  bool equal = true;                 ///< whether all are
};

BlockRunner::WarpValues BlockRunner::gather(uint32_t warp, uint32_t lanes) {
  WarpValues found{warp * warpSize, lanes, {}};
  for (uint32_t lane = 0; lane < warpSize; ++lane)
    if (lanes >> lane & 1)
      found.members.push_back(lane);
  uint64_t leader = threads[found.first + found.members[0]].value;
  found.total = leader;
  for (uint32_t lane : found.members) {
    const Thread &thread = threads[found.first + lane];
    found.ballot |= uint32_t(thread.value & 1) << lane;
    found.equal &= thread.value == leader;
    if (lane != found.members[0])
      found.total = combine(thread.kind, found.total, thread.value);
  }
  return found;
}

/// The only collective that orders memory: all know what each has done.
void BlockRunner::joinClocks(const WarpValues &warp) {
  ClockJoin join;
  for (uint32_t lane : warp.members) {
    Thread &thread = threads[warp.first + lane];
    join.add(warp.first + lane, thread.known, thread.clock++);
  }
  ClockRef known = join.finish();
  for (uint32_t lane : warp.members)
    threads[warp.first + lane].known = known;
}

uint64_t BlockRunner::resultOf(const WarpValues &warp, uint32_t lane) {
  const Thread &thread = threads[warp.first + lane];
  switch (thread.kind) {
  case Collective::SyncWarp:
    return 0;
  case Collective::ShuffleIdx:
  case Collective::ShuffleUp:
  case Collective::ShuffleDown:
  case Collective::ShuffleBfly:
    return shuffle(thread, lane, warp.first, warp.lanes);
  case Collective::VoteAll:
    return warp.ballot == warp.lanes;
  case Collective::VoteAny:
    return warp.ballot != 0;
  case Collective::VoteUni:
    return warp.ballot == 0 || warp.ballot == warp.lanes;
  case Collective::VoteBallot:
    return warp.ballot;
  case Collective::MatchAny: {
    uint32_t same = 0;
    for (uint32_t other : warp.members)
      same |= uint32_t(threads[warp.first + other].value == thread.value)
              << other;
    return same;
  }
  case Collective::MatchAll:
    return warp.equal ? warp.lanes | uint64_t(1) << 32 : 0;
  case Collective::Elect:
    return warp.members[0] | uint64_t(lane == warp.members[0]) << 32;
  default:
    return warp.total;
  }
}

void BlockRunner::completeCollective(uint32_t warp, uint32_t lanes) {
  WarpValues values = gather(warp, lanes);
  if (threads[running].kind == Collective::SyncWarp)
    joinClocks(values);
  for (uint32_t lane : values.members)
    threads[values.first + lane].result = resultOf(values, lane);
  for (uint32_t lane : values.members)
    release(values.first + lane);
}

//===----------------------------------------------------------------------===//
// Small instructions
//===----------------------------------------------------------------------===//

uint32_t BlockRunner::specialRegister(SpecialRegister which) const {
  const Dim3 &thread = threads[running].position;
  uint32_t lane = running % warpSize;
  switch (which) {
  case SpecialRegister::TidX:
    return thread.x;
  case SpecialRegister::TidY:
    return thread.y;
  case SpecialRegister::TidZ:
    return thread.z;
  case SpecialRegister::NtidX:
    return state.launch.block.x;
  case SpecialRegister::NtidY:
    return state.launch.block.y;
  case SpecialRegister::NtidZ:
    return state.launch.block.z;
  case SpecialRegister::CtaidX:
    return block.x;
  case SpecialRegister::CtaidY:
    return block.y;
  case SpecialRegister::CtaidZ:
    return block.z;
  case SpecialRegister::NctaidX:
    return state.launch.grid.x;
  case SpecialRegister::NctaidY:
    return state.launch.grid.y;
  case SpecialRegister::NctaidZ:
    return state.launch.grid.z;
  case SpecialRegister::LaneId:
    return lane;
  case SpecialRegister::WarpId:
    return running / warpSize;
  case SpecialRegister::NumWarps:
    return divideCeil(threadCount, warpSize);
  case SpecialRegister::LaneMaskEq:
    return 1u << lane;
  case SpecialRegister::LaneMaskLt:
    return (1u << lane) - 1;
  case SpecialRegister::LaneMaskLe:
    return (2u << lane) - 1;
  case SpecialRegister::LaneMaskGt:
    return ~((2u << lane) - 1);
  case SpecialRegister::LaneMaskGe:
    return ~((1u << lane) - 1);
  case SpecialRegister::DynamicSharedBytes:
    return state.launch.dynamicSharedBytes;
  case SpecialRegister::TotalSharedBytes:
    return state.kernel.staticSharedBytes + state.launch.dynamicSharedBytes;
  }
  return 0;
}

void BlockRunner::asyncCopy(char *to, const char *from, uint32_t bytes,
                            uint32_t sourceBytes, uint32_t fromSite,
                            uint32_t toSite) {
  sourceBytes = std::min(sourceBytes, bytes);
  if (sourceBytes)
    access(reinterpret_cast<uintptr_t>(from), sourceBytes, fromSite);
  Thread &thread = threads[running];
  thread.copies.push_back(
      {to, from, bytes, sourceBytes, toSite, thread.copyGroup});
}

void BlockRunner::asyncCommit() { ++threads[running].copyGroup; }

void BlockRunner::asyncWait(uint32_t groupsLeft) {
  uint32_t group = threads[running].copyGroup;
  if (group > groupsLeft)
    finishCopies(group - groupsLeft);
}

void BlockRunner::asyncWaitAll() { finishCopies(UINT32_MAX); }

/// Performs the copies of all groups before `beforeGroup`.
void BlockRunner::finishCopies(uint32_t beforeGroup) {
  std::vector<PendingCopy> &copies = threads[running].copies;
  size_t done = 0;
  for (; done < copies.size() && copies[done].group < beforeGroup; ++done) {
    const PendingCopy &copy = copies[done];
    access(reinterpret_cast<uintptr_t>(copy.to), copy.bytes, copy.toSite);
    std::memcpy(copy.to, copy.from, copy.sourceBytes);
    std::memset(copy.to + copy.sourceBytes, 0, copy.bytes - copy.sourceBytes);
  }
  copies.erase(copies.begin(), copies.begin() + done);
}

void BlockRunner::trap(uint32_t site) {
  fail(FaultKind::Trap, site,
       [&] { return std::string("the kernel trapped"); });
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

std::string BlockRunner::nameThread(uint32_t thread) const {
  return format(unflatten(thread, state.launch.block));
}

std::string BlockRunner::nameBlock(uint32_t linear) const {
  return format(unflatten(linear, state.launch.grid));
}

/// " at file:line", or nothing.
std::string BlockRunner::at(uint32_t site) const {
  const std::string &location = program.sites[site].location;
  return location.empty() ? "" : " at " + location;
}

/// Clocks must stay apart from Cell::gap, and in their 22 bits.
void BlockRunner::checkClock(uint32_t site) {
  if (threads[running].clock >= maxClock)
    fail(FaultKind::AccessLimit, site,
         [&] { return "more than " + utostr(maxClock) + " synchronisations"; });
}

void BlockRunner::noteFault(FaultKind kind, uint32_t thread, uint32_t site,
                            std::string message) {
  faulted = true;
  std::lock_guard<std::mutex> lock(state.faultMutex);
  if (linearBlock >= state.faultBlock)
    return;
  state.faultBlock = linearBlock;
  const std::string &location = program.sites[site].location;
  std::string text = (location.empty() ? "" : location + ": ") +
                     toString(kind).str() + " in kernel '" + state.kernel.name +
                     "', block " + format(block) + ", thread " +
                     nameThread(thread) + ": " + message;
  state.fault = std::make_unique<EmulatorFault>(
      kind, state.kernel.name, block, unflatten(thread, state.launch.block),
      std::move(text));
}

} // namespace jpmhc::emulator
