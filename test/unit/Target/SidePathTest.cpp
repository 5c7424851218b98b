// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The side path against float64 sums that never subtract, at every point.
#include "RunModule.h"
#include <algorithm>
#include <cmath>
#include <cstring>

using jpmhc::test::Array;
using jpmhc::test::normal;
using jpmhc::test::runModule;

namespace {

using Series = std::vector<double>;

/// Sums over trailing windows of `width` by doubling: window sums of 1, 2, 4, …
/// tokens, put together by the bits of the width.
Series windowSums(const Series &x, size_t width) {
  size_t n = x.size(), offset = 0;
  Series out(n, 0.0), power = x;
  for (size_t length = 1; length <= width; length *= 2) {
    if (width & length) {
      for (size_t t = offset; t < n; ++t)
        out[t] += power[t - offset];
      offset += length;
    }
    for (size_t t = n; t-- > length;)
      power[t] += power[t - length];
  }
  return out;
}

Series box(const Series &x, size_t width) {
  Series out = windowSums(x, std::min(width, x.size()));
  for (size_t t = 0; t < out.size(); ++t)
    out[t] /= std::min(width, t + 1);
  return out;
}

Series boxAdjoint(const Series &y, size_t width) {
  Series scaled(y.size());
  for (size_t t = 0; t < y.size(); ++t)
    scaled[y.size() - 1 - t] = y[t] / std::min(width, t + 1);
  Series out = windowSums(scaled, std::min(width, y.size()));
  std::reverse(out.begin(), out.end());
  return out;
}

struct Shape {
  size_t batches, tokens, channels;
  size_t size() const { return batches * tokens * channels; }
  std::string type() const {
    return "tensor<" + std::to_string(batches) + "x" + std::to_string(tokens) +
           "x" + std::to_string(channels) + "xf32>";
  }
};

/// `filter` twice along the tokens of each channel, anew for each of the
/// segments that begin at `starts`.
template <typename Filter>
Series twice(Filter filter, const Array &x, const Shape &s, size_t width,
             std::vector<size_t> starts = {0}) {
  Series out(s.size());
  starts.push_back(s.tokens);
  for (size_t b = 0; b < s.batches; ++b)
    for (size_t c = 0; c < s.channels; ++c)
      for (size_t i = 0; i + 1 < starts.size(); ++i) {
        auto at = [&](size_t t) {
          return (b * s.tokens + starts[i] + t) * s.channels + c;
        };
        Series line(starts[i + 1] - starts[i]);
        for (size_t t = 0; t < line.size(); ++t)
          line[t] = x[at(t)];
        line = filter(filter(line, width), width);
        for (size_t t = 0; t < line.size(); ++t)
          out[at(t)] = line[t];
      }
  return out;
}

Array absolute(Array x) {
  for (float &v : x)
    v = std::abs(v);
  return x;
}

/// Largest |got − want| / bound over the finite ones; non-finite ones must be
/// met in kind.
double worst(const Array &got, const Series &want, const Series &bound) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isfinite(want[i]))
      most = std::max(most, std::isfinite(got[i])
                                ? std::abs(got[i] - want[i]) / bound[i]
                                : INFINITY);
    else if (std::isnan(want[i]) ? !std::isnan(got[i]) : got[i] != want[i])
      return INFINITY;
  }
  return most;
}

std::string filterModule(const std::string &op, const Shape &s, size_t width,
                         bool segments = false) {
  std::string t = s.type(), ids = "tensor<" + std::to_string(s.batches) + "x" +
                                  std::to_string(s.tokens) + "xi32>";
  return "func.func @f(%x: " + t + (segments ? ", %ids: " + ids : "") +
         ") -> " + t + " {\n%b = arith.constant " + std::to_string(width) +
         " : index\n%y = jpmhc." + op + " %x, %b " +
         (segments ? "segments(%ids) : (" + t + ", index, " + ids + ")"
                   : ": (" + t + ", index)") +
         " -> " + t + "\nreturn %y : " + t + "\n}";
}

/// The contract is 2e-6; sums in f64 leave two roundings to f32 (between the
/// passes and at the end), 2^-24 each.
constexpr double kBound = 2e-7;

} // namespace

