// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The parts of a hyper-connection against their formulas in double, and their
// adjoints against differences of those formulas.
#include "RunModule.h"
#include <cmath>
#include <functional>

using jpmhc::test::Array;
using jpmhc::test::normal;
using jpmhc::test::runModule;
using Doubles = std::vector<double>;

namespace {

std::string tensor(std::vector<int64_t> shape) {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + "f32>";
}

/// f(inputs) in double, flat arrays in and out.
using Formula = std::function<Doubles(const std::vector<Doubles> &)>;

/// d/dε of <cotangent, f(inputs with input k moved along direction)>. The
/// formulas are in double: a step of 1e-5 leaves errors of order 1e-9.
double derivative(const Formula &f, std::vector<Doubles> inputs, size_t k,
                  const Array &direction, const Array &cotangent) {
  double total = 0;
  for (double step : {1e-5, -1e-5}) {
    std::vector<Doubles> moved = inputs;
    for (size_t i = 0; i < direction.size(); ++i)
      moved[k][i] += step * direction[i];
    Doubles value = f(moved);
    for (size_t i = 0; i < value.size(); ++i)
      total += cotangent[i] * value[i] / (2 * step);
  }
  return total;
}

std::vector<Doubles> widen(const std::vector<Array> &arrays) {
  std::vector<Doubles> all;
  for (const Array &a : arrays)
    all.emplace_back(a.begin(), a.end());
  return all;
}

/// The largest error, in units of the largest wanted number.
void expectClose(const Array &got, const Doubles &want, double tolerance,
                 const std::string &what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double error = 0, scale = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]));
    scale = std::max(scale, std::abs(want[i]));
  }
  EXPECT_LE(error, tolerance * scale) << what;
}

/// Each gradient along a random direction; the products of the terms bound the
/// size of what cancels.
void expectGradients(const Formula &f, const std::vector<Array> &inputs,
                     const Array &cotangent,
                     const std::vector<Array> &gradients, double tolerance,
                     const std::string &what) {
  ASSERT_EQ(inputs.size(), gradients.size());
  for (size_t k = 0; k < inputs.size(); ++k) {
    Array direction = normal(inputs[k].size(), 100 + k);
    double want = derivative(f, widen(inputs), k, direction, cotangent);
    double got = 0, scale = 1e-6;
    for (size_t i = 0; i < direction.size(); ++i) {
      got += double(gradients[k][i]) * direction[i];
      scale += std::abs(double(gradients[k][i]) * direction[i]);
    }
    EXPECT_NEAR(got, want, tolerance * scale) << what << ", input " << k;
  }
}

// ---- logits

struct Logits {
  int64_t rows, n, p, m;
  bool layer, gain, shift;
  double mean;

  Doubles operator()(const std::vector<Doubles> &in) const {
    int64_t d = n * p;
    const Doubles &x = in[0], &w = in[1];
    Doubles z(rows * m);
    for (int64_t t = 0; t < rows; ++t) {
      double mu = 0, square = 0;
      for (int64_t c = 0; layer && c < d; ++c)
        mu += x[t * d + c] / d;
      for (int64_t c = 0; c < d; ++c)
        square += (x[t * d + c] - mu) * (x[t * d + c] - mu) / d;
      for (int64_t c = 0; c < d; ++c) {
        double u = (x[t * d + c] - mu) / std::sqrt(square + 1e-5);
        if (gain)
          u *= in[2][c];
        if (shift)
          u += in[2 + gain][c];
        for (int64_t o = 0; o < m; ++o)
          z[t * m + o] += u * w[o * d + c];
      }
    }
    return z;
  }

