// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Convolution.h - Free convolutions of single layers --------*- C++
//-*-===//
#ifndef JPMHC_SPECTRAL_CONVOLUTION_H
#define JPMHC_SPECTRAL_CONVOLUTION_H

#include "jpmhc/Spectral/Parallel.h"

#include <complex>
#include <vector>

namespace jpmhc::spectral {

/// Where results of a point go; null pointers are left out.
struct PointResults {
  std::complex<double> *value = nullptr;
  double *residual = nullptr;
  int64_t *steps = nullptr;
  bool *converged = nullptr;
};

/// One layer Y = A (x) I + sigma X: t = w G(w^2) by additive subordination,
///
///   t = (1/q) sum_i d / (d^2 - s_i),  d = w - sigma^2 t,
///
/// s_i the eigenvalues of A^T A. Exact. `squares` holds the q of them; the
/// points w have Im w > 0 and should be close to their neighbours.
Status solveLayer(int64_t q, const double *squares, double sigma2,
                  int64_t count, const std::complex<double> *w,
                  const PointResults &results, const Observer &observer = {});

/// Layers that have one spectrum, and how many of them there are.
struct FreeFactor {
  std::vector<double> squares;
  double sigma2;
  int64_t copies;
};

/// G(z) of a product of layers whose squares Y_l^T Y_l are free: with the
/// S-transform of a product the product of the S-transforms,
///
///   z = (1 + y) y^(L-1) / prod_l g_l,  y = z G(z) - 1,
///
/// and g_l the Green's function of layer l alone where z_l g_l = 1 + y.
/// Followed down from far above z. Holds for independent Haar rotations between
/// the layers, and for Kronecker mixers that are multiples of orthogonal
/// matrices.
Status solveFreeProduct(const std::vector<FreeFactor> &factors, int64_t count,
                        const std::complex<double> *z,
                        const PointResults &results,
                        const Observer &observer = {});

} // namespace jpmhc::spectral

#endif // JPMHC_SPECTRAL_CONVOLUTION_H
