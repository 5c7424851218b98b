// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Manifolds of residual mixers: everything the compiler and the Python front
// end know of one is said once, in its own file in lib/Manifolds.
#ifndef JPMHC_MANIFOLDS_MANIFOLD_H
#define JPMHC_MANIFOLDS_MANIFOLD_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringRef.h"
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace jpmhc {

class SmallMath;
class SmallMatrix;
class Manifold;

using EmitError = llvm::function_ref<mlir::InFlightDiagnostic()>;

/// The value of an integer attribute; nothing for a boolean, for a number of
/// more than 64 bits and for other attributes.
std::optional<int64_t> integerOf(mlir::Attribute attribute);

/// A parameter of a manifold: its type, range and default.
struct ManifoldParameter {
  std::string name;
  std::string doc;
  /// What it must be, in words: "an integer from 1 to 512".
  std::string expected;
  std::function<bool(mlir::Attribute)> accepts;
  /// Null when leaving the parameter out means something of its own.
  std::function<mlir::Attribute(mlir::MLIRContext *)> defaultValue;

  /// An integer from `low` to `high`.
  static ManifoldParameter integer(std::string name, std::string doc,
                                   int64_t low, int64_t high,
                                   std::optional<int64_t> defaultValue);
  /// A finite number greater than 0.
  static ManifoldParameter positive(std::string name, std::string doc,
                                    double defaultValue);
  /// True or false.
  static ManifoldParameter flag(std::string name, std::string doc,
                                bool defaultValue);
  /// One of a few words, the first by default.
  static ManifoldParameter choice(std::string name, std::string doc,
                                  std::vector<std::string> choices);
};

/// The parameters of one use of a manifold, defaults filled in.
class ManifoldParameters {
public:
  ManifoldParameters(const Manifold &manifold, mlir::MLIRContext *context,
                     mlir::DictionaryAttr given);

  /// Null when the parameter was left out and has no default.
  mlir::Attribute get(llvm::StringRef name) const { return values.get(name); }
  bool has(llvm::StringRef name) const { return values.contains(name); }
  /// The value of a parameter of that kind; it must be there (see `has`).
  int64_t integer(llvm::StringRef name) const;
  double number(llvm::StringRef name) const;
  bool flag(llvm::StringRef name) const;
  llvm::StringRef choice(llvm::StringRef name) const;

private:
  mlir::DictionaryAttr values;
};

/// About what one token takes, known before anything is compiled. A square root
/// counts as one operation, as in Analysis/Cost.h.
struct ManifoldCost {
  int64_t flops = 0, transcendentals = 0;
};

/// A map from raw numbers (the logits of one token) to an n×n mixer.
class Manifold {
public:
  virtual ~Manifold();

  /// The name in programs, lower case.
  virtual llvm::StringRef name() const = 0;
  /// One sentence and the formula.
  virtual llvm::StringRef doc() const = 0;
  /// What a use may choose; none by default.
  virtual std::vector<ManifoldParameter> parameters() const { return {}; }

  /// Checks that need several parameters, or the number of streams.
  virtual llvm::LogicalResult verify(EmitError emitError,
                                     const ManifoldParameters &) const;
  virtual llvm::LogicalResult verifyStreams(EmitError emitError, int64_t n,
                                            const ManifoldParameters &) const;

  /// How many raw numbers one token gives.
  virtual int64_t rawSize(int64_t n, const ManifoldParameters &) const = 0;

  /// Builds H (n×n) from `raw` (rawSize×1) for a group of tokens.
  virtual SmallMatrix emit(SmallMath &math, int64_t n,
                           const ManifoldParameters &,
                           const SmallMatrix &raw) const = 0;
  /// Builds the gradient of `raw` (rawSize×1) for the gradient `dH` of H: exact
  /// for the forward that `emit` builds unless a parameter says otherwise.
  virtual SmallMatrix emitVjp(SmallMath &math, int64_t n,
                              const ManifoldParameters &,
                              const SmallMatrix &raw,
                              const SmallMatrix &dH) const = 0;

  /// About what `emit` takes for one token.
  virtual ManifoldCost cost(int64_t n, const ManifoldParameters &) const = 0;

  /// Bias of the raw numbers at the start, such that H is close to the identity
  /// (or maps equal streams to themselves) where the manifold can.
  virtual std::vector<double> initialBias(int64_t n,
                                          const ManifoldParameters &) const = 0;
  /// Whether equal streams stay as they are at the start.
  virtual bool startsAsIdentity() const { return true; }
};

/// All manifolds by name.
class ManifoldRegistry {
public:
  /// The most streams of a mixer.
  static constexpr int64_t kMaxStreams = 16;

  /// Null for an unknown name.
  static const Manifold *lookup(llvm::StringRef name);
  /// In alphabetical order.
  static std::vector<std::string> names();
  /// Adds a manifold of a program's own; false if the name is taken. Not to be
  /// called while other threads compile.
  static bool add(std::unique_ptr<Manifold> manifold);

  /// Checks a name and its parameters; emits `expected X, got Y`.
  static llvm::LogicalResult verify(EmitError emitError, llvm::StringRef name,
                                    mlir::DictionaryAttr parameters);
  /// Checks the number of streams for a name and parameters that are right.
  static llvm::LogicalResult verifyStreams(EmitError emitError,
                                           llvm::StringRef name,
                                           const ManifoldParameters &parameters,
                                           int64_t n);
};

} // namespace jpmhc

#endif // JPMHC_MANIFOLDS_MANIFOLD_H