  std::string text() const {
    std::string xt = tensor({rows, n, p}), wt = tensor({m, n * p}),
                zt = tensor({rows, m}), vt = tensor({n * p});
    std::string parameters, types, names;
    for (auto [present, name] :
         {std::pair(gain, "gain"), std::pair(shift, "shift")})
      if (present) {
        parameters += std::string(", %") + name + ": " + vt;
        types += ", " + vt;
        names += std::string(" ") + name + "(%" + name + ")";
      }
    std::string kind = layer ? " <layer>" : " <rms>";
    int64_t results = 2 + gain + shift;
    std::string returned = "%z";
    for (int64_t i = 0; i < results; ++i)
      returned += ", %g#" + std::to_string(i);
    return "func.func @f(%x: " + xt + ", %w: " + wt + parameters +
           ", %dz: " + zt + ") -> (" + zt + ", " + xt + ", " + wt + types +
           ") {\n  %z = jpmhc.stream_logits %x, %w" + names + kind + " : (" +
           xt + ", " + wt + types + ") -> " + zt +
           "\n  %g:" + std::to_string(results) +
           " = jpmhc.stream_logits_vjp %x, %w, %dz" + names + kind + " : (" +
           xt + ", " + wt + ", " + zt + types + ") -> (" + xt + ", " + wt +
           types + ")\n  return " + returned + " : " + zt + ", " + xt + ", " +
           wt + types + "\n}";
  }
};

class LogitsTest : public testing::TestWithParam<Logits> {};

// Sums of up to 231 rounded products, and a mean of 1000 that leaves 13 bits of
// the deviations: 2e-6 is a few roundings, times 100 for the offset.
TEST_P(LogitsTest, AgreesWithFormula) {
  Logits f = GetParam();
  int64_t d = f.n * f.p;
  std::vector<Array> inputs{normal(f.rows * d, 1, f.mean),
                            normal(f.m * d, 2, 0, 1 / std::sqrt(d))};
  if (f.gain)
    inputs.push_back(normal(d, 3, 1, 0.2));
  if (f.shift)
    inputs.push_back(normal(d, 4));
  Array dz = normal(f.rows * f.m, 5);
  std::vector<Array> all = inputs;
  all.push_back(dz);
  auto results = runModule(f.text(), all);
  double tolerance = f.mean > 100 ? 2e-4 : 2e-6;
  expectClose(results[0], f(widen(inputs)), tolerance, "z");
  results.erase(results.begin());
  expectGradients(f, inputs, dz, results, 10 * tolerance, "vjp");
}

INSTANTIATE_TEST_SUITE_P(
    All, LogitsTest,
    testing::Values(Logits{0, 4, 3, 6, true, true, true, 0},
                    Logits{1, 1, 5, 3, true, false, false, 0},
                    Logits{5, 4, 9, 12, false, true, false, 3},
                    Logits{37, 7, 33, 13, true, true, true, 3},
                    Logits{18, 4, 16, 48, false, false, false, 0},
                    Logits{9, 2, 32, 7, true, false, true, 1000}),
    [](const auto &info) { return "case" + std::to_string(info.index); });

// ---- read and write

