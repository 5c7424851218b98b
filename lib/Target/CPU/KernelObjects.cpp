// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "KernelObjects.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Interrupts.h"
#include "jpmhc/Support/Locations.h"
#include "jpmhc/Support/Settings.h"
#include "jpmhc/Target/CPUCodeGen.h"
#include "jpmhc/Target/Lowering.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace jpmhc;

KernelObjects::~KernelObjects() {
  stopped = true;
  join();
}

void KernelObjects::join() {
  for (std::thread &thread : threads)
    thread.join();
  threads.clear();
}

void KernelObjects::add(ModuleOp module) {
  Kernel kernel;
  kernel.name = (*module.getOps<func::FuncOp>().begin()).getName().str();
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().useLocalScope()); // no locations
  kernel.digest = digestOf(text);
  kernel.code =
      options.cache.load("kernel " + kernel.name, kernel.digest, settings);
  if (!kernel.code) {
    llvm::raw_string_ostream bytes(kernel.bytecode);
    (void)writeBytecodeToFile(module, bytes); // strings take any number
    order.push_back(kernels.size());
  }
  kernels.push_back(std::move(kernel));
}

void KernelObjects::start() {
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return kernels[a].bytecode.size() > kernels[b].bytecode.size();
  });
  // Dumps are numbered in the order of the stages: one after the other.
  if (!getSetting("JPMHC_DUMP").value_or("").empty())
    return work();
  size_t count = std::min<size_t>(jpmhcGetNumThreads(), order.size());
  for (size_t i = 1; i < count; ++i)
    threads.emplace_back([this] {
      // The thread that started this one is asked, and hands its answer on.
      auto ask = [this] { return stopped.load(); };
      InterruptScope scope(ask);
      work();
    });
}

void KernelObjects::work() {
  std::unique_ptr<MLIRContext> context;
  for (size_t i = next++; i < order.size(); i = next++) {
    if (isInterrupted())
      stopped = true;
    if (stopped)
      return;
    if (!context) {
      DialectRegistry registry;
      registerAllDialects(registry);
      context = std::make_unique<MLIRContext>(registry,
                                              MLIRContext::Threading::DISABLED);
    }
    compile(kernels[order[i]], *context);
  }
}

void KernelObjects::compile(Kernel &kernel, MLIRContext &context) const {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return success();
    Message message;
    message.text = diagnostic.str();
    if (FileLineColLoc position = findPosition(diagnostic.getLocation())) {
      message.file = position.getFilename().str();
      message.line = position.getLine();
      message.column = position.getColumn();
    }
    kernel.messages.push_back(std::move(message));
    return success();
  });
  ParserConfig config(&context, /*verifyAfterParse=*/false);
  auto module = parseSourceString<ModuleOp>(kernel.bytecode, config);
  if (!module) {
    kernel.failure = "expected to read kernel " + kernel.name + " back";
    return;
  }
  if (auto error = runPipeline(*module, buildKernelsToLLVMPipeline,
                               "lowering kernel " + kernel.name)) {
    kernel.failure = llvm::toString(std::move(error));
    return;
  }
  auto code = generateObject(*module, options, kernel.name);
  if (!code) {
    kernel.failure = llvm::toString(code.takeError());
    return;
  }
  options.cache.store(kernel.digest, settings, (*code)->getBuffer());
  kernel.code = std::move(*code);
}

llvm::Expected<std::vector<CPUObject>>
KernelObjects::finish(MLIRContext *context) {
  work();
  join();
  if (isInterrupted())
    return llvm::createStringError("interrupted while compiling kernels");
  std::vector<CPUObject> objects;
  for (Kernel &kernel : kernels) {
    for (const Message &message : kernel.messages) {
      Location location = UnknownLoc::get(context);
      if (!message.file.empty())
        location = FileLineColLoc::get(context, message.file, message.line,
                                       message.column);
      emitError(location) << message.text;
    }
    if (!kernel.code)
      return llvm::createStringError(kernel.failure);
    objects.push_back({kernel.name, std::move(kernel.code)});
  }
  return objects;
}
