// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Launch.cpp - Entry points of the launch ABI ------------------------===//
//
// What all devices share: checks of the arguments, messages, traces, and the
// accounting of memory.
//
//===----------------------------------------------------------------------===//
#include "jpmhc/Runtime/Launch.h"

#include "Check.h"
#include "Clock.h"
#include "Context.h"
#include "CpuDevice.h"

#include <cstring>
#include <mutex>
#include <new>
#include <unistd.h>

using namespace jpmhc::runtime;

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

static thread_local char lastError[512];

int32_t jpmhcFail(int32_t status, const char *message) {
  snprintf(lastError, sizeof(lastError), "%s", message ? message : "");
  return status;
}

const char *jpmhcLastError(const jpmhcContext *) { return lastError; }

static int32_t failNull(const char *what) {
  return fail(JPMHC_INVALID_ARGUMENT, "expected %s, got null", what);
}

//===----------------------------------------------------------------------===//
// Devices by name
//===----------------------------------------------------------------------===//

namespace {
struct DeviceEntry {
  const char *name;
  DeviceFactory factory;
};

struct DeviceTable {
  static constexpr int kMost = 16;
  std::mutex mutex;
  int count = 1;
  DeviceEntry entries[kMost] = {{"cpu", createCpuDevice}};

  const DeviceEntry *find(const char *name) const {
    for (int i = 0; i < count; ++i)
      if (std::strcmp(entries[i].name, name) == 0)
        return &entries[i];
    return nullptr;
  }
};
} // namespace

static DeviceTable &getDevices() {
  static DeviceTable table;
  return table;
}

int32_t jpmhcRegisterDevice(const char *name, DeviceFactory factory) {
  if (!name || !factory)
    return failNull("a device's name and factory");
  DeviceTable &table = getDevices();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (table.find(name))
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a new device name, got '%s' again", name);
  if (table.count == DeviceTable::kMost)
    return fail(JPMHC_UNSUPPORTED, "expected at most %d devices",
                DeviceTable::kMost);
  table.entries[table.count++] = {name, factory};
  return JPMHC_OK;
}

static DeviceFactory findFactory(const char *name) {
  DeviceTable &table = getDevices();
  std::lock_guard<std::mutex> lock(table.mutex);
  if (const DeviceEntry *entry = table.find(name))
    return entry->factory;
  char known[256];
  size_t length = 0;
  for (int i = 0; i < table.count && length < sizeof(known); ++i)
    length += snprintf(known + length, sizeof(known) - length, "%s%s",
                       i ? ", " : "", table.entries[i].name);
  fail(JPMHC_NOT_FOUND, "expected a device out of %s, got '%s'", known, name);
  return nullptr;
}

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

int32_t jpmhcContextCreate(const char *name, jpmhcContext **context) {
  if (!name || !context)
    return failNull("a device's name and where to put the context");
  *context = nullptr;
  DeviceFactory factory = findFactory(name);
  if (!factory)
    return JPMHC_NOT_FOUND;
  int32_t status = JPMHC_OK;
  Device *device = factory(&status);
  if (!device)
    return status;
  *context = new (std::nothrow) jpmhcContext(device);
  if (*context)
    return JPMHC_OK;
  delete device;
  return fail(JPMHC_OUT_OF_MEMORY, "no memory for a context");
}

void jpmhcContextDestroy(jpmhcContext *context) { delete context; }

int32_t jpmhcSetTrace(jpmhcContext *context, jpmhcTraceFn trace, void *user) {
  if (!context)
    return failNull("a context");
  context->traceUser = user;
  context->trace = trace;
  return JPMHC_OK;
}

int32_t jpmhcSetCheck(jpmhcContext *context, int32_t finite) {
  if (!context)
    return failNull("a context");
  context->checksFinite = finite != 0;
  return JPMHC_OK;
}

/// Runs `call` on the device and reports it to the trace, if one is set.
template <typename Call>
static int32_t traced(jpmhcContext &context, const char *name,
                      const char *location, Call call) {
  jpmhcTraceFn trace = context.trace.load(std::memory_order_acquire);
  if (__builtin_expect(trace == nullptr, true))
    return call();
  int64_t start = nowNs();
  int32_t status = call();
  jpmhcTraceEvent event{name, location, gettid(), start, nowNs()};
  trace(context.traceUser, &event);
  return status;
}

//===----------------------------------------------------------------------===//
// Launches
//===----------------------------------------------------------------------===//

