// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A compiled step (forward, backward and optimiser) allocates nothing.
#include "RunModule.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define JPMHC_TEST_SANITIZED 1
#endif
#endif

#ifndef JPMHC_TEST_SANITIZED

#include "../CountAllocations.h"

using namespace jpmhc;

static const char *const kStep = R"mlir(
  #x = affine_map<(m,n,k)->(m,k)>
  #w = affine_map<(m,n,k)->(n,k)>
  #y = affine_map<(m,n,k)->(m,n)>
  func.func private @loss(%w: tensor<96x64xf32>, %x: tensor<256x64xf32>, %t: tensor<256xi32>) -> tensor<f32> {
    %n = jpmhc.rms_norm %x : (tensor<256x64xf32>) -> tensor<256x64xf32>
    %zero = arith.constant 0.0 : f32
    %e = tensor.empty() : tensor<256x96xf32>
    %i = linalg.fill ins(%zero : f32) outs(%e : tensor<256x96xf32>) -> tensor<256x96xf32>
    %y = linalg.contract indexing_maps = [#x, #w, #y]
      ins(%n, %w : tensor<256x64xf32>, tensor<96x64xf32>) outs(%i : tensor<256x96xf32>) -> tensor<256x96xf32>
    %l = jpmhc.softmax_cross_entropy %y, %t : tensor<256x96xf32>, tensor<256xi32>
    return %l : tensor<f32>
  }
  func.func @step(%w: tensor<96x64xf32> {jpmhc.inplace}, %m: tensor<96x64xf32> {jpmhc.inplace},
                  %v: tensor<96x64xf32> {jpmhc.inplace}, %x: tensor<256x64xf32>, %t: tensor<256xi32>)
      -> (tensor<f32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>) {
    %one = arith.constant dense<1.0> : tensor<f32>
    %l, %g = jpmhc.vjp @loss(%w, %x, %t) cotangents(%one) wrt [0]
      : (tensor<96x64xf32>, tensor<256x64xf32>, tensor<256xi32>, tensor<f32>) -> (tensor<f32>, tensor<96x64xf32>)
    %lr = arith.constant 0.01 : f32
    %step = arith.constant 1 : i64
    %p1, %m1, %v1 = jpmhc.adam_atan2 %w, %g, %m, %v lr %lr step %step {beta1 = 0.9 : f32, beta2 = 0.95 : f32}
      : tensor<96x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>
    return %l, %p1, %m1, %v1 : tensor<f32>, tensor<96x64xf32>, tensor<96x64xf32>, tensor<96x64xf32>
  }
)mlir";

TEST(CompiledStep, AllocatesNothing) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(kStep, &context);
  ASSERT_TRUE(module);
  auto executable = compileForCPU(*module, CPUOptions());
  ASSERT_TRUE(static_cast<bool>(executable))
      << llvm::toString(executable.takeError());
  const EntrySpec &entry = (*executable)->entries()[0];
  EXPECT_EQ(entry.aliases, (std::vector<int64_t>{-1, 0, 1, 2}));
  test::Array w(96 * 64, 0.01f), m(96 * 64), v(96 * 64), x(256 * 64);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = static_cast<float>(i % 17) - 8;
  std::vector<int32_t> targets(256);
  for (size_t i = 0; i < targets.size(); ++i)
    targets[i] = i % 96;
  float loss = 0;
  void *arena = std::aligned_alloc(64, std::max<int64_t>(entry.arenaBytes, 64));
  void *buffers[] = {w.data(),       m.data(), v.data(), x.data(),
                     targets.data(), &loss,    arena};
  jpmhcContext *runtime = nullptr;
  ASSERT_EQ(jpmhcContextCreate("cpu", &runtime), JPMHC_OK);
  ASSERT_EQ((*executable)->run(0, runtime, buffers), JPMHC_OK);
  float first = loss;
  int32_t bad = 0;
  EXPECT_EQ(allocationsOfTenSteps(
                [&] { bad |= (*executable)->run(0, runtime, buffers); }),
            0);
  EXPECT_EQ(bad, JPMHC_OK);
  EXPECT_LT(loss, first);
  jpmhcContextDestroy(runtime);
  std::free(arena);
}

#else

TEST(CompiledStep, AllocatesNothing) {
  GTEST_SKIP() << "the sanitizer has allocators of its own";
}

#endif
