// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the tests of the emulator and of the PTX back end share.

#ifndef JPMHC_TEST_MODULES_H
#define JPMHC_TEST_MODULES_H

#include "jpmhc/Runtime/Emulator.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/IRReader/IRReader.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/raw_ostream.h"

#include "gtest/gtest.h"

#include <fstream>
#include <string>
#include <vector>

namespace jpmhc::test {

/// A module with the context it lives in.
struct OwnedModule {
  std::unique_ptr<llvm::LLVMContext> context =
      std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> module;
};

/// "Good" or "Bad", compiled from inputs/*.cu when the tests are built.
inline OwnedModule loadModule(const std::string &name) {
  OwnedModule owned;
  llvm::SMDiagnostic diagnostic;
  owned.module = llvm::parseIRFile(JPMHC_TEST_MODULES "/" + name + ".ll",
                                   diagnostic, *owned.context);
  if (!owned.module)
    diagnostic.print("jpmhc tests", llvm::errs());
  return owned;
}

inline OwnedModule parseModule(llvm::StringRef text) {
  OwnedModule owned;
  llvm::SMDiagnostic diagnostic;
  owned.module = llvm::parseIR(llvm::MemoryBufferRef(text, "test"), diagnostic,
                               *owned.context);
  if (!owned.module)
    diagnostic.print("jpmhc tests", llvm::errs());
  return owned;
}

/// The 1-based line of inputs/`file` that holds `text`, after the line that
/// holds `after`.
inline unsigned findLine(const std::string &file, const std::string &text,
                         const std::string &after) {
  std::ifstream stream(JPMHC_TEST_SOURCES "/" + file);
  std::string line;
  bool active = false;
  for (unsigned number = 1; std::getline(stream, line); ++number) {
    active |= line.find(after) != std::string::npos;
    if (active && line.find(text) != std::string::npos)
      return number;
  }
  return 0;
}

/// The emulator of a module, compiled once for all tests that use the same
/// options: launches leave nothing behind.
inline std::shared_ptr<emulator::Emulator>
getEmulator(const std::string &module,
            const emulator::EmulatorOptions &options) {
  static std::map<std::string, std::shared_ptr<emulator::Emulator>> known;
  std::string key = module + "," + std::to_string(options.optLevel) + "," +
                    std::to_string(options.hostThreads) + "," +
                    std::to_string(options.countSectors) + "," +
                    std::to_string(options.maxAccesses);
  std::shared_ptr<emulator::Emulator> &emulator = known[key];
  if (!emulator) {
    OwnedModule owned = loadModule(module);
    auto created = emulator::Emulator::create(*owned.module, options);
    if (created)
      emulator = std::move(*created);
    else
      ADD_FAILURE() << llvm::toString(created.takeError());
  }
  return emulator;
}

/// An emulator with the buffers of one launch.
class Runner {
public:
  explicit Runner(const std::string &module,
                  const emulator::EmulatorOptions &options = {})
      : emulator(getEmulator(module, options)) {}

  template <typename T>
  void add(std::vector<T> &buffer, llvm::StringRef name, bool writable = true) {
    if (llvm::Error error = memory.registerBuffer(
            buffer.data(), buffer.size() * sizeof(T), name, writable))
      ADD_FAILURE() << llvm::toString(std::move(error));
  }

  /// Launches with one-dimensional extents; arguments are values or vectors.
  template <typename... Arguments>
  llvm::Expected<emulator::LaunchReport> launch(llvm::StringRef kernel,
                                                unsigned grid, unsigned block,
                                                Arguments &...arguments) {
    emulator::EmulatorLaunch launch;
    launch.grid.x = grid;
    launch.block.x = block;
    launch.dynamicSharedBytes = dynamicSharedBytes;
    launch.seed = seed;
    std::vector<const void *> pointers{pointerTo(arguments)...};
    launch.arguments = pointers;
    return emulator->launch(kernel, launch, memory);
  }

  uint64_t seed = 0;
  uint32_t dynamicSharedBytes = 0;
  emulator::DeviceMemory memory;
  std::shared_ptr<emulator::Emulator> emulator;

private:
  template <typename T> const void *pointerTo(std::vector<T> &buffer) {
    addresses.push_back(std::make_unique<const void *>(buffer.data()));
    return addresses.back().get();
  }
  template <typename T> const void *pointerTo(T &value) { return &value; }

  std::vector<std::unique_ptr<const void *>> addresses;
};

/// The report, or a failed test with the error's text.
inline emulator::LaunchReport
succeed(llvm::Expected<emulator::LaunchReport> report) {
  if (report)
    return *report;
  ADD_FAILURE() << llvm::toString(report.takeError());
  return {};
}

} // namespace jpmhc::test

#endif // JPMHC_TEST_MODULES_H
