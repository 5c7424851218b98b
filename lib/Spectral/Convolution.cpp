// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Convolution.cpp - Free convolutions of single layers ---------------===//
#include "jpmhc/Spectral/Convolution.h"

#include <algorithm>
#include <cmath>

using namespace jpmhc::spectral;

using Complex = std::complex<double>;

static Status checkPoints(int64_t count, const Complex *z) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(z[i].real()) || !std::isfinite(z[i].imag()) ||
        !(z[i].imag() > 0))
      return Status::value("expected points in the upper half plane, got " +
                           std::to_string(z[i].real()) + " + " +
                           std::to_string(z[i].imag()) + "i at index " +
                           std::to_string(i));
  return Status::ok();
}

static Status checkLayer(const double *squares, int64_t q, double sigma2) {
  bool good = q > 0 && sigma2 >= 0 && std::isfinite(sigma2);
  for (int64_t i = 0; i < q; ++i)
    good = good && squares[i] >= 0 && std::isfinite(squares[i]);
  return good ? Status::ok()
              : Status::value("expected finite squares and sigma2 >= 0");
}

/// Calls solvePoint(i) for each point; a chunk shares nothing with others.
template <typename Point>
static Status forEachPoint(int64_t count, const Observer &observer,
                           Point solveChunk) {
  return forEachChunk(count, 25, observer,
                      [&](int64_t lo, int64_t hi, Progress &progress) {
                        solveChunk(lo, hi, progress);
                      });
}

static void write(const PointResults &results, int64_t i, Complex value,
                  double residual, int64_t steps, bool converged) {
  if (results.value)
    results.value[i] = value;
  if (results.residual)
    results.residual[i] = residual;
  if (results.steps)
    results.steps[i] = steps;
  if (results.converged)
    results.converged[i] = converged;
}

//===----------------------------------------------------------------------===//
// One layer
//===----------------------------------------------------------------------===//

namespace {
/// In units where (1/q) sum s_i + sigma^2 = 1.
class LayerSolver {
public:
  LayerSolver(int64_t q, const double *squares, double sigma2)
      : squares(squares, squares + q) {
    double sum = 0;
    for (double s : this->squares)
      sum += s;
    double moment = sum / double(q) + sigma2;
    scale = std::sqrt(moment);
    if (!(moment > 0))
      scale = moment = 1;
    for (double &s : this->squares)
      s /= moment;
    this->sigma2 = sigma2 / moment;
  }

  double getScale() const { return scale; }
  double getResidual() const { return residual; }
  int64_t getSteps() const { return steps; }

  /// Solves at w from t if `warm`, else from far above.
  bool solve(Complex w, bool warm, Complex &t) {
    steps = 0;
    if (warm && newton(w, t))
      return true;
    double height = std::max(1.0, w.imag());
    t = Complex(0, -1);
    for (; height > w.imag(); height = std::max(height / 4, w.imag()))
      iterate({w.real(), height}, 4, t);
    // The map contracts in the half plane, be it slowly near the axis.
    for (int attempt = 0, damped = 8; attempt < 12; ++attempt, damped *= 2) {
      iterate(w, damped, t);
      Complex trial = t;
      if (newton(w, trial)) {
        t = trial;
        return true;
      }
    }
    return false;
  }

private:
  static constexpr double kTolerance = 1e-12;

  /// f(t) and df/dt.
  Complex evaluate(Complex w, Complex t, Complex &slope) {
    ++steps;
    Complex d = w - sigma2 * t, sum = 0, sumSlope = 0;
    for (double s : squares) {
      Complex inverse = 1.0 / (d * d - s);
      sum += inverse;
      sumSlope += (d * d + s) * inverse * inverse;
    }
    double q = squares.size();
    slope = sigma2 * sumSlope / q;
    return d * sum / q;
  }

  void iterate(Complex w, int count, Complex &t) {
    Complex slope;
    for (int i = 0; i < count; ++i)
      t = 0.5 * (t + evaluate(w, t, slope));
  }

