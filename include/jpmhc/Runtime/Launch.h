// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Launch.h - C launch ABI between compiled steps and devices ---------===//
//
// The few functions that compiled host code calls. The same ABI is implemented
// by every device (CPU, GPU driver, emulator); a device is chosen by name when
// the context is made. Plain C so that ahead-of-time products can use it.
//
// Every function that can fail returns a status, 0 for success; the message of
// the last failure of the calling thread is `jpmhcLastError`. No function
// throws, aborts or prints.
//
// Threads: a context may be used from several threads at once. Making and
// destroying it and setting its trace must not run beside other calls on it.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_RUNTIME_LAUNCH_H
#define JPMHC_RUNTIME_LAUNCH_H

#include <stdint.h>

#if defined(__GNUC__)
#define JPMHC_EXPORT __attribute__((visibility("default")))
#else
#define JPMHC_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/// Status codes. Functions return them as `int32_t`, which is what compiled
/// code tests.
enum jpmhcStatus {
  JPMHC_OK = 0,
  /// A null pointer, a negative size, a leading dimension too small...
  JPMHC_INVALID_ARGUMENT = 1,
  /// The device does not do this (yet): an element type, for example.
  JPMHC_UNSUPPORTED = 2,
  JPMHC_OUT_OF_MEMORY = 3,
  /// An unknown device, or a library that could not be loaded.
  JPMHC_NOT_FOUND = 4,
  /// An index read from data lies outside its table.
  JPMHC_INDEX_OUT_OF_RANGE = 5,
  /// The device failed while it ran a kernel.
  JPMHC_LAUNCH_FAILED = 6,
  /// A kernel wrote a NaN or an infinity and jpmhcSetCheck asks for none.
  JPMHC_NOT_FINITE = 7,
};

/// Element types of library calls.
enum jpmhcDType {
  JPMHC_F32 = 1,
  JPMHC_BF16 = 2,
  JPMHC_F16 = 3,
  JPMHC_F64 = 4,
};

/// A device with its memory accounting and trace.
typedef struct jpmhcContext jpmhcContext;

/// CPU entry of a kernel: computes rows lo <= row < hi. `args[i]` is the
/// buffer itself, or for a scalar a pointer to its value. Rows are independent:
/// a result never depends on how the range was cut.
typedef void (*jpmhcKernelFn)(int64_t lo, int64_t hi, void **args);

/// Kinds of kernel arguments, see `jpmhcKernel::argKinds`.
enum jpmhcArgKind { JPMHC_ARG_BUFFER = 0, JPMHC_ARG_SCALAR = 1 };

/// What a launch names. Compiled code may hold it as a constant (one for each
/// call site, since the location is the user's); it outlives the launches.
typedef struct jpmhcKernel {
  /// CPU entry; null on devices that use `handle`.
  jpmhcKernelFn function;
  /// Name in traces and messages, never null.
  const char *name;
  /// The user's "file:line:col", or null.
  const char *location;
  /// The compiler's estimate for one row in picoseconds; 0 when unknown.
  int64_t cost;
  /// What the device made of the kernel (a loaded GPU function); null on CPU.
  void *handle;
  /// Number of arguments, and one jpmhcArgKind for each; `argKinds` may be
  /// null on the CPU, where buffers and scalars are passed alike.
  int64_t numArgs;
  const uint8_t *argKinds;
  /// For each argument the bytes that the kernel may touch from its address on,
  /// or -1 where they are only known when it runs; may be null on the CPU.
  const int64_t *argBytes;
  /// For each argument the jpmhcDType of a floating-point buffer without gaps
  /// that the kernel writes, else 0; may be null. Read by jpmhcSetCheck.
  const uint8_t *argWrites;
} jpmhcKernel;

/// One finished launch, product, copy or fill.
typedef struct jpmhcTraceEvent {
  /// Name of the kernel, or "gemm", "copy", "fill".
  const char *name;
  /// The user's location, or null.
  const char *location;
  /// Operating system's id of the calling thread.
  int64_t thread;
  /// Monotonic clock, nanoseconds.
  int64_t startNs;
  int64_t endNs;
} jpmhcTraceEvent;

/// Called on the thread that made the call, after it is done. `event` lives
/// only as long as the call.
typedef void (*jpmhcTraceFn)(void *user, const jpmhcTraceEvent *event);

//===----------------------------------------------------------------------===//
// Context
//===----------------------------------------------------------------------===//

