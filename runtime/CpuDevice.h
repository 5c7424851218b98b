// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- CpuDevice.h - The launch ABI on the process's threads --------------===//
#ifndef JPMHC_RUNTIME_CPUDEVICE_H
#define JPMHC_RUNTIME_CPUDEVICE_H

#include "jpmhc/Runtime/Device.h"

namespace jpmhc::runtime {

/// A DeviceFactory: loads the BLAS and starts the pool's threads.
Device *createCpuDevice(int32_t *status);

} // namespace jpmhc::runtime

#endif // JPMHC_RUNTIME_CPUDEVICE_H
