// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Builds a module op by op from a front end that knows types and attributes as
// MLIR text. It is generic: an op added to a dialect needs nothing here. Each
// op is verified when it is made, and everything the compiler says on the way
// comes back as an `llvm::Error`, never on stderr.

#ifndef JPMHC_FRONTEND_GRAPHBUILDER_H
#define JPMHC_FRONTEND_GRAPHBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace jpmhc {

/// A place in the user's program; line 0 means unknown.
struct SourceLocation {
  std::string file;
  unsigned line = 0;
  unsigned column = 0;
};

/// What the compiler said, and where in the user's program it points.
class DiagnosticError : public llvm::ErrorInfo<DiagnosticError> {
public:
  static char ID;

  DiagnosticError(std::string message, SourceLocation location)
      : message(std::move(message)), location(std::move(location)) {}

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override {
    return llvm::inconvertibleErrorCode();
  }

  const std::string &getMessage() const { return message; }
  const SourceLocation &getLocation() const { return location; }

private:
  std::string message;
  SourceLocation location;
};

/// The first FileLineCol location inside `loc`, or an empty one.
SourceLocation findSourceLocation(mlir::Location loc);

/// Collects the diagnostics of a context while it lives and makes one error of
/// them.
class DiagnosticCollector {
public:
  explicit DiagnosticCollector(mlir::MLIRContext *context);

  bool hasErrors() const { return !errors.empty(); }
  /// The first error with its notes; `fallback` at `where` if nothing was
  /// reported.
  llvm::Error takeError(llvm::StringRef fallback, SourceLocation where);

private:
  std::vector<std::pair<std::string, SourceLocation>> errors;
  mlir::ScopedDiagnosticHandler handler;
};

/// One op to be created. An operand group is the list of values of one operand
/// of the op's definition: a single value, none (an absent optional operand) or
/// several (a variadic one).
struct OpRequest {
  std::string name;
  std::vector<std::vector<mlir::Value>> operandGroups;
  /// Attribute name and MLIR attribute text, as in `{"eps", "1.0e-5 : f32"}`.
  std::vector<std::pair<std::string, std::string>> attributes;
  /// Result types as MLIR text; nullopt asks the op to infer them.
  std::optional<std::vector<std::string>> resultTypes;
  /// Handles of regions closed by `endRegion`, in order.
  std::vector<unsigned> regions;
  SourceLocation location;
};

/// A module under construction in an MLIR context of its own; the values it
/// gives out live as long as it.
class GraphBuilder {
public:
  explicit GraphBuilder(const mlir::DialectRegistry &registry);
  ~GraphBuilder();

  mlir::MLIRContext *getContext() { return context.get(); }
  mlir::ModuleOp getModule() { return *module; }

  /// Starts `func.func @name`; functions may be started inside one another's
  /// construction (they end up side by side). Returns the values of its
  /// arguments.
  llvm::Expected<std::vector<mlir::Value>>
  beginFunction(llvm::StringRef name, llvm::ArrayRef<std::string> argumentTypes,
                bool isPrivate, const SourceLocation &location);
  /// Appends an argument to the function under construction (found while its
  /// body is traced).
  llvm::Expected<mlir::Value> addArgument(llvm::StringRef type,
                                          const SourceLocation &location);
  /// Attaches an attribute to argument `index` of the function under
  /// construction.
  llvm::Error setArgumentAttribute(unsigned index, llvm::StringRef name,
                                   llvm::StringRef attribute);
  /// Ends the innermost function with `func.return` and verifies it.
  llvm::Error endFunction(llvm::ArrayRef<mlir::Value> results,
                          const SourceLocation &location);
  /// Drops the innermost function under construction and its open regions
  /// (after an error in the user's code).
  void abandonFunction();

  /// Starts a region whose entry block has these arguments; ops go into it
  /// until `endRegion`.
  llvm::Expected<std::vector<mlir::Value>>
  beginRegion(llvm::ArrayRef<std::string> argumentTypes,
              const SourceLocation &location);
  /// Ends it with the op `terminator` and returns the handle for
  /// `OpRequest::regions`.
  llvm::Expected<unsigned> endRegion(llvm::StringRef terminator,
                                     llvm::ArrayRef<mlir::Value> results,
                                     const SourceLocation &location);

