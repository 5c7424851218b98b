// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Chain.h - Exact Green's function of a product of layers ---*- C++
//-*-===//
//
// J = Y_L ... Y_1 with Y_k = A_k (x) I_p + sigma_k X_k, X_k independent with
// iid entries of variance 1/N, N = q p, in the limit N -> infinity at fixed q.
//
// J is linearised as a chain of 2 L nodes v_0, b_1, v_1, ..., v_{L-1}, b_L of
// q x q blocks: H[b_k, v_{k-1}] = -A_k, H[v_k, b_k] = I, H[v_0, v_0] =
// H[b_L, b_L] = w and zeros otherwise; the Schur complement of H on v_0 is
// w - J^T J / w. The self energy is a scalar on each node, so with
// M = (H - Sigma)^-1 and t_i = (1/q) tr M_ii the equations are
//
//   Sigma[v_{k-1}] = sigma_k^2 t[b_k],  Sigma[b_k] = sigma_k^2 t[v_{k-1}]
//
// in only 2 L unknowns t. Then w G(w^2) = t[v_0], where G(z) is the normalised
// trace of (z - J^T J)^-1, and the density of singular values at s is
// -(2/pi) Im t[v_0] at w = s + i 0.
//
// The map t -> (1/q) tr M_ii takes the lower half plane into itself, so for
// Im w > 0 a fixed point with all Im t < 0 is unique: however it was found, it
// is the right branch.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_SPECTRAL_CHAIN_H
#define JPMHC_SPECTRAL_CHAIN_H

#include "jpmhc/Spectral/Parallel.h"

#include <complex>
#include <cstdint>
#include <memory>
#include <vector>

namespace jpmhc::spectral {

/// The layers, scaled so that every partial product has (1/N) tr J^T J = 1.
class ChainModel {
public:
  /// `mixers` holds depth matrices of q x q, row by row, the first applied
  /// first; `sigma2` one variance a layer.
  static Status create(int64_t q, int64_t depth, const double *mixers,
                       const double *sigma2, std::unique_ptr<ChainModel> &out);

  int64_t getSize() const { return q; }
  int64_t getDepth() const { return depth; }
  /// The matrix of layer k (0-based), row by row, and its variance, scaled.
  const double *getMixer(int64_t k) const { return mixers.data() + k * q * q; }
  double getSigma2(int64_t k) const { return sigma2[k]; }
  /// sqrt((1/N) tr J_k^T J_k) of the product of the first k layers.
  double getScale(int64_t k) const { return scales[k]; }
  /// (1/N) E tr J^T J, exact at any N: C_0 = I, C_k = A_k C_{k-1} A_k^T +
  /// sigma_k^2 tr(C_{k-1})/q I, and this is tr(C_L)/q.
  double getFirstMoment() const { return scales.back() * scales.back(); }

private:
  int64_t q = 0, depth = 0;
  std::vector<double> mixers, sigma2, scales;
};

enum class ChainMethod {
  /// Newton's method, warm started along the points of a chunk; where that
  /// fails, continuation in Im w with automatic steps.
  Newton,
  /// t <- (t + f(t)) / 2 from t = -i at each point, for comparison.
  Damped,
  /// The same with Anderson's acceleration over the last few steps.
  Anderson,
};

struct ChainOptions {
  ChainMethod method = ChainMethod::Newton;
  /// A point counts as converged when its residual max |f(t) - t| / (1 + |t|),
  /// in units where (1/N) tr J^T J = 1, is below this. 0: what rounding lets
  /// every depth reach, 1e-10 max(1, L / 10).
  double tolerance = 0;
  /// Most sweeps for a point.
  int64_t maxSweeps = 20000;
  /// Points that are solved one after the other, each from its predecessor.
  int64_t chunk = 25;
};

/// Where results go; null pointers are left out. Everything is per point.
struct ChainResults {
  /// w G(w^2).
  std::complex<double> *value = nullptr;
  /// d value / d w.
  std::complex<double> *slope = nullptr;
  /// All 2 L unknowns, in the order of the chain.
  std::complex<double> *unknowns = nullptr;
  /// The block M[v_0, v_0], q x q: w times the operator-valued G.
  std::complex<double> *block = nullptr;
  double *residual = nullptr;
  /// Evaluations of the map or of its derivative.
  int64_t *sweeps = nullptr;
  bool *converged = nullptr;
};

/// Solves at `count` points w with Im w >= 0 (on the axis, the limit from
/// above). Neighbouring points should lie close to each other. A point that
/// does not converge is reported as such and is no failure. `start`, if not
/// null, holds 2 L unknowns a point from which Newton's method is tried first.
Status solveChain(const ChainModel &model, int64_t count,
                  const std::complex<double> *w,
                  const std::complex<double> *start,
                  const ChainOptions &options, const ChainResults &results,
                  const Observer &observer = {});

} // namespace jpmhc::spectral

#endif // JPMHC_SPECTRAL_CHAIN_H
