// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions that neither targets nor upstream's polynomials give accurately
// without a library call: branch-free, so that columns stay vectors.
#ifndef JPMHC_KERNELS_SPECIALFUNCTIONS_H
#define JPMHC_KERNELS_SPECIALFUNCTIONS_H

#include "jpmhc/Kernels/KernelBuilder.h"

namespace jpmhc {

/// Sine and cosine of `quadrant · π/2 + rest`, `rest` an f32 in [-π/4, π/4] and
/// `quadrant` an integer or index, taken modulo 4. Within 1e-7 of the truth.
std::pair<Val, Val> sinCos(Val quadrant, Val rest);

/// Sine and cosine, as f32, of an f64 angle in [0, 2^31).
std::pair<Val, Val> sinCos(Val angle);

/// atan2(y, x) for x >= 0, f32: within 3 ulp; 0 at the origin, ±π/4 where both
/// are infinite, NaN if either is.
Val atan2RightHalf(Val y, Val x);

} // namespace jpmhc

#endif // JPMHC_KERNELS_SPECIALFUNCTIONS_H
