// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiled code kept on disk between runs.
//
// An entry's name has two parts: a digest of what was compiled, and one of what
// it was compiled with (processor, options, this build of the compiler).
// Entries are written beside and renamed, and carry a checksum: what is
// truncated or foreign is compiled again, never loaded. A cache that cannot be
// read or written costs time only.
#ifndef JPMHC_TARGET_COMPILATIONCACHE_H
#define JPMHC_TARGET_COMPILATIONCACHE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>

namespace jpmhc {

/// Digest (hexadecimal) of a text.
std::string digestOf(llvm::StringRef text);

/// Digest that changes with every build of the compiler and with LLVM.
std::string compilerDigest();

/// A folder of entries; any number of processes may use it at once.
class CompilationCache {
public:
  /// The folder of `JPMHC_CACHE_DIR`; where that is not set, `jpmhc` in the
  /// user's cache folder. An empty `JPMHC_CACHE_DIR` switches the cache off,
  /// and so does `JPMHC_DUMP`.
  static CompilationCache fromEnvironment();

  /// A cache in `folder`; off when it is empty.
  explicit CompilationCache(std::string folder) : folder(std::move(folder)) {}

  bool isOn() const { return !folder.empty(); }

  /// The entry's contents, or null. With `JPMHC_LOG=explain` a miss says why,
  /// naming `what`.
  std::unique_ptr<llvm::MemoryBuffer>
  load(llvm::StringRef what, llvm::StringRef contentDigest,
       llvm::StringRef settingsDigest) const;

  /// Publishes an entry; a failure is reported once a process and otherwise
  /// ignored.
  void store(llvm::StringRef contentDigest, llvm::StringRef settingsDigest,
             llvm::StringRef contents) const;

private:
  std::string pathOf(llvm::StringRef contentDigest,
                     llvm::StringRef settingsDigest) const;
  void explain(llvm::StringRef what, llvm::StringRef contentDigest,
               bool damaged) const;

  std::string folder;
};

} // namespace jpmhc

#endif // JPMHC_TARGET_COMPILATIONCACHE_H
