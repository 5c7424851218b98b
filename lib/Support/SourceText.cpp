// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/SourceText.h"
#include "llvm/Support/ConvertUTF.h"

/// The position after a string or a comment that starts at `i`, else `i`.
static size_t skipQuoted(llvm::StringRef text, size_t i) {
  if (text.substr(i).starts_with("//"))
    return std::min(text.find('\n', i), text.size());
  if (text[i] != '"')
    return i;
  for (size_t j = i + 1; j < text.size(); ++j) {
    if (text[j] == '\\')
      ++j;
    else if (text[j] == '"' || text[j] == '\n')
      return j + 1;
  }
  return text.size();
}

llvm::Error jpmhc::checkSourceText(llvm::StringRef contents,
                                   llvm::StringRef name) {
  if (contents.starts_with("ML\xefR"))
    return llvm::Error::success();
  const llvm::UTF8 *begin = contents.bytes_begin();
  if (contents.contains('\0') ||
      !llvm::isLegalUTF8String(&begin, contents.bytes_end()))
    return llvm::createStringError("expected text or bytecode of MLIR in " +
                                   name + ", got other bytes");
  int64_t depth = 0, line = 1;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (size_t next = skipQuoted(contents, i); next != i) {
      i = next - 1;
      continue;
    }
    char c = contents[i];
    line += c == '\n';
    bool opens = c == '{' || c == '[' || c == '(';
    bool closes = c == '}' || c == ']' || c == ')';
    depth += opens ? 1 : closes ? -1 : 0;
    if (depth > kMostNesting)
      return llvm::createStringError(
          name + ":" + llvm::Twine(line) + ": expected at most " +
          llvm::Twine(kMostNesting) + " nested brackets, got more");
  }
  return llvm::Error::success();
}
