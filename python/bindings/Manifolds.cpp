// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The registry of manifolds as Python sees it.

#include "Bindings.h"

#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Frontend/GraphBuilder.h"
#include "jpmhc/Manifolds/Manifold.h"

#include "mlir/AsmParser/AsmParser.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace jpmhc::python {

/// A context for attributes alone; Python's lock keeps its users apart.
static mlir::MLIRContext &getContext() {
  static mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<JPMHCDialect>();
  return context;
}

static const Manifold &lookup(const std::string &name) {
  const Manifold *manifold = ManifoldRegistry::lookup(name);
  if (!manifold)
    throw py::key_error("unknown manifold '" + name + "'");
  return *manifold;
}

static py::object toPython(mlir::Attribute attribute) {
  if (auto flag = mlir::dyn_cast_or_null<mlir::BoolAttr>(attribute))
    return py::bool_(flag.getValue());
  if (auto number = mlir::dyn_cast_or_null<mlir::IntegerAttr>(attribute))
    return py::int_(number.getInt());
  if (auto number = mlir::dyn_cast_or_null<mlir::FloatAttr>(attribute))
    return py::float_(number.getValueAsDouble());
  if (auto text = mlir::dyn_cast_or_null<mlir::StringAttr>(attribute))
    return py::str(text.str());
  return py::none();
}

/// A use of a manifold for n streams, checked: `function` gets the manifold and
/// its parameters.
template <typename F>
static auto withManifold(const std::string &text, int64_t n, F function) {
  mlir::MLIRContext &context = getContext();
  DiagnosticCollector diagnostics(&context);
  auto attribute = mlir::dyn_cast_or_null<ManifoldAttr>(
      mlir::parseAttribute(text, &context));
  if (!attribute)
    raise(diagnostics.takeError("expected a manifold, got " + text, {}));
  const Manifold &manifold = lookup(attribute.getName().str());
  ManifoldParameters parameters(manifold, &context, attribute.getParameters());
  auto emitError = [&] {
    return mlir::emitError(mlir::UnknownLoc::get(&context));
  };
  if (mlir::failed(ManifoldRegistry::verifyStreams(
          emitError, attribute.getName(), parameters, n)))
    raise(diagnostics.takeError("wrong number of streams", {}));
  return function(manifold, parameters);
}

void bindManifolds(py::module_ &m) {
  m.def("manifold_names", &ManifoldRegistry::names,
        "The registered manifolds in alphabetical order.");
  m.def(
      "manifold_doc",
      [](const std::string &name) { return lookup(name).doc().str(); },
      "One sentence and the formula.");
  m.def(
      "manifold_parameters",
      [](const std::string &name) {
        py::dict parameters;
        for (const ManifoldParameter &p : lookup(name).parameters())
          parameters[py::str(p.name)] = py::make_tuple(
              p.defaultValue ? toPython(p.defaultValue(&getContext()))
                             : py::object(py::none()),
              p.expected, p.doc);
        return parameters;
      },
      "For each parameter its default, what it must be, and what it means.");
  m.def(
      "manifold_raw_size",
      [](const std::string &attribute, int64_t n) {
        return withManifold(
            attribute, n,
            [&](const Manifold &manifold, const ManifoldParameters &p) {
              return manifold.rawSize(n, p);
            });
      },
      "Raw numbers a token.");
  m.def(
      "manifold_initial_bias",
      [](const std::string &attribute, int64_t n) {
        return withManifold(
            attribute, n,
            [&](const Manifold &manifold, const ManifoldParameters &p) {
              return manifold.initialBias(n, p);
            });
      },
      "The bias of the raw numbers at the start of training.");
  m.def("manifold_starts_as_identity", [](const std::string &name) {
    return lookup(name).startsAsIdentity();
  });
}

} // namespace jpmhc::python
