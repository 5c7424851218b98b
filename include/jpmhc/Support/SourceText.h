// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What can be said of a source file before it is parsed.
#ifndef JPMHC_SUPPORT_SOURCETEXT_H
#define JPMHC_SUPPORT_SOURCETEXT_H

#include "llvm/Support/Error.h"

namespace jpmhc {

/// Brackets that may be open at once: the parser is recursive, and its stack
/// ends the process.
inline constexpr int64_t kMostNesting = 512;

/// Characters, spaces aside, that may stand within (), [] or <> without a
/// separator: each operator of an expression nests too.
inline constexpr int64_t kLongestItem = 4096;

/// An error unless `contents` is bytecode, or text that is safe to parse: its
/// brackets nest no deeper than `kMostNesting`, its items are no longer than
/// `kLongestItem`, and it has no malformed list that the parser of LLVM 22
/// crashes on. `name` is what the error calls the file.
llvm::Error checkSourceText(llvm::StringRef contents, llvm::StringRef name);

} // namespace jpmhc

#endif // JPMHC_SUPPORT_SOURCETEXT_H
