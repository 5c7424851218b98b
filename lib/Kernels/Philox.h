// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The counter-based generator behind every random number.
#ifndef JPMHC_KERNELS_PHILOX_H
#define JPMHC_KERNELS_PHILOX_H

#include "jpmhc/Kernels/KernelBuilder.h"
#include <array>

namespace jpmhc {

using RandomWords = std::array<Val, 4>;

/// Philox 4×32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy
/// as 1, 2, 3, SC 2011): four random i32 of a counter of four i32 under a key
/// of two.
RandomWords philox(RandomWords counter, std::array<Val, 2> key);

} // namespace jpmhc

#endif // JPMHC_KERNELS_PHILOX_H