TEST(SidePath, BoundHoldsAtEveryPointOfAMillionTokens) {
  Shape s{1, 1 << 20, 1};
  Array x = normal(s.size(), 1, 1);
  for (size_t width : {3u, 64u, 5000u, 16384u, 700000u, 1u << 20}) {
    Array got = runModule(filterModule("tribox", s, width), {x})[0];
    EXPECT_LT(
        worst(got, twice(box, x, s, width), twice(box, absolute(x), s, width)),
        kBound)
        << "width " << width;
  }
}

TEST(SidePath, SpikesAndInfinitiesStayWithinTheirWindows) {
  // A channel a value, a sequence a place.
  Shape s{4, 1000, 5};
  const float values[] = {1e20f, -3e38f, INFINITY, NAN};
  const size_t places[] = {0, 95, 500, 999};
  Array x = normal(s.size(), 2, 1);
  for (size_t b = 0; b < 4; ++b)
    for (size_t c = 0; c < 4; ++c)
      x[(b * s.tokens + places[b]) * s.channels + c] = values[c];
  for (size_t width : {2u, 16u, 100u, 333u, 1000u}) {
    Array got = runModule(filterModule("tribox", s, width), {x})[0];
    EXPECT_LT(
        worst(got, twice(box, x, s, width), twice(box, absolute(x), s, width)),
        kBound)
        << "width " << width;
  }
}

TEST(SidePath, AdjointMatches) {
  // Chunks of a sequence (T over 4096), groups with channels missing.
  for (Shape s : {Shape{1, 9000, 3}, Shape{2, 129, 40}, Shape{3, 1, 2}})
    for (size_t width : {1u, 2u, 31u, 33u, 64u, 100u, 4000u}) {
      Array y = normal(s.size(), 3, 1);
      Array got = runModule(filterModule("tribox_transpose", s, width), {y})[0];
      EXPECT_LT(worst(got, twice(boxAdjoint, y, s, width),
                      twice(boxAdjoint, absolute(y), s, width)),
                kBound);
      Array x = normal(s.size(), 4, 1),
            forward = runModule(filterModule("tribox", s, width), {x})[0];
      double left = 0, right = 0, scale = 0;
      for (size_t i = 0; i < s.size(); ++i) {
        left += double(y[i]) * forward[i];
        right += double(got[i]) * x[i];
        scale += std::abs(double(y[i]) * forward[i]);
      }
      EXPECT_NEAR(left, right, kBound * scale);
    }
}

TEST(SidePath, WindowsRestartAtSegments) {
  Shape s{1, 500, 2};
  std::vector<size_t> starts{0, 1, 2, 40, 300, 301, 499};
  Array ids(s.tokens);
  for (size_t t = 0, segment = 0; t < s.tokens; ++t) {
    if (segment + 1 < starts.size() && t == starts[segment + 1])
      ++segment;
    int32_t id = segment % 3; // ids may come back: only a change counts
    std::memcpy(&ids[t], &id, sizeof id);
  }
  Array x = normal(s.size(), 5, 1);
  for (size_t width : {1u, 2u, 39u, 64u, 200u, 500u}) {
    Array got = runModule(filterModule("tribox", s, width, true), {x, ids})[0];
    EXPECT_LT(worst(got, twice(box, x, s, width, starts),
                    twice(box, absolute(x), s, width, starts)),
              kBound);
    got = runModule(filterModule("tribox_transpose", s, width, true),
                    {x, ids})[0];
    EXPECT_LT(worst(got, twice(boxAdjoint, x, s, width, starts),
                    twice(boxAdjoint, absolute(x), s, width, starts)),
              kBound);
  }
}