class StreamsTest : public testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(StreamsTest, ReadAndWriteAgreeWithFormulas) {
  int64_t rows = 5, n = std::get<0>(GetParam()), p = std::get<1>(GetParam());
  std::string xt = tensor({rows, n, p}), ht = tensor({rows, n, n}),
              qt = tensor({rows, n}), yt = tensor({rows, p});
  std::string text =
      "func.func @f(%x: " + xt + ", %r: " + qt + ", %h: " + ht + ", %q: " + qt +
      ", %y: " + yt + ", %din: " + yt + ", %dout: " + xt + ") -> (" + yt +
      ", " + xt + ", " + xt + ", " + qt + ", " + xt + ", " + ht + ", " + qt +
      ", " + yt + ") {\n" + "  %in = jpmhc.stream_read %x, %r : " + xt + ", " +
      qt + " -> " + yt + "\n" +
      "  %out = jpmhc.stream_write %x, %h, %q, %y {scale = 0.5 : f32} : " + xt +
      ", " + ht + ", " + qt + ", " + yt + "\n" +
      "  %a:2 = jpmhc.stream_read_vjp %x, %r, %din : " + xt + ", " + qt + ", " +
      yt + "\n" +
      "  %b:4 = jpmhc.stream_write_vjp %x, %h, %q, %y, %dout {scale = 0.5 : "
      "f32} : " +
      xt + ", " + ht + ", " + qt + ", " + yt + "\n" +
      "  return %in, %out, %a#0, %a#1, %b#0, %b#1, %b#2, %b#3 : " + yt + ", " +
      xt + ", " + xt + ", " + qt + ", " + xt + ", " + ht + ", " + qt + ", " +
      yt + "\n}";
  Array x = normal(rows * n * p, 1), r = normal(rows * n, 2),
        h = normal(rows * n * n, 3), q = normal(rows * n, 4),
        y = normal(rows * p, 5), din = normal(rows * p, 6),
        dout = normal(rows * n * p, 7);
  Formula read = [&](const std::vector<Doubles> &in) {
    Doubles out(rows * p);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t j = 0; j < n; ++j)
        for (int64_t c = 0; c < p; ++c)
          out[t * p + c] += in[1][t * n + j] * in[0][(t * n + j) * p + c];
    return out;
  };
  Formula write = [&](const std::vector<Doubles> &in) {
    Doubles out(rows * n * p);
    for (int64_t t = 0; t < rows; ++t)
      for (int64_t i = 0; i < n; ++i)
        for (int64_t c = 0; c < p; ++c) {
          double sum = 0.5 * in[2][t * n + i] * in[3][t * p + c];
          for (int64_t j = 0; j < n; ++j)
            sum += in[1][(t * n + i) * n + j] * in[0][(t * n + j) * p + c];
          out[(t * n + i) * p + c] = sum;
        }
    return out;
  };
  auto results = runModule(text, {x, r, h, q, y, din, dout});
  // Up to 17 rounded products a sum, 70 for those over channels.
  expectClose(results[0], read(widen({x, r})), 2e-6, "read");
  expectClose(results[1], write(widen({x, h, q, y})), 2e-6, "write");
  expectGradients(read, {x, r}, din, {results[2], results[3]}, 1e-5, "read");
  expectGradients(write, {x, h, q, y}, dout,
                  {results.begin() + 4, results.end()}, 1e-5, "write");
}

INSTANTIATE_TEST_SUITE_P(All, StreamsTest,
                         testing::Combine(testing::Values(1, 4, 7, 16),
                                          testing::Values(1, 70)));

// ---- maps

struct MapsCase {
  bool softmax;
  int64_t n;
  bool alpha, bias;
};

class MapsTest : public testing::TestWithParam<MapsCase> {};

