// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ScalarDyson.h - The cubic of Y = a I + sigma X ------------*- C++
//-*-===//
#ifndef JPMHC_SPECTRAL_SCALARDYSON_H
#define JPMHC_SPECTRAL_SCALARDYSON_H

#include "jpmhc/Spectral/Parallel.h"

#include <complex>

namespace jpmhc::spectral {

/// G(z) = lim (1/N) tr (z - Y^T Y)^-1 for Y = a I + sigma X, X_ij iid with
/// variance 1/N, at `count` points z with Im z > 0. G solves
///
///   z sigma^4 G^3 - 2 z sigma^2 G^2 + (z + sigma^2 - a^2) G - 1 = 0,
///
/// of whose roots the one is taken that continues G ~ 1/z along the vertical
/// line from large |z|. `roots`, if not null, receives three roots a point, the
/// chosen one first (for sigma^2 = 0 the other two are infinite).
Status solveScalarDyson(double a, double sigma2, int64_t count,
                        const std::complex<double> *z, std::complex<double> *g,
                        std::complex<double> *roots,
                        const Observer &observer = {});

} // namespace jpmhc::spectral

#endif // JPMHC_SPECTRAL_SCALARDYSON_H