/// Makes a context for the device of this name ("cpu"). The CPU device starts
/// the thread pool and loads the BLAS, so that later calls allocate nothing.
JPMHC_EXPORT int32_t jpmhcContextCreate(const char *device,
                                        jpmhcContext **context);

/// Destroys the context and all memory still allocated from it. Null is fine.
JPMHC_EXPORT void jpmhcContextDestroy(jpmhcContext *context);

/// Message of the calling thread's last failed call, "" when there was none;
/// valid until its next failure. `context` may be null.
JPMHC_EXPORT const char *jpmhcLastError(const jpmhcContext *context);

/// Records `message` as the calling thread's last failure and returns `status`:
/// how compiled code and devices report.
JPMHC_EXPORT int32_t jpmhcFail(int32_t status, const char *message);

/// Sets the trace callback; a null `trace` ends tracing. An unset trace costs
/// one load and a branch a call.
JPMHC_EXPORT int32_t jpmhcSetTrace(jpmhcContext *context, jpmhcTraceFn trace,
                                   void *user);

/// With `finite` not 0 every launch and product reads what it has written and
/// fails with JPMHC_NOT_FINITE, naming kernel and location, at a NaN or an
/// infinity. Unset it costs one load and a branch a call.
JPMHC_EXPORT int32_t jpmhcSetCheck(jpmhcContext *context, int32_t finite);

/// Index of the first element that is a NaN or an infinity, or -1. `type` is a
/// jpmhcDType.
JPMHC_EXPORT int64_t jpmhcFindNotFinite(int32_t type, const void *data,
                                        int64_t count);

//===----------------------------------------------------------------------===//
// Traces in the format of Chrome and Perfetto
//===----------------------------------------------------------------------===//

/// Records every event of the context from now on (a jpmhcSetTrace).
JPMHC_EXPORT int32_t jpmhcTraceStart(jpmhcContext *context);

/// Adds an event, such as a step around its kernels.
JPMHC_EXPORT void jpmhcTraceRecord(const jpmhcTraceEvent *event);

/// Nanoseconds of the clock that events are stamped with.
JPMHC_EXPORT int64_t jpmhcTraceNow(void);

/// Writes what was recorded since the last write, beside and renamed.
JPMHC_EXPORT int32_t jpmhcTraceWrite(const char *path);

//===----------------------------------------------------------------------===//
// Launches and library calls
//===----------------------------------------------------------------------===//

/// Runs `kernel` over rows lo <= row < hi. `grain` >= 1 is the least number of
/// rows worth a task: chunks are contiguous and start at multiples of it from
/// `lo`. An empty range does nothing. `stream` is null or a stream of this
/// context.
JPMHC_EXPORT int32_t jpmhcLaunch(jpmhcContext *context,
                                 const jpmhcKernel *kernel, void *stream,
                                 int64_t lo, int64_t hi, int64_t grain,
                                 void **args);

/// C[m,n] = op(A)[m,k] op(B)[k,n] + beta C, all row-major; op transposes where
/// the flag is not 0. Leading dimensions count elements between stored rows.
/// beta = 0 never reads C, and k = 0 gives beta C. Results are bit-equal for
/// any number of threads.
JPMHC_EXPORT int32_t jpmhcGemm(jpmhcContext *context, void *stream,
                               int32_t inputType, int32_t outputType,
                               int32_t transA, int32_t transB, int64_t m,
                               int64_t n, int64_t k, const void *a, int64_t lda,
                               const void *b, int64_t ldb, float beta, void *c,
                               int64_t ldc, const char *location);

/// `batch` products as of jpmhcGemm; matrix i of A starts `i * strideA`
/// elements from `a`, and so on. strideA or strideB may be 0 (shared matrix);
/// the matrices of C must not overlap.
JPMHC_EXPORT int32_t jpmhcGemmBatched(
    jpmhcContext *context, void *stream, int32_t inputType, int32_t outputType,
    int32_t transA, int32_t transB, int64_t batch, int64_t m, int64_t n,
    int64_t k, const void *a, int64_t lda, int64_t strideA, const void *b,
    int64_t ldb, int64_t strideB, float beta, void *c, int64_t ldc,
    int64_t strideC, const char *location);

/// Writes the path of the BLAS that serves products, loading it first.
JPMHC_EXPORT int32_t jpmhcDescribeBlas(char *path, int64_t size);

