// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels compiled on several threads: the same objects in the same order as on
// one, and errors that reach the caller.
#include "../../../lib/Target/CPU/KernelObjects.h"
#include "RunModule.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Target/CPUCodeGen.h"

using namespace jpmhc;
using namespace jpmhc::test;

namespace {

/// Sets the number of threads for a test.
struct Threads {
  explicit Threads(int count) : before(jpmhcGetNumThreads()) {
    EXPECT_EQ(jpmhcSetNumThreads(count), 0);
  }
  ~Threads() { jpmhcSetNumThreads(before); }
  int before;
};

/// One function a kind of kernel, with norms, sums and transcendental
/// functions, which between them use every dialect that kernels use.
std::string manyKernels(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    std::string n = std::to_string(i),
                type = "tensor<3x" + std::to_string(5 + i) + "xf32>";
    text += "func.func @f" + n + "(%x: " + type + ") -> " + type + " {\n" +
            "  %a = jpmhc.rms_norm %x : (" + type + ") -> " + type + "\n" +
            "  %b = math.tanh %a : " + type + "\n" +
            "  %c = arith.mulf %b, %x : " + type + "\n" +
            "  return %c : " + type + "\n}\n";
  }
  return text;
}

mlir::OwningOpRef<mlir::ModuleOp> parse(llvm::StringRef text,
                                        mlir::MLIRContext &context) {
  mlir::DialectRegistry registry;
  registerAllDialects(registry);
  context.appendDialectRegistry(registry);
  return mlir::parseSourceString<mlir::ModuleOp>(text, &context);
}

} // namespace

TEST(KernelObjects, ThreadsChangeNothing) {
  mlir::MLIRContext context;
  auto module = parse(manyKernels(12), context);
  ASSERT_TRUE(module);
  std::vector<std::pair<std::string, std::string>> first;
  const char *turns = std::getenv("JPMHC_TEST_LONG");
  for (int turn = 0; turn < (turns ? 50 : 3); ++turn) {
    Threads threads(turn == 0 ? 1 : 4);
    auto program = buildForCPU(*module, uncached());
    ASSERT_TRUE(bool(program)) << llvm::toString(program.takeError());
    EXPECT_EQ(program->report.compiledKernels, 12);
    std::vector<std::pair<std::string, std::string>> objects;
    for (const CPUObject &object : program->objects)
      objects.emplace_back(object.name, object.code->getBuffer().str());
    if (turn == 0)
      first = std::move(objects);
    else
      EXPECT_EQ(objects, first);
  }
}

// An op of another target: the message names the place in the source.
TEST(KernelObjects, FailureIsReportedAtItsLine) {
  Threads threads(3);
  mlir::MLIRContext context;
  context.allowUnregisteredDialects();
  auto module = parse(R"mlir(
    module {
      func.func private @good_0(%l: index, %u: index) attributes {jpmhc.kernel} {
        return
      }
    }
    module {
      func.func private @bad_0(%l: index, %u: index) attributes {jpmhc.kernel} {
        gpu.barrier loc("model.py":7:3)
        return
      }
    })mlir",
                      context);
  ASSERT_TRUE(module);
  initializeNativeTarget();
  CPUOptions options = uncached();
  KernelObjects kernels(options, "");
  for (auto kernel : module->getOps<mlir::ModuleOp>())
    kernels.add(kernel);
  kernels.start();
  std::vector<std::string> messages;
  mlir::ScopedDiagnosticHandler handler(
      &context, [&](mlir::Diagnostic &diagnostic) {
        std::string text;
        llvm::raw_string_ostream(text)
            << diagnostic.getLocation() << " " << diagnostic;
        messages.push_back(text);
        return mlir::success();
      });
  auto objects = kernels.finish(&context);
  ASSERT_FALSE(bool(objects));
  EXPECT_EQ(llvm::toString(objects.takeError()),
            "expected a module in the LLVM dialect for bad_0");
  ASSERT_FALSE(messages.empty());
  EXPECT_NE(messages[0].find("model.py\":7:3"), std::string::npos)
      << messages[0];
}
