// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Chain.cpp - Exact Green's function of a product of layers ----------===//
#include "jpmhc/Spectral/Chain.h"

#include "ChainMap.h"

#include <Eigen/Core>
#include <Eigen/LU>
#include <Eigen/QR>

#include <algorithm>
#include <cmath>
#ifdef __SSE2__
#include <immintrin.h>
#endif

using namespace jpmhc::spectral;

using Vector = Eigen::VectorXcd;

//===----------------------------------------------------------------------===//
// The model
//===----------------------------------------------------------------------===//

static Status checkModel(int64_t q, int64_t depth, const double *mixers,
                         const double *sigma2) {
  if (q < 1 || depth < 1)
    return Status::shape("expected at least one mixer of at least 1x1, got " +
                         std::to_string(depth) + " of " + std::to_string(q) +
                         "x" + std::to_string(q));
  for (int64_t i = 0; i < depth * q * q; ++i)
    if (!std::isfinite(mixers[i]))
      return Status::value("expected finite mixers, got " +
                           std::to_string(mixers[i]) + " in mixer " +
                           std::to_string(i / (q * q)));
  for (int64_t k = 0; k < depth; ++k)
    if (!(sigma2[k] >= 0) || !std::isfinite(sigma2[k]))
      return Status::value("expected finite sigma2 >= 0, got sigma2[" +
                           std::to_string(k) +
                           "] = " + std::to_string(sigma2[k]));
  return Status::ok();
}

Status ChainModel::create(int64_t q, int64_t depth, const double *mixers,
                          const double *sigma2,
                          std::unique_ptr<ChainModel> &out) {
  Status status = checkModel(q, depth, mixers, sigma2);
  if (!status.isOk())
    return status;
  using RowMajor =
      Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  auto model = std::make_unique<ChainModel>();
  model->q = q;
  model->depth = depth;
  model->mixers.assign(mixers, mixers + depth * q * q);
  model->sigma2.assign(sigma2, sigma2 + depth);
  model->scales.assign(1, 1.0);
  Eigen::MatrixXd second = Eigen::MatrixXd::Identity(q, q);
  for (int64_t k = 0; k < depth; ++k) {
    Eigen::Map<RowMajor> a(model->mixers.data() + k * q * q, q, q);
    second = (a * second * a.transpose()).eval() +
             sigma2[k] * Eigen::MatrixXd::Identity(q, q);
    double growth = second.trace() / double(q);
    // A product that vanishes has nothing to be scaled by.
    if (growth > 0) {
      a /= std::sqrt(growth);
      model->sigma2[k] /= growth;
      second /= growth;
      model->scales.push_back(model->scales.back() * std::sqrt(growth));
    } else {
      model->scales.push_back(0);
    }
  }
  double scale = model->scales.back();
  if (!(scale > 0))
    return Status::value("expected a product of layers that does not vanish, "
                         "got (1/N) tr J^T J = 0");
  if (!std::isfinite(scale * scale) || scale * scale < 1e-290)
    return Status::value("expected (1/N) tr J^T J within 1e-290 and 1e308, got "
                         "a product of layers outside of it");
  out = std::move(model);
  return Status::ok();
}

//===----------------------------------------------------------------------===//
// One point
//===----------------------------------------------------------------------===//

namespace {

/// Solves one point after the other on one thread.
class PointSolver {
public:
  PointSolver(const ChainModel &model, const ChainOptions &options,
              Progress &progress)
      : map(createChainMap(model)), options(options), progress(progress),
        size(2 * model.getDepth()),
        tolerance(options.tolerance > 0
                      ? options.tolerance
                      : 1e-10 * std::max(1.0, model.getDepth() / 10.0)),
        next(size) {}

  /// Solves at w. `t` holds a guess if `warm`, and the solution afterwards.
  bool solve(Complex w, bool warm, Vector &t);

  /// Of the t that `solve` left, at its w.
  double getResidual() const { return residual; }
  int64_t getSweeps() const { return sweeps; }
  ChainMap &getMap() { return *map; }
  /// dt/dw at a solution t.
  void solveTangent(Complex w, const Vector &t, Vector &tangent);

private:
  /// Systems up to this size are solved densely: their matrix costs about as
  /// many products with the derivative as GMRES would take.
  static constexpr int64_t kDenseSize = 12;