/// Copies bytes; the ranges must not overlap unless they are the same.
JPMHC_EXPORT int32_t jpmhcCopy(jpmhcContext *context, void *stream,
                               void *target, const void *source, int64_t bytes);

/// Sets bytes to `value` (0..255).
JPMHC_EXPORT int32_t jpmhcFill(jpmhcContext *context, void *stream,
                               void *target, int32_t value, int64_t bytes);

//===----------------------------------------------------------------------===//
// Streams and events. On the CPU every call is done when it returns, so that a
// stream is a mere token and an event a time.
//===----------------------------------------------------------------------===//

JPMHC_EXPORT int32_t jpmhcStreamCreate(jpmhcContext *context, void **stream);
JPMHC_EXPORT int32_t jpmhcStreamDestroy(jpmhcContext *context, void *stream);
/// Waits for all work of the stream.
JPMHC_EXPORT int32_t jpmhcStreamSynchronize(jpmhcContext *context,
                                            void *stream);
JPMHC_EXPORT int32_t jpmhcEventCreate(jpmhcContext *context, void **event);
JPMHC_EXPORT int32_t jpmhcEventDestroy(jpmhcContext *context, void *event);
/// Marks the point that the stream has come to.
JPMHC_EXPORT int32_t jpmhcEventRecord(jpmhcContext *context, void *event,
                                      void *stream);
/// Lets later work of the stream wait for the event.
JPMHC_EXPORT int32_t jpmhcEventWait(jpmhcContext *context, void *event,
                                    void *stream);
/// Nanoseconds from one recorded event to another.
JPMHC_EXPORT int32_t jpmhcEventElapsed(jpmhcContext *context, void *start,
                                       void *end, int64_t *nanoseconds);

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Allocates an arena, aligned to 64 bytes; large ones are on huge pages where
/// the system gives them. 0 bytes give null.
JPMHC_EXPORT int32_t jpmhcAlloc(jpmhcContext *context, int64_t bytes,
                                void **memory);

/// Frees an arena of this context. Null is fine, a foreign pointer an error.
JPMHC_EXPORT int32_t jpmhcFree(jpmhcContext *context, void *memory);

/// Bytes in arenas now, and the most there were since the context was made or
/// the peak was reset. Sizes count as requested, rounded up to 64.
JPMHC_EXPORT int64_t jpmhcCurrentBytes(const jpmhcContext *context);
JPMHC_EXPORT int64_t jpmhcPeakBytes(const jpmhcContext *context);
JPMHC_EXPORT void jpmhcResetPeakBytes(jpmhcContext *context);

//===----------------------------------------------------------------------===//
// The process's thread pool
//===----------------------------------------------------------------------===//

/// Sets the number of threads, the caller included, 1 <= count <= 128; waits
/// for a parallel region in flight. An error from inside a region. Unset, it is
/// the environment's JPMHC_NUM_THREADS, else the processors this process may
/// use.
JPMHC_EXPORT int32_t jpmhcSetNumThreads(int32_t count);
JPMHC_EXPORT int32_t jpmhcGetNumThreads(void);

typedef void (*jpmhcRangeFn)(int64_t lo, int64_t hi, void *user);

/// Calls `function` on parts of lo <= i < hi that start at multiples of `grain`
/// (at least 1) from `lo`, on the pool's threads; returns when all are done.
/// Serial when called from inside a region or while another thread uses the
/// pool.
JPMHC_EXPORT void jpmhcParallelFor(int64_t lo, int64_t hi, int64_t grain,
                                   jpmhcRangeFn function, void *user);

//===----------------------------------------------------------------------===//
// Symbols that compiled host code may refer to. A JIT defines them with
// X(name) -> (#name, &name); a test of ahead-of-time products allows no others.
//===----------------------------------------------------------------------===//
#define JPMHC_RUNTIME_SYMBOLS(X)                                               \
  X(jpmhcLaunch)                                                               \
  X(jpmhcGemm)                                                                 \
  X(jpmhcGemmBatched)                                                          \
  X(jpmhcCopy)                                                                 \
  X(jpmhcFill)                                                                 \
  X(jpmhcFail)                                                                 \
  X(jpmhcEventRecord)                                                          \
  X(jpmhcEventWait)

#ifdef __cplusplus
} // extern "C"
#endif

#endif // JPMHC_RUNTIME_LAUNCH_H
