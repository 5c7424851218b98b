// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ChainMapImpl.h - The map, for whatever is compiled ------*- C++ -*-===//
//
// All blocks are complex symmetric. With d the diagonal entries of H - Sigma
// the sweep from the left keeps X[k], the inverse Schur complement on v_k of
// what lies left of it, and B[k], the Schur complement on b_k:
//
//   X[0] = 1/d(v_0),  B[k] = d(b_k) - A_k X[k-1] A_k^T,
//   X[k] = (d(v_k) - B[k]^-1)^-1,  W[k] = B[k]^-1 X[k].
//
// Without noise in layer k its B may be singular; then the same are got as
// W[k] = (d(v_k) B[k] - 1)^-1 and X[k] = B[k] W[k], which always exist but lose
// more digits. From the right likewise, with Y[k] on b_k and C[k] on v_{k-1}:
//
//   Y[L] = 1/d(b_L),  C[k] = d(v_{k-1}) - A_k^T Y[k] A_k,
//   Y[k-1] = (d(b_{k-1}) - C[k]^-1)^-1,  V[k-1] = C[k]^-1 Y[k-1]
//
// and the blocks wanted are
//
//   M[v_{k-1}] = (X[k-1]^-1 - A_k^T Y[k] A_k)^-1,  Z = X[k-1]^-1 M[v_{k-1}],
//   M[b_k] = (Y[k]^-1 - A_k X[k-1] A_k^T)^-1 = Y[k] + Y[k] A_k M A_k^T Y[k].
//
// Included once for each kind of processor, with a name of its own for Eigen,
// so that no inline function of one is taken for that of another.
//
// Layers are numbered from 0 below: layer k joins v_k and b_k of the code,
// which are v_{k-1} and b_k above.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_LIB_SPECTRAL_CHAINMAPIMPL_H
#define JPMHC_LIB_SPECTRAL_CHAINMAPIMPL_H

#include "ChainMap.h"

#include <Eigen/LU>
#include <Eigen/StdVector>