int32_t jpmhcLaunch(jpmhcContext *context, const jpmhcKernel *kernel,
                    void *stream, int64_t lo, int64_t hi, int64_t grain,
                    void **args) {
  if (!context || !kernel)
    return failNull("a context and a kernel");
  if (grain < 1)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a grain of at least 1 for kernel '%s', got %lld",
                kernel->name, static_cast<long long>(grain));
  if (hi <= lo)
    return JPMHC_OK;
  int32_t status = traced(*context, kernel->name, kernel->location, [&] {
    return context->device->launch(*kernel, stream, lo, hi, grain, args);
  });
  if (__builtin_expect(context->checksFinite.load(std::memory_order_relaxed),
                       false) &&
      status == JPMHC_OK)
    return checkLaunch(*kernel, args);
  return status;
}

int32_t jpmhcCopy(jpmhcContext *context, void *stream, void *target,
                  const void *source, int64_t bytes) {
  if (!context)
    return failNull("a context");
  if (bytes < 0)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a copy of at least 0 bytes, got %lld",
                static_cast<long long>(bytes));
  if (bytes == 0 || target == source)
    return JPMHC_OK;
  if (!target || !source)
    return failNull("a target and a source of the copy");
  uintptr_t to = reinterpret_cast<uintptr_t>(target);
  uintptr_t from = reinterpret_cast<uintptr_t>(source);
  if ((to > from ? to - from : from - to) < static_cast<uintptr_t>(bytes))
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a copy between disjoint ranges, got %lld bytes that "
                "overlap",
                static_cast<long long>(bytes));
  return traced(*context, "copy", nullptr, [&] {
    return context->device->copy(target, source, bytes, stream);
  });
}

int32_t jpmhcFill(jpmhcContext *context, void *stream, void *target,
                  int32_t value, int64_t bytes) {
  if (!context)
    return failNull("a context");
  if (bytes < 0 || value < 0 || value > 255)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a fill of at least 0 bytes with a value of 0 to 255, "
                "got %lld bytes and %d",
                static_cast<long long>(bytes), value);
  if (bytes == 0)
    return JPMHC_OK;
  if (!target)
    return failNull("a target of the fill");
  return traced(*context, "fill", nullptr, [&] {
    return context->device->fill(target, value, bytes, stream);
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Checks one matrix of `rows` x `columns` as stored.
static int32_t checkMatrix(const char *name, const void *data, int64_t rows,
                           int64_t columns, int64_t leading) {
  if (leading < columns || leading < 1)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected a leading dimension of at least %lld for %s of a "
                "product, got %lld",
                static_cast<long long>(columns > 1 ? columns : 1), name,
                static_cast<long long>(leading));
  if (!data && rows > 0 && columns > 0)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected data for %s of a product, got null", name);
  return JPMHC_OK;
}

static int32_t checkGemm(const GemmCall &call) {
  if (call.batch < 0 || call.m < 0 || call.n < 0 || call.k < 0)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected sizes of a product of at least 0, got batch %lld, m "
                "%lld, n %lld, k %lld",
                static_cast<long long>(call.batch),
                static_cast<long long>(call.m), static_cast<long long>(call.n),
                static_cast<long long>(call.k));
  if (int32_t status = checkMatrix("A", call.a, call.transA ? call.k : call.m,
                                   call.transA ? call.m : call.k, call.lda))
    return status;
  if (int32_t status = checkMatrix("B", call.b, call.transB ? call.n : call.k,
                                   call.transB ? call.k : call.n, call.ldb))
    return status;
  return checkMatrix("C", call.c, call.m, call.n, call.ldc);
}

static bool isKnownType(int32_t type) {
  return type >= JPMHC_F32 && type <= JPMHC_F64;
}

/// What both products share.
static int32_t multiply(jpmhcContext *context, void *stream,
                        const GemmCall &call, const char *location) {
  if (!context)
    return failNull("a context");
  if (!isKnownType(call.inputType) || !isKnownType(call.outputType))
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected known element types of a product, got codes %d and "
                "%d",
                call.inputType, call.outputType);
  if (int32_t status = checkGemm(call))
    return status;
  if (call.batch == 0 || call.m == 0 || call.n == 0)
    return JPMHC_OK;
  int32_t status = traced(*context, "gemm", location,
                          [&] { return context->device->gemm(call, stream); });
  if (__builtin_expect(context->checksFinite.load(std::memory_order_relaxed),
                       false) &&
      status == JPMHC_OK)
    return checkGemmResult(call, location);
  return status;
}

