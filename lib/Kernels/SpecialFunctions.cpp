// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "SpecialFunctions.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace jpmhc;

static constexpr double kPi = llvm::numbers::pi;

/// c[0] + c[1] z + c[2] z² + ...
static Val polynomial(Val z, ArrayRef<double> coefficients) {
  Val sum = z * coefficients.back() + coefficients[coefficients.size() - 2];
  for (double c : llvm::reverse(coefficients.drop_back(2)))
    sum = sum * z + c;
  return sum;
}

static Val isOdd(Val integer) {
  KernelBuilder &k = integer.builder();
  return k.wrap(arith::TruncIOp::create(k.builder, k.loc, k.builder.getI1Type(),
                                        integer));
}

// Minimax polynomials of the Cephes library (sinf, cosf, atanf).
std::pair<Val, Val> jpmhc::sinCos(Val quadrant, Val rest) {
  Val z = rest * rest;
  Val sine = rest + rest * z *
                        polynomial(z, {-1.6666654611e-1, 8.3321608736e-3,
                                       -1.9515295891e-4});
  Val cosine = 1.0 - 0.5 * z +
               z * z *
                   polynomial(z, {4.166664568298827e-2, -1.388731625493765e-3,
                                  2.443315711809948e-5});
  Val odd = isOdd(quadrant);
  Val s = select(odd, cosine, sine), c = select(odd, sine, cosine);
  return {select(isOdd(quadrant >> 1), -s, s),
          select(isOdd((quadrant + 1.0) >> 1), -c, c)};
}

std::pair<Val, Val> jpmhc::sinCos(Val angle) {
  KernelBuilder &k = angle.builder();
  Value nearest = arith::FPToSIOp::create(
      k.builder, k.loc, k.builder.getI32Type(), angle * (2 / kPi) + 0.5);
  Val quadrant = k.wrap(nearest);
  Val rest = angle - k.toFloat(quadrant, k.builder.getF64Type()) * (kPi / 2);
  return sinCos(quadrant, k.toFloat(rest));
}

Val jpmhc::atan2RightHalf(Val y, Val x) {
  KernelBuilder &k = y.builder();
  // The angle below the nearer axis: num/den in [0, 1], and above tan(π/8) the
  // angle from the diagonal, atan((num - den)/(num + den)).
  Val a = abs(y), steep = a > x;
  Val num = select(steep, x, a), den = select(steep, a, x);
  Val zero = k.f32(0);
  Val diagonal = num > zero && num >= den * 0.41421356237309503;
  Val ratio =
      select(diagonal, num - den, num) / select(diagonal, num + den, den);
  ratio = select(equal(num, den), zero, ratio); // 0/0, inf/inf
  Val z = ratio * ratio;
  Val angle = ratio + ratio * z *
                          polynomial(z, {-3.33329491539e-1, 1.99777106478e-1,
                                         -1.38776856032e-1, 8.05374449538e-2});
  angle = angle + select(diagonal, k.f32(kPi / 4), zero);
  angle = select(steep, kPi / 2 - angle, angle);
  return select(y < zero, -angle, angle);
}
