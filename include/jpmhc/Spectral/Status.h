// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Status.h - How functions of the spectral library fail -----*- C++
//-*-===//
//
// The spectral library needs neither LLVM nor exceptions: a function that can
// fail returns a Status, which names the kind and says what was expected.
//
//===----------------------------------------------------------------------===//
#ifndef JPMHC_SPECTRAL_STATUS_H
#define JPMHC_SPECTRAL_STATUS_H

#include <string>
#include <utility>

namespace jpmhc::spectral {

/// Success, or a kind of failure with a message.
class [[nodiscard]] Status {
public:
  enum class Kind {
    Ok,
    /// Arrays whose ranks or sizes do not fit.
    Shape,
    /// A number outside its domain.
    Value,
    /// The caller asked to stop.
    Interrupted,
  };

  static Status ok() { return Status(Kind::Ok, {}); }
  static Status shape(std::string message) {
    return Status(Kind::Shape, std::move(message));
  }
  static Status value(std::string message) {
    return Status(Kind::Value, std::move(message));
  }
  static Status interrupted() { return Status(Kind::Interrupted, {}); }

  bool isOk() const { return kind == Kind::Ok; }
  Kind getKind() const { return kind; }
  /// `expected X, got Y`.
  const std::string &getMessage() const { return message; }

private:
  Status(Kind kind, std::string message)
      : kind(kind), message(std::move(message)) {}

  Kind kind;
  std::string message;
};

} // namespace jpmhc::spectral

#endif // JPMHC_SPECTRAL_STATUS_H
