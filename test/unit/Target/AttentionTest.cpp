// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "RunModule.h"
#include <cmath>

using jpmhc::CPUOptions;
using jpmhc::test::Array;
using jpmhc::test::normal;
using jpmhc::test::runModule;

// A value of the kernels holds as many tokens as the machine has lanes, one on
// a GPU; a number of lanes that is no power of two has no transposition by
// shuffles. What is computed is the same.
TEST(Attention, AnyNumberOfLanesAndTheEmulator) {
  const int tokens = 21, queries = 1 * tokens * 4 * 6,
            keys = 1 * tokens * 2 * 6;
  std::vector<Array> inputs{normal(queries, 1), normal(keys, 2),
                            normal(keys, 3), normal(queries, 4)};
  auto run = [&](int64_t lanes, const char *device = "cpu") {
    CPUOptions options;
    options.target.lanes = lanes;
    return runModule(R"mlir(
      !q = tensor<1x21x4x6xf32>
      !k = tensor<1x21x2x6xf32>
      !l = tensor<1x4x21xf32>
      func.func @f(%q: !q, %k: !k, %v: !k, %dout: !q) -> (!q, !l, !q, !k, !k) {
        %out, %lse = jpmhc.attention %q, %k, %v {causal = true, window = 7 : i64} : (!q, !k, !k) -> (!q, !l)
        %dq, %dk, %dv = jpmhc.attention_vjp %q, %k, %v, %out, %lse, %dout {causal = true, window = 7 : i64}
          : (!q, !k, !k, !q, !l, !q) -> (!q, !k, !k)
        return %out, %lse, %dq, %dk, %dv : !q, !l, !q, !k, !k
      })mlir",
                     inputs, device, options);
  };
  std::vector<Array> want = run(16);
  ASSERT_EQ(want.size(), 5u);
  auto compare = [&](const std::vector<Array> &got, llvm::StringRef what) {
    ASSERT_EQ(got.size(), 5u);
    for (size_t i = 0; i < got.size(); ++i)
      for (size_t j = 0; j < want[i].size(); ++j)
        ASSERT_NEAR(got[i][j], want[i][j], 4e-6)
            << "result " << i << ", element " << j << ", " << what.str();
  };
  for (int64_t lanes : {1, 3, 8})
    compare(run(lanes), std::to_string(lanes) + " lanes");
  compare(run(1, "emulator"), "emulator");
}
