// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Check.cpp - Search for NaNs and infinities -------------------------===//
#include "Check.h"

#include "jpmhc/Runtime/Device.h"

#include <cmath>
#include <cstring>

using namespace jpmhc::runtime;

//===----------------------------------------------------------------------===//
// Numbers by their bits: all ones in the exponent is a NaN or an infinity.
//===----------------------------------------------------------------------===//

template <typename Bits>
static int64_t find(const void *data, int64_t count, Bits exponent) {
  const char *bytes = static_cast<const char *>(data);
  for (int64_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent)
      return i;
  }
  return -1;
}

static int64_t bytesOf(int32_t type) {
  return type == JPMHC_F64 ? 8 : type == JPMHC_F32 ? 4 : 2;
}

int64_t jpmhcFindNotFinite(int32_t type, const void *data, int64_t count) {
  if (!data)
    return -1;
  switch (type) {
  case JPMHC_F32:
    return find<uint32_t>(data, count, 0x7f800000u);
  case JPMHC_BF16:
    return find<uint16_t>(data, count, 0x7f80u);
  case JPMHC_F16:
    return find<uint16_t>(data, count, 0x7c00u);
  case JPMHC_F64:
    return find<uint64_t>(data, count, 0x7ff0000000000000u);
  }
  return -1;
}

static const char *nameOf(int32_t type, const void *data, int64_t index) {
  double value = 0;
  const char *at = static_cast<const char *>(data) + index * bytesOf(type);
  if (type == JPMHC_F64) {
    std::memcpy(&value, at, sizeof(value));
  } else {
    uint32_t bits = 0;
    std::memcpy(&bits, at, bytesOf(type));
    if (type == JPMHC_BF16)
      bits <<= 16;
    if (type == JPMHC_F16) // all exponent bits are set: widen them
      bits = (bits & 0x8000u) << 16 | 0x7f800000u | (bits & 0x3ffu) << 13;
    float single;
    std::memcpy(&single, &bits, sizeof(single));
    value = single;
  }
  return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
}

static int32_t report(const char *kernel, const char *location, int32_t type,
                      const void *data, int64_t index, const char *what) {
  return fail(JPMHC_NOT_FINITE, "%s%s'%s' wrote %s at element %lld of %s",
              location ? location : "", location ? ": " : "", kernel,
              nameOf(type, data, index), static_cast<long long>(index), what);
}

int32_t jpmhc::runtime::checkLaunch(const jpmhcKernel &kernel, void **args) {
  if (!kernel.argWrites || !kernel.argBytes)
    return JPMHC_OK;
  for (int64_t i = 0; i < kernel.numArgs; ++i) {
    int32_t type = kernel.argWrites[i];
    if (type == 0 || kernel.argBytes[i] < 0)
      continue;
    int64_t found =
        jpmhcFindNotFinite(type, args[i], kernel.argBytes[i] / bytesOf(type));
    if (found < 0)
      continue;
    char what[32];
    snprintf(what, sizeof(what), "argument %lld", static_cast<long long>(i));
    return report(kernel.name, kernel.location, type, args[i], found, what);
  }
  return JPMHC_OK;
}

int32_t jpmhc::runtime::checkGemmResult(const GemmCall &call,
                                        const char *location) {
  int64_t size = bytesOf(call.outputType);
  const char *data = static_cast<const char *>(call.c);
  for (int64_t i = 0; i < call.batch; ++i)
    for (int64_t row = 0; row < call.m; ++row) {
      const char *start = data + (i * call.strideC + row * call.ldc) * size;
      int64_t found = jpmhcFindNotFinite(call.outputType, start, call.n);
      if (found >= 0)
        return report("gemm", location, call.outputType, start, found,
                      "a row of the product");
    }
  return JPMHC_OK;
}
