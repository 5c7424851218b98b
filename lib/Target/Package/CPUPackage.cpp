// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Dialect/JPMHC/IR/Names.h"
#include "jpmhc/Target/Package.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"

using namespace jpmhc;

/// Links object files to a shared library with the linker on this machine.
/// Entries get the names that C programs call them by.
static llvm::Error linkLibrary(llvm::ArrayRef<std::string> objects,
                               llvm::ArrayRef<EntrySpec> entries,
                               llvm::StringRef path) {
  llvm::ErrorOr<std::string> linker = std::error_code();
  for (llvm::StringRef name : {"ld.lld-22", "ld.lld", "ld"}) {
    linker = llvm::sys::findProgramByName(name);
    if (linker)
      break;
  }
  if (!linker)
    return llvm::createStringError(
        "expected a linker (ld.lld or ld) on PATH, found none");
  std::vector<std::string> names;
  for (const EntrySpec &entry : entries)
    names.push_back("--defsym=" + entry.name + "=" + entry.name +
                    kEntrySuffix.str());
  std::vector<llvm::StringRef> arguments{*linker, "-shared", "-o", path};
  arguments.insert(arguments.end(), names.begin(), names.end());
  arguments.insert(arguments.end(), objects.begin(), objects.end());
  std::string message;
  int status = llvm::sys::ExecuteAndWait(*linker, arguments, std::nullopt, {},
                                         0, 0, &message);
  if (status)
    return llvm::createStringError("expected " + *linker +
                                   " to link the library, got status " +
                                   std::to_string(status) + " " + message);
  return llvm::Error::success();
}

static llvm::Error writeLibrary(const CPUProgram &program,
                                llvm::StringRef path) {
  std::vector<std::string> objects;
  llvm::scope_exit clean([&] {
    for (const std::string &object : objects)
      llvm::sys::fs::remove(object);
  });
  for (const CPUObject &object : program.objects) {
    llvm::SmallString<128> temporary;
    if (auto error =
            llvm::sys::fs::createTemporaryFile("jpmhc", "o", temporary))
      return llvm::createStringError(error, "expected a temporary file, got: " +
                                                error.message());
    objects.push_back(temporary.str().str());
    if (auto error = writeFile(temporary, object.code->getBuffer()))
      return error;
  }
  std::string beside = (path + ".part").str();
  if (auto error = linkLibrary(objects, program.entries, beside)) {
    llvm::sys::fs::remove(beside);
    return error;
  }
  if (auto error = llvm::sys::fs::rename(beside, path))
    return llvm::createStringError(error, "expected to write " + path +
                                              ", got: " + error.message());
  return llvm::Error::success();
}

llvm::Error jpmhc::writeCPUPackage(const CPUProgram &program,
                                   const CPUTarget &target,
                                   llvm::StringRef name,
                                   llvm::StringRef folder) {
  if (auto error = checkEntryNames(program.entries))
    return error;
  if (auto error = createFolder(folder))
    return error;
  auto at = [&](const llvm::Twine &file) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, file);
    return path.str().str();
  };
  std::string library = ("lib" + name + ".so").str();
  if (auto error = writeLibrary(program, at(library)))
    return error;
  std::string header =
      makeHeader(name, program.entries, program.kernels,
                 "Link " + library + " with libjpmhc_runtime.so.");
  if (auto error = writeFile(at(name + ".h"), header))
    return error;
  llvm::json::Object manifest =
      makeManifest(name, "cpu", program.entries, program.kernels);
  manifest["library"] = library;
  manifest["chip"] = target.chip;
  manifest["features"] = target.features;
  std::string text;
  llvm::raw_string_ostream(text)
      << llvm::formatv("{0:2}\n", llvm::json::Value(std::move(manifest)));
  return writeFile(at("manifest.json"), text);
}
