// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "jpmhc/Runtime/EmulatorDevice.h"

#include "jpmhc/Runtime/Device.h"
#include "jpmhc/Runtime/Launch.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>

using namespace llvm;
using jpmhc::runtime::GemmCall;

namespace jpmhc::emulator {
namespace {

/// Launches take turns: they share totals, and a fault's place in the order of
/// launches should not depend on the host's threads.
struct LaunchOrder {
  std::mutex mutex;
  uint64_t seed = 0;
  uint64_t launches = 0;

  LaunchOrder() {
    if (const char *text = std::getenv("JPMHC_EMULATOR_SEED"))
      (void)StringRef(text).getAsInteger(10, seed);
  }

  uint64_t nextSeed() {
    ++launches;
    if (seed == 0)
      return 0;
    return std::mt19937_64(seed + launches)() | 1;
  }
};

LaunchOrder &getLaunchOrder() {
  static LaunchOrder order;
  return order;
}

class EmulatorDevice : public runtime::Device {
public:
  explicit EmulatorDevice(jpmhcContext *cpu) : cpu(cpu) {}
  ~EmulatorDevice() override { jpmhcContextDestroy(cpu); }

  int32_t launch(const jpmhcKernel &kernel, void *stream, int64_t lo,
                 int64_t hi, int64_t grain, void **args) override;
  int32_t gemm(const GemmCall &call, void *) override {
    return jpmhcGemmBatched(cpu, nullptr, call.inputType, call.outputType,
                            call.transA, call.transB, call.batch, call.m,
                            call.n, call.k, call.a, call.lda, call.strideA,
                            call.b, call.ldb, call.strideB, call.beta, call.c,
                            call.ldc, call.strideC, nullptr);
  }
  int32_t copy(void *target, const void *source, int64_t bytes,
               void *) override {
    return jpmhcCopy(cpu, nullptr, target, source, bytes);
  }
  int32_t fill(void *target, int32_t value, int64_t bytes, void *) override {
    return jpmhcFill(cpu, nullptr, target, value, bytes);
  }
  /// Full of NaNs, so that what a kernel reads before anything wrote it shows.
  void *allocate(int64_t bytes) override {
    void *memory = nullptr;
    if (jpmhcAlloc(cpu, bytes, &memory) != JPMHC_OK)
      return nullptr;
    return std::memset(memory, 0xff, bytes);
  }
  void deallocate(void *memory, int64_t) override { jpmhcFree(cpu, memory); }

