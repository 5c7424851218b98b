// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The registry of manifolds as Python sees it.

#include "Bindings.h"

#include "jpmhc/Analysis/Cost.h"
#include "jpmhc/Dialect/JPMHC/IR/JPMHCDialect.h"
#include "jpmhc/Frontend/GraphBuilder.h"
#include "jpmhc/Manifolds/Manifold.h"

#include "mlir/AsmParser/AsmParser.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace jpmhc;

namespace jpmhc::python {

/// An attribute as a bool, int, float, str or None; anything else as its text.
static py::object toPython(mlir::Attribute attribute) {
  if (!attribute)
    return py::none();
  if (auto flag = mlir::dyn_cast<mlir::BoolAttr>(attribute))
    return py::bool_(flag.getValue());
  if (auto integer = mlir::dyn_cast<mlir::IntegerAttr>(attribute))
    return py::int_(integer.getInt());
  if (auto number = mlir::dyn_cast<mlir::FloatAttr>(attribute))
    return py::float_(number.getValueAsDouble());
  if (auto text = mlir::dyn_cast<mlir::StringAttr>(attribute))
    return py::str(text.getValue().str());
  std::string text;
  llvm::raw_string_ostream(text) << attribute;
  return py::str(text);
}

static const Manifold &find(const std::string &name) {
  const Manifold *manifold = ManifoldRegistry::lookup(name);
  if (!manifold)
    throw py::key_error(name);
  return *manifold;
}

/// Parses a manifold attribute, checks it for n streams and asks it something.
template <typename Question>
static auto ask(const std::string &attribute, int64_t n, Question question) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  context.loadDialect<JPMHCDialect>();
  DiagnosticCollector diagnostics(&context);
  auto parsed = mlir::dyn_cast_or_null<ManifoldAttr>(
      mlir::parseAttribute(attribute, &context));
  auto error = [&] { return mlir::emitError(mlir::UnknownLoc::get(&context)); };
  if (!parsed || mlir::failed(ManifoldRegistry::verifyStreams(
                     error, parsed.getName(), parsed.getValues(), n)))
    raise(diagnostics.takeError("expected a manifold, got " + attribute, {}));
  return question(parsed.getManifold(), parsed.getValues());
}

void bindManifolds(py::module_ &m) {
  m.def("manifold_names", &ManifoldRegistry::names,
        "The registered manifolds, sorted.");
  m.def(
      "manifold_doc",
      [](const std::string &name) { return find(name).doc().str(); },
      "What a manifold is, in a sentence.");
  m.def(
      "manifold_parameters",
      [](const std::string &name) {
        mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
        py::dict defaults;
        for (const ManifoldParameter &parameter : find(name).parameters())
          defaults[py::str(parameter.name)] =
              parameter.defaultValue
                  ? toPython(parameter.defaultValue(&context))
                  : py::none();
        return defaults;
      },
      "Names and defaults (None where leaving it out has a meaning of its own) "
      "of a manifold's parameters.");
  m.def(
      "manifold_raw_size",
      [](const std::string &attribute, int64_t n) {
        return ask(attribute, n, [&](const Manifold &f, const auto &values) {
          return f.rawSize(n, values);
        });
      },
      py::arg("attribute"), py::arg("n"),
      "Raw numbers a token for an n×n mixer.");
  m.def(
      "manifold_initial_bias",
      [](const std::string &attribute, int64_t n) {
        return ask(attribute, n, [&](const Manifold &f, const auto &values) {
          return f.initialBias(n, values);
        });
      },
      py::arg("attribute"), py::arg("n"),
      "Bias of the raw numbers at the start of training.");
  m.def(
      "manifold_flops",
      [](const std::string &attribute, int64_t n) {
        return ask(attribute, n, [&](const Manifold &f, const auto &values) {
          ManifoldCost cost = f.cost(n, values);
          return cost.flops + kFunctionFlops * cost.transcendentals;
        });
      },
      py::arg("attribute"), py::arg("n"),
      "About what the projection of a token takes, functions as in Cost.h.");
  m.def(
      "manifold_starts_as_identity",
      [](const std::string &name) { return find(name).startsAsIdentity(); },
      "Whether equal streams stay as they are at the start.");
}

} // namespace jpmhc::python