// Read, write and (for the free manifold) mixer as one vector of results.
TEST_P(MapsTest, AgreesWithFormula) {
  const bool softmax = GetParam().softmax, alpha = GetParam().alpha,
             bias = GetParam().bias;
  const int64_t n = GetParam().n;
  int64_t rows = 19, pair = softmax ? n * n : n, m = 2 * pair + n * n;
  const double tau = 0.7, post = 1.5;
  Formula f = [=](const std::vector<Doubles> &in) {
    Doubles read(rows * n), write(rows * n), mixer(rows * n * n);
    for (int64_t t = 0; t < rows; ++t) {
      Doubles z(in[0].begin() + t * m, in[0].begin() + (t + 1) * m);
      for (int64_t e = 0; e < m; ++e) {
        if (alpha)
          z[e] *= in[1][e < pair ? 0 : e < 2 * pair ? 1 : 2];
        if (bias)
          z[e] += in[1 + alpha][e];
      }
      auto pre = [&](int64_t i, int64_t j) { return z[i * n + j]; };
      auto after = [&](int64_t i, int64_t j) { return z[pair + i * n + j]; };
      for (int64_t i = 0; i < n; ++i) {
        if (!softmax) {
          read[t * n + i] = 1 / (1 + std::exp(-z[i]));
          write[t * n + i] = post / (1 + std::exp(-z[pair + i]));
          continue;
        }
        double row = 0, column = 0;
        for (int64_t j = 0; j < n; ++j) {
          row += std::exp(pre(i, j) / tau);
          column += std::exp(after(j, i) / tau);
        }
        for (int64_t j = 0; j < n; ++j) {
          read[t * n + j] += std::exp(pre(i, j) / tau) / row / n;
          write[t * n + j] += std::exp(after(j, i) / tau) / column;
        }
      }
      std::copy(z.begin() + 2 * pair, z.end(), mixer.begin() + t * n * n);
    }
    read.insert(read.end(), write.begin(), write.end());
    read.insert(read.end(), mixer.begin(), mixer.end());
    return read;
  };

  std::string zt = tensor({rows, m}), vt = tensor({rows, n}),
              ht = tensor({rows, n, n});
  std::string parameters, types, names;
  std::vector<Array> inputs{normal(rows * m, 1, 0, 2)};
  if (alpha) {
    inputs.push_back(normal(3, 2, 1, 0.3));
    parameters += ", %alpha: tensor<3xf32>";
    types += ", tensor<3xf32>";
    names += " alpha(%alpha)";
  }
  if (bias) {
    inputs.push_back(normal(m, 3));
    parameters += ", %bias: " + tensor({m});
    types += ", " + tensor({m});
    names += " bias(%bias)";
  }
  std::string maps = ", " + vt + ", " + vt + ", " + ht;
  std::string kind = std::string(" <\"free\"> ") +
                     (softmax ? "<softmax>" : "<sigmoid>") + " streams " +
                     std::to_string(n) +
                     " {tau = 0.7 : f32, post_scale = 1.5 : f32}";
  int64_t results = 1 + alpha + bias;
  std::string returned = "%m#0, %m#1, %m#2";
  for (int64_t i = 0; i < results; ++i)
    returned += ", %g#" + std::to_string(i);
  std::string text =
      "func.func @f(%z: " + zt + parameters + ", %dr: " + vt + ", %dq: " + vt +
      ", %dh: " + ht + ") -> (" + maps.substr(2) + ", " + zt + types + ") {\n" +
      "  %m:3 = jpmhc.stream_maps %z" + names + kind + " : (" + zt + types +
      ") -> (" + maps.substr(2) + ")\n" + "  %g:" + std::to_string(results) +
      " = jpmhc.stream_maps_vjp %z, %dr, %dq, %dh" + names + kind + " : (" +
      zt + maps + types + ") -> (" + zt + types + ")\n  return " + returned +
      " : " + maps.substr(2) + ", " + zt + types + "\n}";
  Array dr = normal(rows * n, 4), dq = normal(rows * n, 5),
        dh = normal(rows * n * n, 6);
  std::vector<Array> all = inputs;
  all.insert(all.end(), {dr, dq, dh});
  auto got = runModule(text, all);
  Array value, cotangent;
  for (int i = 0; i < 3; ++i)
    value.insert(value.end(), got[i].begin(), got[i].end());
  for (const Array *a : {&dr, &dq, &dh})
    cotangent.insert(cotangent.end(), a->begin(), a->end());
  expectClose(value, f(widen(inputs)), 2e-6, "maps");
  expectGradients(f, inputs, cotangent, {got.begin() + 3, got.end()}, 1e-5,
                  "vjp");
}

INSTANTIATE_TEST_SUITE_P(All, MapsTest,
                         testing::Values(MapsCase{true, 1, false, false},
                                         MapsCase{true, 4, true, true},
                                         MapsCase{true, 9, false, true},
                                         MapsCase{false, 3, true, false},
                                         MapsCase{false, 16, true, true}),
                         [](const auto &info) {
                           return "case" + std::to_string(info.index);
                         });

// ---- blocks

// A NaN of one token reaches that token alone, through every kernel.
TEST(HyperConnection, NaNStaysInItsToken) {
  const int64_t rows = 21, n = 4, p = 6;
  Array x = normal(rows * n * p, 1), w = normal(48 * n * p, 2, 0, 0.2);
  x[(9 * n + 1) * p + 2] = NAN;
  auto results = runModule(R"mlir(
    func.func @f(%x: tensor<21x4x6xf32>, %w: tensor<48x24xf32>) -> tensor<21x4x6xf32> {
      %out = jpmhc.hyper_connection %x, %w <"birkhoff"> <layer> <softmax> {
      ^bb0(%in: tensor<21x6xf32>):
        %y = math.tanh %in : tensor<21x6xf32>
        jpmhc.yield %y : tensor<21x6xf32>
      } : (tensor<21x4x6xf32>, tensor<48x24xf32>) -> tensor<21x4x6xf32>
      return %out : tensor<21x4x6xf32>
    })mlir",
                           {x, w});
  for (int64_t e = 0; e < rows * n * p; ++e)
    EXPECT_EQ(std::isnan(results[0][e]), e / (n * p) == 9) << e;
}

} // namespace