  /// Converges to the one solution in the lower half plane, or fails.
  bool newton(Complex w, Complex &t) {
    for (int i = 0; i < 40; ++i) {
      Complex slope, next = evaluate(w, t, slope);
      residual = std::abs(next - t) / (1 + std::abs(t));
      if (residual < kTolerance)
        return t.imag() < 0;
      Complex step = (next - t) / (1.0 - slope);
      while ((t + step).imag() >= 0 && std::abs(step) > 1e-3 * std::abs(t))
        step *= 0.5;
      t += step;
      if (!(t.imag() < 0))
        return false;
    }
    return false;
  }

  std::vector<double> squares;
  double sigma2, scale, residual = 0;
  int64_t steps = 0;
};
} // namespace

Status jpmhc::spectral::solveLayer(int64_t q, const double *squares,
                                   double sigma2, int64_t count,
                                   const Complex *w,
                                   const PointResults &results,
                                   const Observer &observer) {
  Status status = checkLayer(squares, q, sigma2);
  if (status.isOk())
    status = checkPoints(count, w);
  if (!status.isOk())
    return status;
  return forEachPoint(
      count, observer, [&](int64_t lo, int64_t hi, Progress &progress) {
        LayerSolver solver(q, squares, sigma2);
        Complex t;
        bool warm = false;
        for (int64_t i = lo; i < hi; ++i) {
          warm = solver.solve(w[i] / solver.getScale(), warm, t);
          write(results, i, t / solver.getScale(), solver.getResidual(),
                solver.getSteps(), warm);
          if (!progress.advance())
            return;
        }
      });
}

//===----------------------------------------------------------------------===//
// Free products
//===----------------------------------------------------------------------===//

namespace {
/// Follows y and g_l of one point down to z.
class ProductSolver {
public:
  explicit ProductSolver(const std::vector<FreeFactor> &factors)
      : factors(factors), g(factors.size()), dg(factors.size()),
        depth(countLayers(factors)) {
    for (const FreeFactor &factor : factors) {
      double sum = 0, largest = 0;
      for (double s : factor.squares) {
        sum += s;
        largest = std::max(largest, s);
      }
      double moment = sum / double(factor.squares.size()) + factor.sigma2;
      moments.push_back(moment);
      logMoment += double(factor.copies) * std::log(moment);
      double root = std::sqrt(largest) + 2 * std::sqrt(factor.sigma2);
      spread = std::max(spread, root * root / moment);
    }
  }

  double getResidual() const { return residual; }
  int64_t getSteps() const { return steps; }

  /// z in units of the product of the layers' first moments.
  bool solve(Complex z, Complex &value) {
    steps = 0;
    double height =
        std::max(1e3 * (spread * double(depth) + std::abs(z.real())), z.imag());
    y = 1.0 / Complex(z.real(), height);
    for (size_t l = 0; l < g.size(); ++l)
      g[l] = y / moments[l];
    bool found = newton({z.real(), height});
    double factor = 0.7;
    while (found && height > z.imag()) {
      double lower = std::max(height * factor, z.imag());
      Complex keptY = y;
      std::vector<Complex> keptG = g;
      bool good = newton({z.real(), lower}) && isNear(keptY, y);
      for (size_t l = 0; l < g.size(); ++l)
        good = good && isNear(keptG[l], g[l]);
      if (good) {
        height = lower;
        factor = std::max(0.7, factor * factor);
        continue;
      }
      y = keptY;
      g = keptG;
      if (factor > 1 - 1e-5)
        return false;
      factor = std::sqrt(factor);
    }
    value = (1.0 + y) / z;
    return found && value.imag() <= 1e-12 * std::abs(value);
  }

  double getLogMoment() const { return logMoment; }

private:
  static int64_t countLayers(const std::vector<FreeFactor> &factors) {
    int64_t depth = 0;
    for (const FreeFactor &factor : factors)
      depth += factor.copies;
    return depth;
  }

  /// Whether a step was short enough that no other branch was taken.
  static bool isNear(Complex from, Complex to) {
    return std::abs(to - from) < 0.6 * std::abs(from);
  }

