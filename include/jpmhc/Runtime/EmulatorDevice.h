// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The emulator behind the launch ABI (jpmhc/Runtime/Launch.h): the device
// "emulator" runs compiled steps as a GPU would. Its memory is the host's;
// products, copies and fills are done by the CPU device.

#ifndef JPMHC_RUNTIME_EMULATORDEVICE_H
#define JPMHC_RUNTIME_EMULATORDEVICE_H

#include "jpmhc/Runtime/Emulator.h"

namespace jpmhc::emulator {

/// What the launches of a kernel added up to.
struct KernelTotals {
  uint64_t launches = 0;
  /// Rows of all launches.
  int64_t rows = 0;
  /// `unique` counts every byte once a launch.
  Traffic traffic;
  /// Shared memory of a block, the most of all launches.
  uint64_t sharedBytes = 0;
};

/// What `jpmhcKernel::handle` points to on this device. The kernel's parameters
/// are the bounds of the rows (i64 lower, i64 upper), then the arguments of the
/// launch: an address for a buffer, the value for a scalar.
struct EmulatedKernel {
  Emulator *emulator = nullptr;
  std::string name;
  /// Threads of a block, along x.
  uint32_t blockThreads = 128;
  /// Block b works on rows from lower + b * rowsPerBlock.
  int64_t rowsPerBlock = 1;
  uint32_t dynamicSharedBytes = 0;
  KernelTotals totals;
};

/// Makes the device known as "emulator"; does nothing the second time. Returns
/// a status of the launch ABI.
int32_t registerEmulatorDevice();

/// The order of threads and blocks of launches from now on, as of
/// EmulatorLaunch::seed: the n-th launch gets a seed drawn from `seed` and n, 0
/// keeps the natural order. Unset, it is the environment's
/// JPMHC_EMULATOR_SEED, else 0.
void setEmulatorSeed(uint64_t seed);

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATORDEVICE_H