  /// Creates and verifies an op; on failure nothing is left behind.
  llvm::Expected<std::vector<mlir::Value>> createOp(const OpRequest &request);

  /// `arith.constant dense<…>`: `bytes` is one element (a splat) or all of them
  /// in row-major order. Elements of an i1 tensor take a byte each.
  llvm::Expected<mlir::Value> constant(llvm::StringRef type,
                                       llvm::ArrayRef<char> bytes,
                                       const SourceLocation &location);
  /// `linalg.contract` into zeros; `maps` are affine maps of lhs, rhs and
  /// result.
  llvm::Expected<mlir::Value> contract(mlir::Value lhs, mlir::Value rhs,
                                       llvm::ArrayRef<std::string> maps,
                                       llvm::StringRef resultType,
                                       const SourceLocation &location);
  /// `linalg.reduce` over `axes` with the binary op `combiner` (as
  /// `arith.addf`), started from `init` (attribute text).
  llvm::Expected<mlir::Value> reduce(mlir::Value input,
                                     llvm::ArrayRef<int64_t> axes,
                                     llvm::StringRef combiner,
                                     llvm::StringRef init,
                                     const SourceLocation &location);
  /// `linalg.broadcast`: `addedAxes` are the axes of `resultType` that the
  /// input lacks.
  llvm::Expected<mlir::Value> broadcast(mlir::Value input,
                                        llvm::ArrayRef<int64_t> addedAxes,
                                        llvm::StringRef resultType,
                                        const SourceLocation &location);
  /// `linalg.transpose`: axis i of the result is axis `permutation[i]` of the
  /// input.
  llvm::Expected<mlir::Value> transpose(mlir::Value input,
                                        llvm::ArrayRef<int64_t> permutation,
                                        const SourceLocation &location);

  /// Verifies the finished module.
  llvm::Error verify();
  /// The module as text, finished or not; with `debugInfo`, with locations.
  std::string print(bool debugInfo) const;

private:
  struct Scope;

  mlir::Location getLocation(const SourceLocation &location);
  llvm::Expected<mlir::Type> parseTypeText(llvm::StringRef text,
                                           const SourceLocation &location);
  llvm::Expected<std::vector<mlir::Type>>
  parseTypeTexts(llvm::ArrayRef<std::string> texts,
                 const SourceLocation &location);
  llvm::Expected<mlir::Attribute>
  parseAttributeText(llvm::StringRef text, const SourceLocation &location);
  llvm::Expected<mlir::NamedAttrList> parseAttributes(mlir::OperationName name,
                                                      const OpRequest &request);
  llvm::Error checkVisible(llvm::ArrayRef<mlir::Value> values,
                           const SourceLocation &location);
  /// What structured ops begin with: an open scope, visible operands, and a
  /// tensor type of static shape (of `resultType`, or else of the operand).
  llvm::Expected<mlir::RankedTensorType>
  prepare(llvm::ArrayRef<mlir::Value> operands, llvm::StringRef resultType,
          const SourceLocation &location);
  llvm::Expected<mlir::RankedTensorType>
  prepare(mlir::Value operand, const SourceLocation &location);
  Scope *getFunctionScope();
  llvm::Error requireScope(const SourceLocation &location);
  mlir::Value fill(mlir::RankedTensorType type, mlir::TypedAttr value,
                   mlir::Location loc);
  llvm::Expected<mlir::Value> finish(mlir::Operation *op,
                                     DiagnosticCollector &diagnostics,
                                     const SourceLocation &location);

  std::unique_ptr<mlir::MLIRContext> context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::OpBuilder builder;
  std::vector<Scope> scopes;
  std::vector<std::unique_ptr<mlir::Region>> finishedRegions;
  llvm::StringMap<mlir::Type> typeCache;
};

} // namespace jpmhc

#endif // JPMHC_FRONTEND_GRAPHBUILDER_H