TEST(SidePath, UpdateAndItsGradient) {
  Shape s{2, 5000, 33};
  size_t width = 70;
  std::string t = s.type();
  std::string text = "func.func @f(%x: " + t + ", %a: " + t +
                     ", %g: tensor<f32>) -> (" + t + ", " + t +
                     ", tensor<f32>) {\n%b = arith.constant " +
                     std::to_string(width) +
                     " : index\n%y = jpmhc.side_path %x, %a, %g, %b : (" + t +
                     ", " + t + ", tensor<f32>, index) -> " + t +
                     "\n%dx, %dg = jpmhc.side_path_vjp %x, %a, %g, %b : (" + t +
                     ", " + t + ", tensor<f32>, index) -> (" + t +
                     ", tensor<f32>)\nreturn %y, %dx, %dg : " + t + ", " + t +
                     ", tensor<f32>\n}";
  Array x = normal(s.size(), 6, 1), a = normal(s.size(), 7, 0), gate{0.375f};
  auto first = runModule(text, {x, a, gate});
  Series low = twice(box, x, s, width), back = twice(boxAdjoint, a, s, width);
  double dgate = 0, scale = 0;
  for (size_t i = 0; i < s.size(); ++i) {
    ASSERT_NEAR(first[0][i], x[i] + a[i] + gate[0] * low[i], 1e-6);
    ASSERT_NEAR(first[1][i], a[i] + gate[0] * back[i], 1e-6);
    dgate += x[i] * back[i];
    scale += std::abs(x[i] * back[i]);
  }
  EXPECT_NEAR(first[2][0], dgate, 1e-7 * scale);

  // The same bits for any number of threads.
  int32_t threads = jpmhcGetNumThreads();
  for (int32_t count : {1, 3}) {
    ASSERT_EQ(jpmhcSetNumThreads(count), 0);
    auto again = runModule(text, {x, a, gate});
    for (size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(std::memcmp(first[i].data(), again[i].data(),
                            first[i].size() * sizeof(float)),
                0);
  }
  ASSERT_EQ(jpmhcSetNumThreads(threads), 0);
}

TEST(SidePath, GateAndItsGradients) {
  const size_t h = 16;
  Array w1 = normal(h, 8, 0), b1 = normal(h, 9, 0), w2 = normal(h, 10, 0),
        b2{0.25f}, beta{-0.5f}, one{1};
  auto gate = [&](std::vector<Array> p, double r) {
    double z = p[3][0];
    for (size_t i = 0; i < h; ++i)
      z += p[2][i] * std::tanh(p[0][i] * std::log2(r) + p[1][i]);
    return 1 / (1 + std::exp(-z)) *
           std::pow(r, std::log1p(std::exp(double(p[4][0]))));
  };
  std::vector<Array> parameters{w1, b1, w2, b2, beta};
  for (auto [width, context] :
       {std::pair<int, int>{1, 1}, {3, 64}, {64, 64}, {1, 1 << 20}}) {
    std::string p = "%w1, %b1, %w2, %b2, %beta",
                v = "tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, "
                    "tensor<f32>, tensor<f32>";
    std::string text =
        "func.func @f(%w1: tensor<16xf32>, %b1: tensor<16xf32>, %w2: "
        "tensor<16xf32>, %b2: tensor<f32>, %beta: tensor<f32>, %d: "
        "tensor<f32>) -> (tensor<f32>, " +
        v + ") {\n%b = arith.constant " + std::to_string(width) +
        " : index\n%t = arith.constant " + std::to_string(context) +
        " : index\n%g = jpmhc.coverage_gate %b, %t, " + p +
        " : (index, index, " + v +
        ") -> tensor<f32>\n%r:5 = jpmhc.coverage_gate_vjp %b, %t, " + p +
        ", %d : (index, index, " + v + ", tensor<f32>) -> (" + v +
        ")\nreturn %g, %r#0, %r#1, %r#2, %r#3, %r#4 : tensor<f32>, " + v +
        "\n}";
    auto got = runModule(text, {w1, b1, w2, b2, beta, one});
    double r = double(width) / context, want = gate(parameters, r);
    EXPECT_NEAR(got[0][0], want, 2e-6 * want);
    for (size_t i = 0; i < parameters.size(); ++i)
      for (size_t j = 0; j < parameters[i].size(); ++j) {
        // Central differences, error O(step²) of a smooth function plus the
        // rounding of the parameter to f32.
        auto moved = [&](float by) {
          auto q = parameters;
          q[i][j] += by;
          return std::pair(gate(q, r), double(q[i][j]));
        };
        auto [up, high] = moved(1e-3f);
        auto [down, low] = moved(-1e-3f);
        double slope = (up - down) / (high - low);
        EXPECT_NEAR(got[i + 1][j], slope, 1e-4 * std::abs(slope) + 1e-5 * want);
      }
  }
}