int32_t jpmhcGemm(jpmhcContext *context, void *stream, int32_t inputType,
                  int32_t outputType, int32_t transA, int32_t transB, int64_t m,
                  int64_t n, int64_t k, const void *a, int64_t lda,
                  const void *b, int64_t ldb, float beta, void *c, int64_t ldc,
                  const char *location) {
  GemmCall call{
      inputType, outputType, transA != 0, transB != 0, /*batch=*/1, m,
      n,         k,          a,           lda,         0,           b,
      ldb,       0,          beta,        c,           ldc,         0};
  return multiply(context, stream, call, location);
}

int32_t jpmhcGemmBatched(jpmhcContext *context, void *stream, int32_t inputType,
                         int32_t outputType, int32_t transA, int32_t transB,
                         int64_t batch, int64_t m, int64_t n, int64_t k,
                         const void *a, int64_t lda, int64_t strideA,
                         const void *b, int64_t ldb, int64_t strideB,
                         float beta, void *c, int64_t ldc, int64_t strideC,
                         const char *location) {
  GemmCall call{inputType, outputType, transA != 0, transB != 0, batch,
                m,         n,          k,           a,           lda,
                strideA,   b,          ldb,         strideB,     beta,
                c,         ldc,        strideC};
  return multiply(context, stream, call, location);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

static constexpr int64_t kArenaMultiple = 64;

int32_t jpmhcAlloc(jpmhcContext *context, int64_t bytes, void **memory) {
  if (!context || !memory)
    return failNull("a context and where to put the memory");
  *memory = nullptr;
  if (bytes < 0 || bytes > INT64_MAX - kArenaMultiple)
    return fail(JPMHC_INVALID_ARGUMENT,
                "expected an arena of at least 0 bytes, got %lld",
                static_cast<long long>(bytes));
  if (bytes == 0)
    return JPMHC_OK;
  bytes = (bytes + kArenaMultiple - 1) / kArenaMultiple * kArenaMultiple;
  *memory = context->arenas.allocate(*context->device, bytes);
  return *memory ? JPMHC_OK
                 : fail(JPMHC_OUT_OF_MEMORY,
                        "expected to allocate %lld bytes on top of %lld, got "
                        "no memory",
                        static_cast<long long>(bytes),
                        static_cast<long long>(jpmhcCurrentBytes(context)));
}

int32_t jpmhcFree(jpmhcContext *context, void *memory) {
  if (!context)
    return failNull("a context");
  if (!memory || context->arenas.free(*context->device, memory))
    return JPMHC_OK;
  return fail(JPMHC_INVALID_ARGUMENT,
              "expected an arena of this context to free, got %p", memory);
}

int64_t jpmhcCurrentBytes(const jpmhcContext *context) {
  return context ? context->arenas.getCurrentBytes() : 0;
}

int64_t jpmhcPeakBytes(const jpmhcContext *context) {
  return context ? context->arenas.getPeakBytes() : 0;
}

void jpmhcResetPeakBytes(jpmhcContext *context) {
  if (context)
    context->arenas.resetPeak();
}

//===----------------------------------------------------------------------===//
// Streams and events
//===----------------------------------------------------------------------===//

int32_t jpmhcStreamCreate(jpmhcContext *context, void **stream) {
  if (!context || !stream)
    return failNull("a context and where to put the stream");
  return context->device->createStream(stream);
}

int32_t jpmhcStreamDestroy(jpmhcContext *context, void *stream) {
  if (!context)
    return failNull("a context");
  return stream ? context->device->destroyStream(stream) : JPMHC_OK;
}

int32_t jpmhcStreamSynchronize(jpmhcContext *context, void *stream) {
  if (!context)
    return failNull("a context");
  return context->device->synchronize(stream);
}

int32_t jpmhcEventCreate(jpmhcContext *context, void **event) {
  if (!context || !event)
    return failNull("a context and where to put the event");
  return context->device->createEvent(event);
}

int32_t jpmhcEventDestroy(jpmhcContext *context, void *event) {
  if (!context)
    return failNull("a context");
  return event ? context->device->destroyEvent(event) : JPMHC_OK;
}

int32_t jpmhcEventRecord(jpmhcContext *context, void *event, void *stream) {
  if (!context || !event)
    return failNull("a context and an event");
  return context->device->recordEvent(event, stream);
}

int32_t jpmhcEventWait(jpmhcContext *context, void *event, void *stream) {
  if (!context || !event)
    return failNull("a context and an event");
  return context->device->waitEvent(event, stream);
}

int32_t jpmhcEventElapsed(jpmhcContext *context, void *start, void *end,
                          int64_t *nanoseconds) {
  if (!context || !start || !end || !nanoseconds)
    return failNull("a context, two events and where to put the time");
  return context->device->elapsed(start, end, nanoseconds);
}
