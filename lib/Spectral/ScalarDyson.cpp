// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ScalarDyson.cpp - The cubic of Y = a I + sigma X -------------------===//
#include "jpmhc/Spectral/ScalarDyson.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

using namespace jpmhc::spectral;

using Complex = std::complex<double>;
using Roots = std::array<Complex, 3>;

namespace {
/// The cubic in h = sigma^2 G, whose coefficients stay moderate for small
/// sigma: z h^3 - 2 z h^2 + (z + sigma^2 - a^2) h - sigma^2.
struct Cubic {
  Complex c3, c2, c1, c0;

  Cubic(double a, double sigma2, Complex z)
      : c3(z), c2(-2.0 * z), c1(z + sigma2 - a * a), c0(-sigma2) {}

  Complex value(Complex h) const { return ((c3 * h + c2) * h + c1) * h + c0; }
  Complex slope(Complex h) const { return (3.0 * c3 * h + 2.0 * c2) * h + c1; }
};
} // namespace

/// All roots at once by the method of Ehrlich and Aberth, from `start`.
static Roots solve(const Cubic &cubic, Roots h) {
  constexpr int kMostSteps = 100;
  for (int step = 0; step < kMostSteps; ++step) {
    double change = 0;
    for (int i = 0; i < 3; ++i) {
      Complex newton = cubic.slope(h[i]);
      Complex value = cubic.value(h[i]);
      if (value == 0.0)
        continue;
      Complex ratio = newton == 0.0 ? Complex(1, 0) : value / newton;
      Complex others = 0;
      for (int j = 0; j < 3; ++j)
        if (j != i && h[i] != h[j])
          others += 1.0 / (h[i] - h[j]);
      Complex delta = ratio / (1.0 - ratio * others);
      h[i] -= delta;
      change =
          std::max(change, std::abs(delta) / std::max(std::abs(h[i]), 1e-300));
    }
    if (change < 4 * std::numeric_limits<double>::epsilon())
      break;
  }
  return h;
}

/// Puts the root that `guess` continues first; false when the roots are too
/// close together, compared with its change, to tell.
static bool chooseNearest(Roots &h, Complex guess) {
  std::sort(h.begin(), h.end(), [&](Complex x, Complex y) {
    return std::abs(x - guess) < std::abs(y - guess);
  });
  return 3 * std::abs(h[0] - guess) <= std::abs(h[1] - h[0]);
}

/// The roots at z, the right one first: followed down from far above z.
static Roots followDown(double a, double sigma2, Complex z) {
  double far = 1e3 * (a * a + sigma2 + std::abs(z.real()));
  double height = std::max(far, z.imag());
  Complex at(z.real(), height);
  // Far away the right root is sigma^2 / z and the others lie near 1.
  Roots h = solve(Cubic(a, sigma2, at),
                  {sigma2 / at, Complex(1.1, 0.1), Complex(0.9, -0.1)});
  chooseNearest(h, sigma2 / at);
  double factor = 0.5;
  while (height > z.imag()) {
    double next = std::max(height * factor, z.imag());
    Roots trial = solve(Cubic(a, sigma2, {z.real(), next}), h);
    bool clear = chooseNearest(trial, h[0]);
    if (!clear && factor < 1 - 1e-4) {
      factor = std::sqrt(factor);
      continue;
    }
    h = trial;
    height = next;
    factor = std::max(factor * factor, 0.5);
  }
  return h;
}

static Status check(double a, double sigma2, int64_t count, const Complex *z) {
  if (!std::isfinite(a))
    return Status::value("expected a finite a, got " + std::to_string(a));
  if (!(sigma2 >= 0) || !std::isfinite(sigma2))
    return Status::value("expected a finite sigma2 >= 0, got " +
                         std::to_string(sigma2));
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(z[i].real()) || !(z[i].imag() > 0) ||
        !std::isfinite(z[i].imag()))
      return Status::value("expected z in the upper half plane, got z[" +
                           std::to_string(i) +
                           "] = " + std::to_string(z[i].real()) + " + " +
                           std::to_string(z[i].imag()) + "i");
  return Status::ok();
}

Status jpmhc::spectral::solveScalarDyson(double a, double sigma2, int64_t count,
                                         const Complex *z, Complex *g,
                                         Complex *roots,
                                         const Observer &observer) {
  Status status = check(a, sigma2, count, z);
  if (!status.isOk())
    return status;
  auto solvePoint = [&](int64_t i) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    Roots found = {1.0 / (z[i] - a * a), kInfinity, kInfinity};
    if (sigma2 > 0) {
      found = followDown(a, sigma2, z[i]);
      for (Complex &root : found)
        root /= sigma2;
    }
    g[i] = found[0];
    if (roots)
      std::copy(found.begin(), found.end(), roots + 3 * i);
  };
  return forEachChunk(count, 16, observer,
                      [&](int64_t lo, int64_t hi, Progress &progress) {
                        for (int64_t i = lo; i < hi; ++i) {
                          solvePoint(i);
                          if (!progress.advance())
                            return;
                        }
                      });
}
