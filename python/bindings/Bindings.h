// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the parts of `jpmhc._core` share.

#ifndef JPMHC_PYTHON_BINDINGS_H
#define JPMHC_PYTHON_BINDINGS_H

#include "mlir/IR/DialectRegistry.h"

#include "llvm/Support/Error.h"

#include <utility>

namespace pybind11 {
class module_;
}

namespace jpmhc::python {

/// Raises `jpmhc._core.DiagnosticError(message, file, line, column)`.
[[noreturn]] void raise(llvm::Error error);

inline void check(llvm::Error error) {
  if (error)
    raise(std::move(error));
}

template <typename T> T unwrap(llvm::Expected<T> value) {
  if (!value)
    raise(value.takeError());
  return std::move(*value);
}

/// The dialects a graph may use.
const mlir::DialectRegistry &getDialectRegistry();

/// Adds the compiler to the module (Compiler.cpp).
void bindCompiler(pybind11::module_ &m);

/// Adds questions about the registered manifolds (Manifolds.cpp).
void bindManifolds(pybind11::module_ &m);

/// Adds settings and the description of the machine (Settings.cpp).
void bindSettings(pybind11::module_ &m);

} // namespace jpmhc::python

#endif // JPMHC_PYTHON_BINDINGS_H