  int32_t createStream(void **stream) override {
    return jpmhcStreamCreate(cpu, stream);
  }
  int32_t destroyStream(void *stream) override {
    return jpmhcStreamDestroy(cpu, stream);
  }
  int32_t synchronize(void *) override { return JPMHC_OK; }
  int32_t createEvent(void **event) override {
    return jpmhcEventCreate(cpu, event);
  }
  int32_t destroyEvent(void *event) override {
    return jpmhcEventDestroy(cpu, event);
  }
  int32_t recordEvent(void *event, void *) override {
    return jpmhcEventRecord(cpu, event, nullptr);
  }
  int32_t waitEvent(void *, void *) override { return JPMHC_OK; }
  int32_t elapsed(void *start, void *end, int64_t *nanoseconds) override {
    return jpmhcEventElapsed(cpu, start, end, nanoseconds);
  }

private:
  jpmhcContext *cpu;
};

/// "argument 2", or "arguments 2 and 3" where one buffer is seen twice.
struct ArgumentRange {
  uintptr_t begin, end;
  std::string numbers;
  bool several = false;
};

/// Registers the buffers of a launch; views of one buffer overlap and become
/// one.
Error registerArguments(DeviceMemory &memory, const jpmhcKernel &kernel,
                        void **args) {
  SmallVector<ArgumentRange> ranges;
  for (int64_t i = 0; i < kernel.numArgs; ++i)
    if (kernel.argKinds[i] == JPMHC_ARG_BUFFER && kernel.argBytes[i] != 0) {
      if (kernel.argBytes[i] < 0)
        return createStringError("expected a static size of argument " +
                                 Twine(i) + " for the emulator, got none");
      auto begin = reinterpret_cast<uintptr_t>(args[i]);
      ranges.push_back({begin, begin + kernel.argBytes[i], utostr(i), false});
    }
  llvm::sort(ranges, [](const ArgumentRange &a, const ArgumentRange &b) {
    return std::tie(a.begin, a.numbers) < std::tie(b.begin, b.numbers);
  });
  SmallVector<ArgumentRange> merged;
  for (ArgumentRange &range : ranges) {
    if (merged.empty() || range.begin >= merged.back().end) {
      merged.push_back(std::move(range));
      continue;
    }
    merged.back().end = std::max(merged.back().end, range.end);
    merged.back().numbers += " and " + range.numbers;
    merged.back().several = true;
  }
  for (const ArgumentRange &range : merged)
    if (Error error = memory.registerBuffer(
            reinterpret_cast<const void *>(range.begin),
            range.end - range.begin,
            (range.several ? "arguments " : "argument ") + range.numbers))
      return error;
  return Error::success();
}

void addTotals(KernelTotals &totals, const LaunchReport &report, int64_t rows) {
  ++totals.launches;
  totals.rows += rows;
  totals.traffic.requestedRead += report.total.requestedRead;
  totals.traffic.requestedWritten += report.total.requestedWritten;
  totals.traffic.uniqueRead += report.total.uniqueRead;
  totals.traffic.uniqueWritten += report.total.uniqueWritten;
  totals.sharedBytes = std::max(totals.sharedBytes, report.sharedBytes);
}

Error run(EmulatedKernel &emulated, const jpmhcKernel &kernel, int64_t lo,
          int64_t hi, void **args) {
  DeviceMemory memory;
  if (Error error = registerArguments(memory, kernel, args))
    return error;
  SmallVector<const void *> values{&lo, &hi};
  for (int64_t i = 0; i < kernel.numArgs; ++i)
    values.push_back(kernel.argKinds[i] == JPMHC_ARG_BUFFER ? &args[i]
                                                            : args[i]);
  uint64_t blocks = divideCeil(static_cast<uint64_t>(hi - lo),
                               static_cast<uint64_t>(emulated.rowsPerBlock));
  if (blocks > INT32_MAX)
    return createStringError("expected at most 2147483647 blocks, got " +
                             Twine(blocks));
  EmulatorLaunch launch;
  launch.grid.x = blocks;
  launch.block.x = emulated.blockThreads;
  launch.dynamicSharedBytes = emulated.dynamicSharedBytes;
  launch.arguments = values;
  launch.seed = getLaunchOrder().nextSeed();
  Expected<LaunchReport> report =
      emulated.emulator->launch(emulated.name, launch, memory);
  if (!report)
    return report.takeError();
  addTotals(emulated.totals, *report, hi - lo);
  return Error::success();
}

int32_t EmulatorDevice::launch(const jpmhcKernel &kernel, void *, int64_t lo,
                               int64_t hi, int64_t, void **args) {
  if (!kernel.handle ||
      (kernel.numArgs && (!kernel.argKinds || !kernel.argBytes)))
    return runtime::fail(
        JPMHC_INVALID_ARGUMENT,
        "expected kernel '%s' to have a handle, and kinds and sizes of its "
        "arguments for the emulator, got null",
        kernel.name);
  std::lock_guard<std::mutex> turn(getLaunchOrder().mutex);
  auto &emulated = *static_cast<EmulatedKernel *>(kernel.handle);
  Error error = run(emulated, kernel, lo, hi, args);
  if (!error)
    return JPMHC_OK;
  std::string message = toString(std::move(error));
  if (kernel.location)
    message = std::string(kernel.location) + ": " + message;
  return jpmhcFail(JPMHC_LAUNCH_FAILED, message.c_str());
}

runtime::Device *createEmulatorDevice(int32_t *status) {
  jpmhcContext *cpu = nullptr;
  *status = jpmhcContextCreate("cpu", &cpu);
  return *status == JPMHC_OK ? new EmulatorDevice(cpu) : nullptr;
}

} // namespace

int32_t registerEmulatorDevice() {
  static const int32_t status =
      jpmhcRegisterDevice("emulator", createEmulatorDevice);
  return status;
}

void setEmulatorSeed(uint64_t seed) {
  LaunchOrder &order = getLaunchOrder();
  std::lock_guard<std::mutex> turn(order.mutex);
  order.seed = seed;
  order.launches = 0;
}

} // namespace jpmhc::emulator
