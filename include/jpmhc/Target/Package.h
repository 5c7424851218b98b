// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ahead-of-time products: a shared library with a C header and a manifest.
#ifndef JPMHC_TARGET_PACKAGE_H
#define JPMHC_TARGET_PACKAGE_H

#include "jpmhc/Target/GPU.h"
#include "llvm/Support/JSON.h"

namespace jpmhc {

/// Version of the manifest's format, its member "format".
inline constexpr int64_t kManifestVersion = 1;

/// What every manifest says: format, name, target, entries and kernels with
/// their arguments, shapes, element types and sizes in bytes.
llvm::json::Object makeManifest(llvm::StringRef name, llvm::StringRef target,
                                llvm::ArrayRef<EntrySpec> entries,
                                llvm::ArrayRef<KernelSpec> kernels);

/// A C header that declares every entry and says what its buffers are.
std::string makeHeader(llvm::StringRef name, llvm::ArrayRef<EntrySpec> entries,
                       llvm::ArrayRef<KernelSpec> kernels,
                       llvm::StringRef notes);

/// An error unless there is an entry, and every entry's name is one of C.
llvm::Error checkEntryNames(llvm::ArrayRef<EntrySpec> entries);

/// Makes a folder that a package is written to, where there is none.
llvm::Error createFolder(llvm::StringRef folder);

/// Writes a file beside and renames it.
llvm::Error writeFile(llvm::StringRef path, llvm::StringRef contents);

/// Writes `lib<name>.so`, `<name>.h` and `manifest.json` to `folder`. The
/// library calls the launch ABI of libjpmhc_runtime.so, which its user links.
/// Errors: those of checkEntryNames, no linker, a file that cannot be written.
llvm::Error writeCPUPackage(const CPUProgram &program, const CPUTarget &target,
                            llvm::StringRef name, llvm::StringRef folder);

/// Writes `kernels.ptx`, `<name>.h`, `manifest.json` and `report.json` to
/// `folder`. The report says for each kernel what ptxas made of it (registers,
/// spills, shared memory; "not assembled" where there is no ptxas) and, for the
/// kernels in `measured`, the bytes their launches moved and the floor: every
/// byte once a launch. Errors: those of checkEntryNames, translateToPTX and
/// assemblePTX, a file that cannot be written.
llvm::Error
writePTXPackage(const GPUProgram &program, const GPUOptions &options,
                llvm::StringRef name, llvm::StringRef folder,
                llvm::ArrayRef<emulator::EmulatedKernel> measured = {});

} // namespace jpmhc

#endif // JPMHC_TARGET_PACKAGE_H
