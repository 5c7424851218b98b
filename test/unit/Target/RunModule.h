// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles a module given as text and runs one of its functions on float
// arrays.
#ifndef JPMHC_TEST_UNIT_TARGET_RUNMODULE_H
#define JPMHC_TEST_UNIT_TARGET_RUNMODULE_H

#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Target/CPU.h"
#include "jpmhc/Target/GPU.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Parser/Parser.h"
#include "gtest/gtest.h"
#include <cstdlib>
#include <random>
#include <vector>

namespace jpmhc::test {

using Array = std::vector<float>;

/// n numbers of a normal distribution.
inline Array normal(size_t n, unsigned seed, float mean = 0,
                    float deviation = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> draw(mean, deviation);
  Array a(n);
  for (float &x : a)
    x = draw(engine);
  return a;
}

/// Options of a compilation that neither finds nor leaves anything in a cache.
inline CPUOptions uncached() {
  CPUOptions options;
  options.cache = CompilationCache("");
  return options;
}

/// The module compiled for a device of the launch ABI, "cpu" or "emulator".
inline llvm::Expected<std::unique_ptr<Executable>>
compileFor(const char *device, mlir::ModuleOp module,
           const CPUOptions &options) {
  if (llvm::StringRef(device) == "cpu")
    return compileForCPU(module, options);
  return compileForEmulator(module, GPUOptions());
}

/// Results of the first function of `text`, all tensors f32.
inline std::vector<Array> runModule(llvm::StringRef text,
                                    std::vector<Array> inputs,
                                    const char *device = "cpu",
                                    const CPUOptions &options = CPUOptions()) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "expected a valid module";
    return {};
  }
  auto executable = compileFor(device, *module, options);
  if (!executable) {
    ADD_FAILURE() << llvm::toString(executable.takeError());
    return {};
  }
  const EntrySpec &entry = (*executable)->entries()[0];
  std::vector<Array> results;
  std::vector<void *> buffers;
  for (Array &input : inputs)
    buffers.push_back(input.data());
  for (const BufferSpec &result : entry.results)
    results.emplace_back(result.elements());
  for (size_t i = 0; i < entry.results.size(); ++i)
    if (entry.aliases[i] < 0)
      buffers.push_back(results[i].data());
  void *arena = std::aligned_alloc(64, std::max<int64_t>(entry.arenaBytes, 64));
  buffers.push_back(arena);
  jpmhcContext *runtime = nullptr;
  EXPECT_EQ(jpmhcContextCreate(device, &runtime), 0) << jpmhcLastError(nullptr);
  EXPECT_EQ((*executable)->run(0, runtime, buffers.data()), 0)
      << jpmhcLastError(runtime);
  jpmhcContextDestroy(runtime);
  std::free(arena);
  for (size_t i = 0; i < entry.results.size(); ++i)
    if (entry.aliases[i] >= 0)
      results[i] = inputs[entry.aliases[i]];
  return results;
}

} // namespace jpmhc::test

#endif // JPMHC_TEST_UNIT_TARGET_RUNMODULE_H