  void evaluate(Complex w, const Vector &t);
  bool iterate(Complex w, int64_t steps, double goal, Vector &t);
  bool accelerate(Complex w, int64_t steps, double goal, Vector &t);
  enum class Outcome { Converged, Settled, Astray };
  Outcome newton(Complex w, Vector &t);
  bool descend(Complex w, Vector &t);
  bool retry(Complex w, Vector &t);
  void solveLinear(const Vector &right, double relative, Vector &out);
  void solveDense(const Vector &right, Vector &out);
  void solveGmres(const Vector &right, double relative, Vector &out);
  void applyNewtonMatrix(const Vector &in, Vector &out);
  bool isInside(const Vector &t) const;
  bool isRightBranch(Complex w, const Vector &t);

  std::unique_ptr<ChainMap> map;
  const ChainOptions &options;
  Progress &progress;
  int64_t size;
  double tolerance;
  double residual = 0;
  int64_t sweeps = 0;
  Vector next, trial, step, column, saved;
};

} // namespace

/// Sets `next` and `residual`. After a wish to stop nothing is computed any
/// more, and the loops run out.
void PointSolver::evaluate(Complex w, const Vector &t) {
  if (!progress.advance(0)) {
    residual = HUGE_VAL;
    next = t;
    return;
  }
  map->evaluate(w, t.data(), next.data());
  ++sweeps;
  residual = 0;
  for (int64_t i = 0; i < size; ++i) {
    double r = std::abs(next[i] - t[i]) / (1 + std::abs(t[i]));
    // Written so that a NaN counts as a large residual.
    if (!(r <= residual))
      residual = std::isnan(r) ? HUGE_VAL : r;
  }
}

/// All imaginary parts in the closed lower half plane, up to rounding.
bool PointSolver::isInside(const Vector &t) const {
  constexpr double kRounding = 1e-11;
  for (int64_t i = 0; i < size; ++i)
    if (!(t[i].imag() <= kRounding * (1 + std::abs(t[i]))))
      return false;
  return true;
}

/// The largest change of an unknown, relative as residuals are.
static double getDistance(const Vector &from, const Vector &to) {
  return ((to - from).array().abs() / (1 + from.array().abs())).maxCoeff();
}

/// On the real axis outside the support t is real. Newton's method squares what
/// is left of the imaginary parts, and denormal numbers are slow.
static void dropRounding(Vector &t) {
  for (Complex &x : t)
    if (std::abs(x.imag()) > 1e-14 * (1 + std::abs(x)))
      return;
  t.imag().setZero();
}

/// The damped iteration; keeps Im t < 0.
bool PointSolver::iterate(Complex w, int64_t steps, double goal, Vector &t) {
  for (int64_t i = 0; i < steps; ++i) {
    evaluate(w, t);
    if (residual < goal)
      return true;
    t = 0.5 * (t + next);
  }
  return false;
}

/// Anderson's acceleration of the damped iteration, type II, over the last
/// `kHistory` differences. A step that would leave the half plane is replaced
/// by a damped one.
bool PointSolver::accelerate(Complex w, int64_t steps, double goal, Vector &t) {
  constexpr int64_t kHistory = 6;
  Eigen::MatrixXcd dt(size, kHistory), df(size, kHistory);
  Vector previousT, previousF, f;
  int64_t filled = 0, at = 0;
  for (int64_t i = 0; i < steps; ++i) {
    evaluate(w, t);
    if (residual < goal)
      return true;
    f = next - t;
    if (i > 0) {
      dt.col(at) = t - previousT;
      df.col(at) = f - previousF;
      at = (at + 1) % kHistory;
      filled = std::min(filled + 1, kHistory);
    }
    previousT = t;
    previousF = f;
    t += 0.5 * f;
    if (filled == 0)
      continue;
    Vector weights = df.leftCols(filled).colPivHouseholderQr().solve(f);
    trial = t - (dt.leftCols(filled) + 0.5 * df.leftCols(filled)) * weights;
    if (trial.allFinite() && isInside(trial))
      t = trial;
    else
      filled = at = 0;
  }
  return false;
}

void PointSolver::applyNewtonMatrix(const Vector &in, Vector &out) {
  if (!progress.advance(0)) {
    out = in;
    return;
  }
  out.resize(size);
  map->differentiate(in.data(), 0, out.data());
  ++sweeps;
  out = in - out;
}

