// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Dump.h"
#include "jpmhc/Support/Settings.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>

/// Names of kernels grow with what was fused; names of files may not.
static constexpr size_t kLongestName = 150;

/// `what` as part of a file's name.
static std::string fileNameOf(llvm::StringRef what) {
  static std::atomic<unsigned> count{0};
  std::string name =
      llvm::formatv("{0,0+4}-{1}.mlir", count++, what.take_front(kLongestName));
  for (char &c : name)
    if (!llvm::isAlnum(c) && c != '.' && c != '_')
      c = '-';
  return name;
}

static void reportOnce(llvm::StringRef folder, std::error_code error) {
  static std::atomic<bool> said{false};
  if (!said.exchange(true))
    llvm::errs() << "jpmhc: warning: cannot write to JPMHC_DUMP=" << folder
                 << " (" << error.message() << ")\n";
}

void jpmhc::dumpStage(mlir::ModuleOp module, llvm::StringRef what) {
  std::string folder = getSetting("JPMHC_DUMP").value_or("");
  if (folder.empty())
    return;
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, fileNameOf(what));
  if (auto error = llvm::sys::fs::create_directories(folder))
    return reportOnce(folder, error);
  std::error_code error;
  llvm::raw_fd_ostream stream(path, error);
  if (error)
    return reportOnce(folder, error);
  module->print(stream, mlir::OpPrintingFlags().useLocalScope());
  stream.close();
  if (stream.has_error()) {
    reportOnce(folder, stream.error());
    stream.clear_error();
  }
}
