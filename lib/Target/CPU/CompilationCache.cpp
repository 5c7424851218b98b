// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Target/CompilationCache.h"
#include "jpmhc/Support/Settings.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Config/llvm-config.h"
#include "llvm/Support/BLAKE3.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include <atomic>
#include <link.h>

using namespace jpmhc;

/// First bytes of an entry; the number is the version of the format.
static constexpr llvm::StringLiteral kMagic = "JPMHC-CACHE-2\n";
/// Length of a digest in hexadecimal digits.
static constexpr size_t kDigestLength = 64;

std::string jpmhc::digestOf(llvm::StringRef text) {
  llvm::BLAKE3 hash;
  hash.update(text);
  auto result = hash.final<kDigestLength / 2>();
  return llvm::toHex(llvm::ArrayRef<uint8_t>(result), /*LowerCase=*/true);
}

/// Checksum of an entry; it covers the key, so that an entry under another name
/// is foreign.
static std::string checksumOf(llvm::StringRef contentDigest,
                              llvm::StringRef settingsDigest,
                              llvm::StringRef contents) {
  return digestOf((contentDigest + settingsDigest + contents).str());
}

/// The linker's build id of the program or library that holds this function.
static std::string buildId() {
  struct Search {
    uintptr_t address;
    std::string id;
  } search{reinterpret_cast<uintptr_t>(&buildId), ""};
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *data) {
        auto &search = *static_cast<Search *>(data);
        auto contains = [&](const ElfW(Phdr) & header) {
          uintptr_t begin = info->dlpi_addr + header.p_vaddr;
          return header.p_type == PT_LOAD && search.address >= begin &&
                 search.address < begin + header.p_memsz;
        };
        llvm::ArrayRef<ElfW(Phdr)> headers(info->dlpi_phdr, info->dlpi_phnum);
        if (llvm::none_of(headers, contains))
          return 0;
        for (const ElfW(Phdr) &header : headers)
          if (header.p_type == PT_NOTE)
            search.id.append(reinterpret_cast<const char *>(info->dlpi_addr +
                                                            header.p_vaddr),
                             header.p_memsz);
        return 1;
      },
      &search);
  return search.id;
}

std::string jpmhc::compilerDigest() {
  static const std::string digest = digestOf(buildId() + LLVM_VERSION_STRING);
  return digest;
}

CompilationCache CompilationCache::fromEnvironment() {
  if (!getSetting("JPMHC_DUMP").value_or("").empty())
    return CompilationCache(""); // stages that do not run cannot be dumped
  if (auto folder = getSetting("JPMHC_CACHE_DIR"))
    return CompilationCache(*folder);
  llvm::SmallString<128> path;
  if (!llvm::sys::path::cache_directory(path))
    return CompilationCache("");
  llvm::sys::path::append(path, "jpmhc");
  return CompilationCache(path.str().str());
}

std::string CompilationCache::pathOf(llvm::StringRef contentDigest,
                                     llvm::StringRef settingsDigest) const {
  llvm::SmallString<256> path(folder);
  llvm::sys::path::append(path, contentDigest.take_front(32) + "-" +
                                    settingsDigest.take_front(32));
  return path.str().str();
}

static bool explains() {
  return getSetting("JPMHC_LOG").value_or("") == "explain";
}

void CompilationCache::explain(llvm::StringRef what,
                               llvm::StringRef contentDigest,
                               bool damaged) const {
  if (!explains())
    return;
  llvm::StringRef reason = "it was not compiled before";
  std::string prefix = contentDigest.take_front(32).str();
  std::error_code error;
  for (llvm::sys::fs::directory_iterator it(folder, error), end;
       !error && it != end; it.increment(error))
    if (llvm::sys::path::filename(it->path()).starts_with(prefix))
      reason = "it was compiled for another processor, with other options or "
               "by another build of the compiler";
  if (damaged)
    reason = "its entry is truncated, changed or another's";
  llvm::errs() << "jpmhc: compiling " << what << ": " << reason << "\n";
}

std::unique_ptr<llvm::MemoryBuffer>
CompilationCache::load(llvm::StringRef what, llvm::StringRef contentDigest,
                       llvm::StringRef settingsDigest) const {
  if (!isOn())
    return nullptr;
  // Volatile: read, not mapped, for another process may truncate it.
  auto file = llvm::MemoryBuffer::getFile(
      pathOf(contentDigest, settingsDigest), /*IsText=*/false,
      /*RequiresNullTerminator=*/false, /*IsVolatile=*/true);
  if (!file) {
    explain(what, contentDigest, false);
    return nullptr;
  }
  llvm::StringRef contents = (*file)->getBuffer();
  bool sound = contents.consume_front(kMagic) &&
               contents.size() >= kDigestLength &&
               checksumOf(contentDigest, settingsDigest,
                          contents.drop_front(kDigestLength)) ==
                   contents.take_front(kDigestLength);
  if (!sound) {
    explain(what, contentDigest, true);
    return nullptr;
  }
  // A copy: objects must be aligned, and the file may go away.
  return llvm::MemoryBuffer::getMemBufferCopy(
      contents.drop_front(kDigestLength), what);
}

void CompilationCache::store(llvm::StringRef contentDigest,
                             llvm::StringRef settingsDigest,
                             llvm::StringRef contents) const {
  if (!isOn())
    return;
  auto publish = [&]() -> std::error_code {
    if (auto error = llvm::sys::fs::create_directories(folder))
      return error;
    std::string path = pathOf(contentDigest, settingsDigest);
    int descriptor;
    llvm::SmallString<256> temporary;
    if (auto error = llvm::sys::fs::createUniqueFile(path + ".%%%%%%%%",
                                                     descriptor, temporary))
      return error;
    llvm::raw_fd_ostream stream(descriptor, /*shouldClose=*/true);
    stream << kMagic << checksumOf(contentDigest, settingsDigest, contents)
           << contents;
    stream.close();
    std::error_code error = stream.error();
    stream.clear_error();
    if (!error)
      error = llvm::sys::fs::rename(temporary, path);
    if (error)
      llvm::sys::fs::remove(temporary);
    return error;
  };
  if (std::error_code error = publish()) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      llvm::errs() << "jpmhc: warning: cannot write the cache in " << folder
                   << " (" << error.message()
                   << "); compiled code will not be kept\n";
  }
}