namespace jpmhc::spectral {
namespace {

template <int Q> class SizedChainMap final : public ChainMap {
  using Matrix = Eigen::Matrix<Complex, Q, Q>;
  using Real = Eigen::Matrix<double, Q, Q>;

  struct Layer {
    Real a;
    double sigma2;
    /// See the file's comment; sv and sb are the inverses of x and y, `w`
    /// belongs to this layer's x and `v` to its y.
    Matrix sv, sb, x, w, y, v, ya, m, z;
    /// Weights of the derivative, and the squares of x and y.
    Matrix vx, vy, bx, by, xx, yy;
    /// Tangents.
    Matrix dx, dy;
  };

public:
  explicit SizedChainMap(const ChainModel &model)
      : q(model.getSize()), depth(model.getDepth()), layers(depth) {
    for (int64_t k = 0; k < depth; ++k) {
      Layer &layer = layers[k];
      layer.a =
          Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic,
                                         Eigen::RowMajor>>(model.getMixer(k), q,
                                                           q);
      layer.sigma2 = model.getSigma2(k);
      for (Matrix *matrix :
           {&layer.sv, &layer.sb, &layer.x, &layer.w, &layer.y, &layer.v,
            &layer.ya, &layer.m, &layer.z, &layer.vx, &layer.vy, &layer.bx,
            &layer.by, &layer.xx, &layer.yy, &layer.dx, &layer.dy})
        matrix->setZero(q, q);
    }
    identity.setIdentity(q, q);
    s1.setZero(q, q);
    s2.setZero(q, q);
  }

  void evaluate(Complex w, const Complex *t, Complex *next) override {
    for (int64_t k = 0; k < depth; ++k)
      moveRight(k, w, t);
    for (int64_t k = depth - 1; k >= 0; --k)
      moveLeft(k, w, t, next);
  }

  void linearize() override {
    for (Layer &l : layers) {
      // dt(v) = <vx, dX> + <vy, dY>, dt(b) = <bx, dX> + <by, dY>.
      l.vx.noalias() = l.z * l.z.transpose();
      s1.noalias() = l.a * l.m;
      l.vy.noalias() = s1 * s1.transpose();
      s2.noalias() = s1 * l.ya.transpose();
      s2 += identity; // Y^-1 M(b)
      l.by.noalias() = s2 * s2.transpose();
      s1.noalias() = s2.transpose() * l.ya; // M(b) A
      l.bx.noalias() = s1.transpose() * s1;
      l.xx.noalias() = l.x * l.x;
      l.yy.noalias() = l.y * l.y;
    }
  }

  void differentiate(const Complex *dt, Complex dw, Complex *out) override {
    for (int64_t k = 0; k < depth; ++k) {
      Layer &l = layers[k];
      Complex dd = (k == 0 ? dw : 0.0) - l.sigma2 * dt[2 * k + 1];
      l.dx.noalias() = -dd * l.xx;
      if (k == 0)
        continue;
      Layer &p = layers[k - 1];
      s1.noalias() = p.a * p.dx;
      s2.noalias() = s1 * p.a.transpose();
      s2.diagonal().array() += p.sigma2 * dt[2 * k - 2]; // -dB
      s1.noalias() = l.w * s2;
      l.dx.noalias() += s1 * l.w;
    }
    for (int64_t k = depth - 1; k >= 0; --k) {
      Layer &l = layers[k];
      Complex dd = (k == depth - 1 ? dw : 0.0) - l.sigma2 * dt[2 * k];
      l.dy.noalias() = -dd * l.yy;
      if (k < depth - 1) {
        Layer &n = layers[k + 1];
        s1.noalias() = n.a.transpose() * n.dy;
        s2.noalias() = s1 * n.a;
        s2.diagonal().array() += n.sigma2 * dt[2 * k + 3]; // -dC
        s1.noalias() = l.v * s2;
        l.dy.noalias() += s1 * l.v;
      }
      out[2 * k] = (inner(l.vx, l.dx) + inner(l.vy, l.dy)) / double(q);
      out[2 * k + 1] = (inner(l.bx, l.dx) + inner(l.by, l.dy)) / double(q);
    }
  }

  void getBlock(Complex *out) const override {
    Eigen::Map<Eigen::MatrixXcd>(out, q, q) = layers[0].m;
  }

private:
  /// sum of a_ij b_ij: tr(a b) for symmetric matrices.
  static Complex inner(const Matrix &a, const Matrix &b) {
    return a.cwiseProduct(b).sum();
  }

  void invert(const Matrix &matrix, Matrix &out) {
    if constexpr (Q == Eigen::Dynamic) {
      lu.compute(matrix);
      out = lu.inverse();
    } else {
      invertByElimination(matrix, out);
    }
  }

  /// Gauss and Jordan's with row pivots. Eigen inverts small matrices by
  /// cofactors, which loses digits where singular values lie far apart.
  static void invertByElimination(Matrix work, Matrix &out) {
    int order[Q];
    for (int i = 0; i < Q; ++i) {
      int pivot = i;
      for (int row = i + 1; row < Q; ++row)
        if (std::norm(work(row, i)) > std::norm(work(pivot, i)))
          pivot = row;
      order[i] = pivot;
      if (pivot != i)
        work.row(i).swap(work.row(pivot));
      Complex inverse = 1.0 / work(i, i);
      work(i, i) = 1;
      work.row(i) *= inverse;
      for (int row = 0; row < Q; ++row) {
        if (row == i)
          continue;
        Complex factor = work(row, i);
        work(row, i) = 0;
        work.row(row) -= factor * work.row(i);
      }
    }
    for (int i = Q - 1; i >= 0; --i)
      if (order[i] != i)
        work.col(i).swap(work.col(order[i]));
    out = work;
  }

  Complex diagonalV(int64_t k, Complex w, const Complex *t) const {
    return (k == 0 ? w : 0.0) - layers[k].sigma2 * t[2 * k + 1];
  }
  Complex diagonalB(int64_t k, Complex w, const Complex *t) const {
    return (k == depth - 1 ? w : 0.0) - layers[k].sigma2 * t[2 * k];
  }

  /// Whether a layer has noise enough for B and C to be inverted safely.
  static bool hasInverse(double sigma2) { return sigma2 > 1e-6; }

  /// For S = s2: shifted = d - S^-1, out = shifted^-1, factor = S^-1 out. A
  /// layer without noise may have a singular S; then `shifted` is not set.
  void invertShifted(double sigma2, Complex d, Matrix &shifted, Matrix &factor,
                     Matrix &out) {
    if (hasInverse(sigma2)) {
      invert(s2, s1);
      shifted = d * identity - s1;
      invert(shifted, out);
      factor.noalias() = s1 * out;
    } else {
      s1 = d * s2 - identity;
      invert(s1, factor);
      out.noalias() = s2 * factor;
    }
  }

  /// X of layer k from that of layer k - 1.
  void moveRight(int64_t k, Complex w, const Complex *t) {
    Layer &l = layers[k];
    Complex d = diagonalV(k, w, t);
    if (k == 0) {
      l.x = identity / d;
      l.sv = identity * d;
      return;
    }
    const Layer &p = layers[k - 1];
    s1.noalias() = p.a * p.x;
    s2.noalias() = -s1 * p.a.transpose();
    s2.diagonal().array() += diagonalB(k - 1, w, t); // B
    invertShifted(p.sigma2, d, l.sv, l.w, l.x);
  }

  /// Y of layer k from that of layer k + 1, and both traces of layer k.
  void moveLeft(int64_t k, Complex w, const Complex *t, Complex *next) {
    Layer &l = layers[k];
    Complex d = diagonalB(k, w, t);
    if (k == depth - 1) {
      l.y = identity / d;
      l.sb = identity * d;
    } else {
      const Layer &n = layers[k + 1];
      s2.noalias() = -n.a.transpose() * n.ya;
      s2.diagonal().array() += diagonalV(k + 1, w, t); // C
      invertShifted(n.sigma2, d, l.sb, l.v, l.y);
    }
    l.ya.noalias() = l.y * l.a;
    s1.noalias() = l.a.transpose() * l.ya;
    if (k == 0 || hasInverse(layers[k - 1].sigma2)) {
      s2 = l.sv - s1;
      invert(s2, l.m);
      l.z.noalias() = l.sv * l.m;
    } else {
      s2 = identity;
      s2.noalias() -= s1 * l.x;
      invert(s2, l.z);
      l.m.noalias() = l.x * l.z;
    }
    next[2 * k] = l.m.trace() / double(q);
    if (k == depth - 1 || hasInverse(layers[k + 1].sigma2)) {
      s1.noalias() = l.a * l.x;
      s2 = l.sb;
      s2.noalias() -= s1 * l.a.transpose();
      invert(s2, s1);
      next[2 * k + 1] = s1.trace() / double(q);
    } else {
      s1.noalias() = l.ya * l.m;
      next[2 * k + 1] = (l.y.trace() + inner(s1, l.ya)) / double(q);
    }
  }

  int64_t q, depth;
  std::vector<Layer, Eigen::aligned_allocator<Layer>> layers;
  Matrix identity, s1, s2;
  Eigen::PartialPivLU<Eigen::MatrixXcd> lu;
};

/// The map with blocks of fixed size up to 4 x 4.
inline std::unique_ptr<ChainMap> createSized(const ChainModel &model) {
  switch (model.getSize()) {
  case 1:
    return std::make_unique<SizedChainMap<1>>(model);
  case 2:
    return std::make_unique<SizedChainMap<2>>(model);
  case 3:
    return std::make_unique<SizedChainMap<3>>(model);
  case 4:
    return std::make_unique<SizedChainMap<4>>(model);
  default:
    return std::make_unique<SizedChainMap<Eigen::Dynamic>>(model);
  }
}

} // namespace
} // namespace jpmhc::spectral

#endif // JPMHC_LIB_SPECTRAL_CHAINMAPIMPL_H
