// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/SourceText.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ConvertUTF.h"

using namespace jpmhc;

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

namespace {
/// Looks through a text for what the parser cannot be given.
class Scanner {
public:
  explicit Scanner(llvm::StringRef text) : text(text) {}

  /// What is wrong at the line `line`; empty if nothing is.
  std::string problem() {
    for (size_t i = 0; i < text.size(); ++i) {
      if (size_t next = skipQuoted(text, i); next != i) {
        if (text[i] == '"')
          last = '"';
        i = next - 1;
        line += text[i] == '\n';
        continue;
      }
      if (isMalformedList(i))
        return "expected a list of integers such as [1, 0]";
      note(i);
      if (llvm::isSpace(text[i]))
        continue;
      last = text[i];
      if (int64_t(open.size()) > kMostNesting)
        return "expected at most " + std::to_string(kMostNesting) +
               " nested brackets, got more";
      if (item > kLongestItem)
        return "expected a separator after at most " +
               std::to_string(kLongestItem) + " characters, got more";
    }
    return "";
  }

  int64_t line = 1;

private:
  /// Whether a sign at `i` is a bracket and no part of -> <= >=.
  bool isAngle(size_t i) const {
    bool arrow = text[i] == '>' && i > 0 && text[i - 1] == '-';
    return !arrow && !text.substr(i + 1).starts_with("=");
  }

  void note(size_t i) {
    char c = text[i];
    line += c == '\n';
    if (llvm::StringRef("{[(").contains(c) || (c == '<' && isAngle(i))) {
      open.push_back({c, item});
      item = 0;
    } else if (llvm::StringRef("}])").contains(c) || (c == '>' && isAngle(i))) {
      item = open.empty() ? 0 : open.pop_back_val().second;
    } else if (open.empty() || open.back().first == '{' ||
               llvm::StringRef(",:=").contains(c)) {
      item = 0;
    } else {
      item += !llvm::isSpace(c);
    }
  }

  /// Whether linalg.transpose, reduce or broadcast has something else than a
  /// list of integers at `i`, which LLVM 22 takes for one and crashes on: its
  /// parser of permutation and dimensions does not look whether it read any.
  bool isMalformedList(size_t i) const {
    llvm::StringRef rest = text.substr(i);
    if (last != ')' || !(rest.consume_front("permutation") ||
                         rest.consume_front("dimensions")))
      return false;
    rest = rest.ltrim();
    if (!rest.consume_front("="))
      return false;
    rest = rest.ltrim();
    if (!rest.consume_front("["))
      return true;
    auto [list, behind] = rest.split(']');
    if (behind.empty() && !rest.ends_with("]"))
      return true;
    llvm::SmallVector<llvm::StringRef> items;
    if (!list.trim().empty())
      list.split(items, ',');
    int64_t value;
    return llvm::any_of(items, [&](llvm::StringRef one) {
      return one.trim().getAsInteger(10, value);
    });
  }

  llvm::StringRef text;
  /// Open brackets, each with the length of the item that it interrupts.
  llvm::SmallVector<std::pair<char, int64_t>> open;
  int64_t item = 0; // characters since the last separator
  char last = 0;    // the last character that is no space
};
} // namespace

llvm::Error jpmhc::checkSourceText(llvm::StringRef contents,
                                   llvm::StringRef name) {
  if (contents.starts_with("ML\xefR"))
    return llvm::Error::success();
  const llvm::UTF8 *begin = contents.bytes_begin();
  if (contents.contains('\0') ||
      !llvm::isLegalUTF8String(&begin, contents.bytes_end()))
    return llvm::createStringError("expected text or bytecode of MLIR in " +
                                   name + ", got other bytes");
  Scanner scanner(contents);
  std::string problem = scanner.problem();
  if (problem.empty())
    return llvm::Error::success();
  return llvm::createStringError(name + ":" + llvm::Twine(scanner.line) + ": " +
                                 problem);
}
