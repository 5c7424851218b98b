// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Device.h - What a device implements behind the launch ABI ----------===//
#ifndef JPMHC_RUNTIME_DEVICE_H
#define JPMHC_RUNTIME_DEVICE_H

#include "jpmhc/Runtime/Launch.h"

#include <cstdarg>
#include <cstdint>
#include <cstdio>

namespace jpmhc::runtime {

/// A product as of jpmhcGemmBatched. Devices get it with types, sizes, leading
/// dimensions and pointers checked, and with m, n and batch at least 1; k may
/// be 0.
struct GemmCall {
  int32_t inputType, outputType;
  bool transA, transB;
  int64_t batch, m, n, k;
  const void *a;
  int64_t lda, strideA;
  const void *b;
  int64_t ldb, strideB;
  float beta;
  void *c;
  int64_t ldc, strideC;
};

/// Records a message in printf style for jpmhcLastError and returns `status`.
__attribute__((format(printf, 2, 3))) inline int32_t
fail(jpmhcStatus status, const char *format, ...) {
  char message[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  return jpmhcFail(status, message);
}

/// Name of a jpmhcDType for messages.
inline const char *getTypeName(int32_t type) {
  switch (type) {
  case JPMHC_F32:
    return "f32";
  case JPMHC_BF16:
    return "bf16";
  case JPMHC_F16:
    return "f16";
  case JPMHC_F64:
    return "f64";
  default:
    return "an unknown type";
  }
}

/// One way to run kernels. Arguments were checked by the ABI's entry points;
/// statuses are those of Launch.h. Called from several threads at once.
class Device {
public:
  virtual ~Device() = default;

  /// Rows lo < hi of the kernel, grain >= 1.
  virtual int32_t launch(const jpmhcKernel &kernel, void *stream, int64_t lo,
                         int64_t hi, int64_t grain, void **args) = 0;
  virtual int32_t gemm(const GemmCall &call, void *stream) = 0;
  /// bytes >= 1, disjoint ranges.
  virtual int32_t copy(void *target, const void *source, int64_t bytes,
                       void *stream) = 0;
  /// bytes >= 1, value a byte.
  virtual int32_t fill(void *target, int32_t value, int64_t bytes,
                       void *stream) = 0;

  /// Memory aligned to 64 bytes, bytes >= 1 a multiple of 64; null when there
  /// is none.
  virtual void *allocate(int64_t bytes) = 0;
  virtual void deallocate(void *memory, int64_t bytes) = 0;

  virtual int32_t createStream(void **stream) = 0;
  virtual int32_t destroyStream(void *stream) = 0;
  virtual int32_t synchronize(void *stream) = 0;
  virtual int32_t createEvent(void **event) = 0;
  virtual int32_t destroyEvent(void *event) = 0;
  virtual int32_t recordEvent(void *event, void *stream) = 0;
  virtual int32_t waitEvent(void *event, void *stream) = 0;
  virtual int32_t elapsed(void *start, void *end, int64_t *nanoseconds) = 0;
};

/// Makes a device; on failure returns null after `fail`, whose status goes to
/// `status`.
using DeviceFactory = Device *(*)(int32_t *status);

} // namespace jpmhc::runtime

/// Adds a device to the names that jpmhcContextCreate knows; `name` must
/// outlive the process. A name already taken is an error.
extern "C" JPMHC_EXPORT int32_t
jpmhcRegisterDevice(const char *name, jpmhc::runtime::DeviceFactory factory);

#endif // JPMHC_RUNTIME_DEVICE_H