  /// Newton's method on F_l = u mean 1/(o - s) - g_l with u = 1 - sigma^2 g_l,
  /// o = (1 + y) u^2 / g_l, and F_0, the logarithm of the product's equation.
  bool newton(Complex z) {
    for (int i = 0; i < 20; ++i) {
      ++steps;
      Complex corner = 1.0 / (1.0 + y) + double(depth - 1) / y;
      // In units of the moments, the equation has their logarithm.
      Complex last =
          std::log((1.0 + y) / z) - logMoment + double(depth - 1) * std::log(y);
      Complex schur = corner, right = 0;
      residual = 0;
      for (size_t l = 0; l < g.size(); ++l) {
        Complex f, overG, overY;
        evaluateLayer(l, f, overG, overY);
        double copies = double(factors[l].copies);
        last -= copies * std::log(g[l]);
        schur += copies / g[l] * overY / overG;
        right -= copies / g[l] * f / overG;
        dg[l] = {f / overG, overY / overG};
        residual = std::max(residual, std::abs(f / g[l]));
      }
      last = {last.real(), std::remainder(last.imag(), 2 * M_PI)};
      residual = std::max(residual, std::abs(last));
      if (residual < 1e-12)
        return true;
      // d y from the Schur complement, then d g_l = -(f + F_y d y) / F_g.
      Complex dy = (-last + right) / schur;
      double length = std::min(1.0, 0.5 * std::abs(y) / std::abs(dy));
      for (size_t l = 0; l < g.size(); ++l)
        length =
            std::min(length, 0.5 * std::abs(g[l]) /
                                 std::abs(dg[l].first + dg[l].second * dy));
      for (size_t l = 0; l < g.size(); ++l)
        g[l] -= length * (dg[l].first + dg[l].second * dy);
      y += length * dy;
      if (!std::isfinite(std::abs(y)))
        return false;
    }
    return residual < 1e-9;
  }

  void evaluateLayer(size_t l, Complex &f, Complex &overG, Complex &overY) {
    const FreeFactor &factor = factors[l];
    Complex u = 1.0 - factor.sigma2 * g[l], ratio = (1.0 + y) / g[l];
    Complex o = ratio * u * u, sum = 0, sumSlope = 0;
    for (double s : factor.squares) {
      Complex inverse = 1.0 / (o - s);
      sum += inverse;
      sumSlope -= inverse * inverse;
    }
    double q = factor.squares.size();
    sum /= q;
    sumSlope /= q;
    Complex oOverG = -ratio / g[l] * u * u - 2 * factor.sigma2 * ratio * u;
    f = u * sum - g[l];
    overG = -factor.sigma2 * sum + u * sumSlope * oOverG - 1.0;
    overY = u * sumSlope * u * u / g[l];
  }

  const std::vector<FreeFactor> &factors;
  std::vector<Complex> g;
  std::vector<std::pair<Complex, Complex>> dg;
  int64_t depth;
  std::vector<double> moments;
  double logMoment = 0, spread = 0, residual = 0;
  Complex y;
  int64_t steps = 0;
};
} // namespace

Status jpmhc::spectral::solveFreeProduct(const std::vector<FreeFactor> &factors,
                                         int64_t count, const Complex *z,
                                         const PointResults &results,
                                         const Observer &observer) {
  Status status = checkPoints(count, z);
  for (const FreeFactor &factor : factors) {
    if (status.isOk())
      status = checkLayer(factor.squares.data(), factor.squares.size(),
                          factor.sigma2);
    bool vanishes =
        factor.sigma2 == 0 &&
        *std::max_element(factor.squares.begin(), factor.squares.end()) == 0;
    if (status.isOk() && (factor.copies < 1 || vanishes))
      status = Status::value("expected layers that do not vanish");
  }
  if (status.isOk() && factors.empty())
    status = Status::shape("expected at least one layer, got none");
  if (!status.isOk())
    return status;
  return forEachPoint(count, observer,
                      [&](int64_t lo, int64_t hi, Progress &progress) {
                        ProductSolver solver(factors);
                        double moment = std::exp(solver.getLogMoment());
                        for (int64_t i = lo; i < hi; ++i) {
                          Complex value;
                          bool found = solver.solve(z[i] / moment, value);
                          write(results, i, value / moment,
                                solver.getResidual(), solver.getSteps(), found);
                          if (!progress.advance())
                            return;
                        }
                      });
}