void PointSolver::solveDense(const Vector &right, Vector &out) {
  Eigen::MatrixXcd matrix(size, size);
  Vector unit = Vector::Zero(size);
  for (int64_t i = 0; i < size; ++i) {
    unit[i] = 1;
    applyNewtonMatrix(unit, column);
    matrix.col(i) = column;
    unit[i] = 0;
  }
  out = matrix.partialPivLu().solve(right);
}

/// GMRES without restarts; stops at a residual of `relative` times the first.
void PointSolver::solveGmres(const Vector &right, double relative,
                             Vector &out) {
  int64_t most = std::min<int64_t>(size, 120);
  double norm = right.norm();
  out = Vector::Zero(size);
  if (!(norm > 0))
    return;
  std::vector<Vector> basis{right / norm};
  Eigen::MatrixXcd h = Eigen::MatrixXcd::Zero(most + 1, most);
  Vector rotated = Vector::Zero(most + 1);
  rotated[0] = norm;
  std::vector<double> cosines;
  std::vector<Complex> sines;
  int64_t used = 0;
  for (int64_t j = 0; j < most; ++j) {
    applyNewtonMatrix(basis[j], column);
    for (int64_t i = 0; i <= j; ++i) {
      h(i, j) = basis[i].dot(column);
      column -= h(i, j) * basis[i];
    }
    double length = column.norm();
    // Givens rotations make the Hessenberg matrix triangular as it grows.
    for (int64_t i = 0; i < j; ++i) {
      Complex upper = cosines[i] * h(i, j) + sines[i] * h(i + 1, j);
      h(i + 1, j) = -std::conj(sines[i]) * h(i, j) + cosines[i] * h(i + 1, j);
      h(i, j) = upper;
    }
    double pivot = std::hypot(std::abs(h(j, j)), length);
    if (!(pivot > 0))
      break;
    double magnitude = std::abs(h(j, j));
    Complex phase = magnitude > 0 ? h(j, j) / magnitude : 1.0;
    cosines.push_back(magnitude / pivot);
    sines.push_back(phase * (length / pivot));
    h(j, j) = phase * pivot;
    rotated[j + 1] = -std::conj(sines[j]) * rotated[j];
    rotated[j] *= cosines[j];
    used = j + 1;
    if (std::abs(rotated[j + 1]) <= relative * norm || length == 0)
      break;
    basis.push_back(column / length);
  }
  Vector y = h.topLeftCorner(used, used)
                 .triangularView<Eigen::Upper>()
                 .solve(rotated.head(used));
  for (int64_t i = 0; i < used; ++i)
    out += y[i] * basis[i];
}

void PointSolver::solveLinear(const Vector &right, double relative,
                              Vector &out) {
  if (size <= kDenseSize)
    solveDense(right, out);
  else
    solveGmres(right, relative, out);
}

/// Whether a fixed point with all Im t <= 0 is the right one. Above the axis it
/// is, being unique. On the axis a real one is only if it continues to such a
/// point above, where Im t = Im w dt/dw: if no dt/dw is positive.
bool PointSolver::isRightBranch(Complex w, const Vector &t) {
  if (w.imag() != 0 || !t.imag().isZero(0))
    return true;
  Vector tangent;
  double kept = residual;
  solveTangent(w, t, tangent);
  residual = kept;
  for (Complex x : tangent)
    if (!(x.real() <= 1e-6 * std::abs(tangent[0])))
      return false;
  return true;
}

