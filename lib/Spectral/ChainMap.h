// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ChainMap.h - The map whose fixed point solves a chain -----*- C++
//-*-===//
#ifndef JPMHC_LIB_SPECTRAL_CHAINMAP_H
#define JPMHC_LIB_SPECTRAL_CHAINMAP_H

#include "jpmhc/Spectral/Chain.h"

namespace jpmhc::spectral {

using Complex = std::complex<double>;

/// f(t) = (1/q) tr M_ii and its derivative, each in O(L q^3). Holds the
/// workspace of one thread. All quantities are those of the scaled model. The
/// interface shows nothing of Eigen, which is compiled for more than one
/// processor behind it.
class ChainMap {
public:
  virtual ~ChainMap() = default;

  /// next = f(t) at w.
  virtual void evaluate(Complex w, const Complex *t, Complex *next) = 0;
  /// Prepares `differentiate` at the point of the last evaluation.
  virtual void linearize() = 0;
  /// out = df/dt dt + df/dw dw.
  virtual void differentiate(const Complex *dt, Complex dw, Complex *out) = 0;
  /// The block M[v_0, v_0] of the last evaluation.
  virtual void getBlock(Complex *out) const = 0;
};

/// The map for a model, with blocks of fixed size where q is small, compiled
/// for this processor.
std::unique_ptr<ChainMap> createChainMap(const ChainModel &model);

std::unique_ptr<ChainMap> createBaselineChainMap(const ChainModel &model);
/// For processors with AVX2 and FMA; exists where JPMHC_SPECTRAL_AVX2 is set.
std::unique_ptr<ChainMap> createAvx2ChainMap(const ChainModel &model);

} // namespace jpmhc::spectral

#endif // JPMHC_LIB_SPECTRAL_CHAINMAP_H