/// Newton's method from t, shortened where it would leave the half plane.
/// Stops where the residual no longer falls. Converged if it is small by then,
/// settled if rounding keeps it from being: nothing helps there. Both only if
/// the last step was short. Near an edge of the support the residual r is small
/// on a real t where the equations have no real solution, but there steps are
/// about as long as the root of r.
PointSolver::Outcome PointSolver::newton(Complex w, Vector &t) {
  constexpr int kMostSteps = 25;
  constexpr double kPerfect = 1e-13, kRounding = 1e-6, kLongest = 1e3;
  double best = HUGE_VAL, change = 0;
  int worse = 0;
  for (int i = 0; i < kMostSteps; ++i) {
    evaluate(w, t);
    if (residual < best) {
      worse = residual > 0.5 * best ? worse + 1 : 0;
      best = residual;
      saved = t;
    } else {
      ++worse;
    }
    bool small = best < tolerance;
    if (best < kPerfect || (small && worse > 0) || worse > 4 ||
        !std::isfinite(residual) || sweeps > options.maxSweeps)
      break;
    map->linearize();
    solveLinear(next - t, std::clamp(0.1 * residual, 1e-9, 1e-2), step);
    double length = 1;
    for (int half = 0; half < 8; ++half, length *= 0.5) {
      trial = t + length * step;
      if (isInside(trial))
        break;
    }
    if (!trial.allFinite() || !isInside(trial))
      trial = 0.5 * (t + next);
    change = getDistance(t, trial);
    t = trial;
    if (w.imag() == 0)
      dropRounding(t);
  }
  if (!std::isfinite(best))
    return Outcome::Astray;
  t = saved;
  residual = best;
  bool converged = best < tolerance && change <= std::sqrt(tolerance);
  bool settled = best < kRounding && change <= kLongest * best;
  if (!(converged || settled) || !isInside(t) || !isRightBranch(w, t))
    return Outcome::Astray;
  return converged ? Outcome::Converged : Outcome::Settled;
}

/// From nothing: straight at w, which mostly succeeds, else by continuation
/// from far above the axis down to w.
bool PointSolver::descend(Complex w, Vector &t) {
  t = Vector::Constant(size, Complex(0, -1));
  accelerate(w, 40, 1e-3, t);
  Outcome first = newton(w, t);
  if (first == Outcome::Converged)
    return true;
  // So close to the tolerance, another way may round differently.
  if (first == Outcome::Settled && residual > 2 * tolerance)
    return false;
  constexpr double kStart = 1.0, kLowest = 1e-9, kFirst = 0.3, kSmallest = 0.9;
  double height = std::max(w.imag(), kStart), factor = kFirst;
  t = Vector::Constant(size, Complex(0, -1));
  Complex at(w.real(), height);
  accelerate(at, 30, 1e-4, t);
  if (newton(at, t) != Outcome::Converged) {
    accelerate(at, 2000, 1e-8, t);
    if (newton(at, t) != Outcome::Converged)
      return false;
  }
  while (height > w.imag()) {
    double lower = std::max(height * factor, w.imag());
    if (lower < kLowest)
      lower = w.imag();
    Vector guess = t;
    at = Complex(w.real(), lower);
    Outcome found = newton(at, guess);
    if (found == Outcome::Astray && factor > kSmallest) {
      guess = t;
      iterate(at, 2000, 1e-9, guess);
      found = newton(at, guess);
      if (found == Outcome::Astray)
        return false;
    }
    if (sweeps > options.maxSweeps)
      return false;
    if (found == Outcome::Astray) {
      factor = std::sqrt(factor);
      continue;
    }
    t = guess;
    height = lower;
    factor = std::max(factor * factor, 0.1);
  }
  return residual < tolerance;
}

/// For a settled t close to the tolerance: another start rounds differently.
/// Leaves t as it was if that does not converge.
bool PointSolver::retry(Complex w, Vector &t) {
  if (residual > 10 * tolerance)
    return false;
  Vector settled = t;
  double kept = residual;
  t = Vector::Constant(size, Complex(0, -1));
  accelerate(w, 40, 1e-3, t);
  if (newton(w, t) == Outcome::Converged)
    return true;
  t = settled;
  residual = kept;
  return false;
}

bool PointSolver::solve(Complex w, bool warm, Vector &t) {
  sweeps = 0;
  if (options.method != ChainMethod::Newton) {
    t = Vector::Constant(size, Complex(0, -1));
    return options.method == ChainMethod::Damped
               ? iterate(w, options.maxSweeps, tolerance, t)
               : accelerate(w, options.maxSweeps, tolerance, t);
  }
  if (warm && isInside(t))
    if (Outcome found = newton(w, t); found != Outcome::Astray)
      return found == Outcome::Converged || retry(w, t);
  bool converged = descend(w, t);
  if (!converged)
    evaluate(w, t);
  return converged;
}

void PointSolver::solveTangent(Complex w, const Vector &t, Vector &tangent) {
  map->evaluate(w, t.data(), next.data());
  map->linearize();
  Vector right(size), still = Vector::Zero(size);
  map->differentiate(still.data(), 1, right.data());
  sweeps += 2;
  solveLinear(right, 1e-12, tangent);
}

//===----------------------------------------------------------------------===//
// Many points
//===----------------------------------------------------------------------===//

namespace {
/// Counts denormal numbers as zero while it lives, where the processor can.
/// Outside the support imaginary parts shrink to such numbers, which take many
/// times as long as others.
class FlushDenormals {
#ifdef __SSE2__
public:
  FlushDenormals() : kept(_mm_getcsr()) { _mm_setcsr(kept | kFlushAndZero); }
  ~FlushDenormals() { _mm_setcsr(kept); }

private:
  static constexpr unsigned kFlushAndZero = 0x8040;
  unsigned kept;
#endif
};

/// Writes one point's results in the units of the model as it was given.
class Writer {
public:
  Writer(const ChainModel &model, const ChainResults &results)
      : model(model), results(results), q(model.getSize()),
        size(2 * model.getDepth()), scale(model.getScale(model.getDepth())) {}

  void write(int64_t i, Complex w, const Vector &t, bool converged,
             PointSolver &solver) const {
    if (results.value)
      results.value[i] = t[0] / scale;
    if (results.residual)
      results.residual[i] = solver.getResidual();
    if (results.converged)
      results.converged[i] = converged;
    if (results.unknowns)
      for (int64_t j = 0; j < size; ++j)
        results.unknowns[i * size + j] = t[j] * getFactor(j);
    if (results.slope) {
      Vector tangent;
      solver.solveTangent(w, t, tangent);
      results.slope[i] = tangent[0] / (scale * scale);
    }
    if (results.block) {
      Vector next(size);
      solver.getMap().evaluate(w, t.data(), next.data());
      Complex *block = results.block + i * q * q;
      solver.getMap().getBlock(block);
      std::for_each(block, block + q * q, [&](Complex &x) { x /= scale; });
    }
    if (results.sweeps)
      results.sweeps[i] = solver.getSweeps();
  }

  /// What scales unknown j back.
  double getFactor(int64_t j) const {
    double partial = model.getScale(j / 2 + j % 2);
    double factor = partial * partial / scale;
    return j % 2 == 0 ? factor : 1 / factor;
  }

private:
  const ChainModel &model;
  const ChainResults &results;
  int64_t q, size;
  double scale;
};
} // namespace

Status jpmhc::spectral::solveChain(const ChainModel &model, int64_t count,
                                   const Complex *w, const Complex *start,
                                   const ChainOptions &options,
                                   const ChainResults &results,
                                   const Observer &observer) {
  for (int64_t i = 0; i < count; ++i)
    if (!std::isfinite(w[i].real()) || !std::isfinite(w[i].imag()) ||
        w[i].imag() < 0)
      return Status::value("expected w in the upper half plane, got w[" +
                           std::to_string(i) +
                           "] = " + std::to_string(w[i].real()) + " + " +
                           std::to_string(w[i].imag()) + "i");
  Writer writer(model, results);
  int64_t size = 2 * model.getDepth();
  double scale = model.getScale(model.getDepth());
  auto solveChunk = [&](int64_t lo, int64_t hi, Progress &progress) {
    [[maybe_unused]] FlushDenormals flush;
    PointSolver solver(model, options, progress);
    Vector t(size), before, guess;
    bool warm = false, two = false;
    for (int64_t i = lo; i < hi; ++i) {
      Complex at = w[i] / scale;
      guess = t;
      if (start)
        for (int64_t j = 0; j < size; ++j)
          guess[j] = start[i * size + j] / writer.getFactor(j);
      else if (two && w[i - 1] != w[i - 2])
        // Along the secant, if that stays in the half plane.
        guess += (t - before) * ((w[i] - w[i - 1]) / (w[i - 1] - w[i - 2]));
      if (two && !start && guess.imag().maxCoeff() > 0)
        guess = t;
      bool converged = solver.solve(at, start || warm, guess);
      writer.write(i, at, guess, converged, solver);
      two = warm && converged;
      before = t;
      t = guess;
      warm = converged;
      if (!progress.advance())
        return;
    }
  };
  return forEachChunk(count, std::max<int64_t>(options.chunk, 1), observer,
                      solveChunk);
}
