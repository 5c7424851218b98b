// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `jpmhc._core`: the graph builder and the compiler as Python sees them.
// Nothing here knows an op by name.

#include "Bindings.h"

#include "jpmhc/Frontend/GraphBuilder.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/TypeUtilities.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace jpmhc;

namespace jpmhc::python {

/// The Python exception that carries a DiagnosticError: (message, file, line,
/// column).
static PyObject *diagnosticType = nullptr;

void raise(llvm::Error error) {
  std::string message;
  SourceLocation location;
  llvm::handleAllErrors(
      std::move(error),
      [&](const DiagnosticError &e) {
        message = e.getMessage();
        location = e.getLocation();
      },
      [&](const llvm::ErrorInfoBase &e) { message = e.message(); });
  py::tuple args =
      py::make_tuple(message, location.file, location.line, location.column);
  PyErr_SetObject(diagnosticType, args.ptr());
  throw py::error_already_set();
}

/// A value and the graph that owns it. The value ends with a function that is
/// abandoned; what Python may ask of it then is in its type, which does not.
struct GraphValue {
  GraphValue(std::shared_ptr<GraphBuilder> graph, mlir::Value value)
      : graph(std::move(graph)), value(value), type(value.getType()) {}

  std::shared_ptr<GraphBuilder> graph;
  mlir::Value value;
  mlir::Type type;
};

static std::string printType(mlir::Type type) {
  std::string text;
  llvm::raw_string_ostream(text) << type;
  return text;
}

static py::tuple getShape(const GraphValue &v) {
  auto shaped = mlir::dyn_cast<mlir::ShapedType>(v.type);
  if (!shaped || !shaped.hasRank())
    return py::tuple();
  py::tuple shape(shaped.getRank());
  for (auto [i, size] : llvm::enumerate(shaped.getShape()))
    shape[i] = mlir::ShapedType::isDynamic(size) ? py::object(py::none())
                                                 : py::object(py::int_(size));
  return shape;
}

static SourceLocation toLocation(const py::object &location) {
  if (location.is_none())
    return {};
  auto tuple = location.cast<py::tuple>();
  return {tuple[0].cast<std::string>(), tuple[1].cast<unsigned>(),
          tuple[2].cast<unsigned>()};
}

using GraphPtr = std::shared_ptr<GraphBuilder>;

static std::vector<GraphValue> wrap(const GraphPtr &graph,
                                    const std::vector<mlir::Value> &values) {
  std::vector<GraphValue> wrapped;
  for (mlir::Value value : values)
    wrapped.emplace_back(graph, value);
  return wrapped;
}

static GraphValue wrap(const GraphPtr &graph, llvm::Expected<mlir::Value> v) {
  return {graph, unwrap(std::move(v))};
}

static std::vector<mlir::Value> toValues(const GraphPtr &graph,
                                         const py::iterable &items) {
  std::vector<mlir::Value> values;
  for (py::handle item : items) {
    auto &value = item.cast<GraphValue &>();
    if (value.graph != graph)
      throw py::value_error("expected a value of this graph, got another's");
    values.push_back(value.value);
  }
  return values;
}

/// operands: a list of Value, None (absent) or list of Value, one entry an
/// operand of the op's definition.
static std::vector<std::vector<mlir::Value>>
toGroups(const GraphPtr &graph, const py::iterable &operands) {
  std::vector<std::vector<mlir::Value>> groups;
  for (py::handle operand : operands) {
    if (operand.is_none())
      groups.emplace_back();
    else if (py::isinstance<GraphValue>(operand))
      groups.push_back(toValues(graph, py::make_tuple(operand)));
    else
      groups.push_back(toValues(graph, operand.cast<py::iterable>()));
  }
  return groups;
}

static std::vector<GraphValue>
createOp(const GraphPtr &graph, std::string name, const py::iterable &operands,
         const py::dict &attributes,
         std::optional<std::vector<std::string>> resultTypes,
         std::vector<unsigned> regions, const py::object &location) {
  OpRequest request;
  request.name = std::move(name);
  request.operandGroups = toGroups(graph, operands);
  for (auto [key, value] : attributes)
    request.attributes.emplace_back(key.cast<std::string>(),
                                    value.cast<std::string>());
  request.resultTypes = std::move(resultTypes);
  request.regions = std::move(regions);
  request.location = toLocation(location);
  return wrap(graph, unwrap(graph->createOp(request)));
}

static void bindGraph(py::module_ &m) {
  py::class_<GraphValue>(m, "Value", "A value of a graph under construction.")
      .def_property_readonly(
          "type", [](const GraphValue &v) { return printType(v.type); },
          "The MLIR type as text.")
      .def_property_readonly(
          "dtype",
          [](const GraphValue &v) {
            return printType(mlir::getElementTypeOrSelf(v.type));
          },
          "The element type as text; the type itself for a scalar.")
      .def_property_readonly("shape", &getShape,
                             "Sizes; None for a dynamic one; () for a scalar.")
      .def_property_readonly("is_tensor", [](const GraphValue &v) {
        return mlir::isa<mlir::RankedTensorType>(v.type);
      });

  py::class_<GraphBuilder, GraphPtr>(
      m, "Graph", "A module built op by op; each op is verified when made.")
      .def(py::init(
          [] { return std::make_shared<GraphBuilder>(getDialectRegistry()); }))
      .def(
          "begin_function",
          [](const GraphPtr &g, const std::string &name,
             const std::vector<std::string> &types, bool isPrivate,
             const py::object &loc) {
            return wrap(g, unwrap(g->beginFunction(name, types, isPrivate,
                                                   toLocation(loc))));
          },
          py::arg("name"), py::arg("arg_types"), py::arg("private") = false,
          py::arg("loc") = py::none())
      .def(
          "add_argument",
          [](const GraphPtr &g, const std::string &type,
             const py::object &loc) {
            return wrap(g, g->addArgument(type, toLocation(loc)));
          },
          py::arg("type"), py::arg("loc") = py::none())
      .def(
          "set_argument_attribute",
          [](const GraphPtr &g, unsigned index, const std::string &name,
             const std::string &text) {
            check(g->setArgumentAttribute(index, name, text));
          },
          py::arg("index"), py::arg("name"), py::arg("attribute"))
      .def(
          "end_function",
          [](const GraphPtr &g, const py::iterable &results,
             const py::object &loc) {
            check(g->endFunction(toValues(g, results), toLocation(loc)));
          },
          py::arg("results"), py::arg("loc") = py::none())
      .def("abandon_function", [](const GraphPtr &g) { g->abandonFunction(); })
      .def(
          "begin_region",
          [](const GraphPtr &g, const std::vector<std::string> &types,
             const py::object &loc) {
            return wrap(g, unwrap(g->beginRegion(types, toLocation(loc))));
          },
          py::arg("arg_types"), py::arg("loc") = py::none())
      .def(
          "end_region",
          [](const GraphPtr &g, const std::string &terminator,
             const py::iterable &results, const py::object &loc) {
            return unwrap(g->endRegion(terminator, toValues(g, results),
                                       toLocation(loc)));
          },
          py::arg("terminator"), py::arg("results"),
          py::arg("loc") = py::none())
      .def("op", &createOp, py::arg("name"), py::arg("operands"),
           py::arg("attributes") = py::dict(),
           py::arg("result_types") = py::none(),
           py::arg("regions") = std::vector<unsigned>(),
           py::arg("loc") = py::none(),
           "Creates and verifies an op; attributes are MLIR text.")
      .def(
          "constant",
          [](const GraphPtr &g, const std::string &type, const py::bytes &data,
             const py::object &loc) {
            std::string_view view = data;
            return wrap(g, g->constant(type, {view.data(), view.size()},
                                       toLocation(loc)));
          },
          py::arg("type"), py::arg("data"), py::arg("loc") = py::none())
      .def(
          "contract",
          [](const GraphPtr &g, const GraphValue &lhs, const GraphValue &rhs,
             const std::vector<std::string> &maps, const std::string &type,
             const py::object &loc) {
            return wrap(g, g->contract(lhs.value, rhs.value, maps, type,
                                       toLocation(loc)));
          },
          py::arg("lhs"), py::arg("rhs"), py::arg("maps"),
          py::arg("result_type"), py::arg("loc") = py::none())
      .def(
          "reduce",
          [](const GraphPtr &g, const GraphValue &input,
             const std::vector<int64_t> &axes, const std::string &combiner,
             const std::string &init, const py::object &loc) {
            return wrap(g, g->reduce(input.value, axes, combiner, init,
                                     toLocation(loc)));
          },
          py::arg("input"), py::arg("axes"), py::arg("combiner"),
          py::arg("init"), py::arg("loc") = py::none())
      .def(
          "broadcast",
          [](const GraphPtr &g, const GraphValue &input,
             const std::vector<int64_t> &axes, const std::string &type,
             const py::object &loc) {
            return wrap(g,
                        g->broadcast(input.value, axes, type, toLocation(loc)));
          },
          py::arg("input"), py::arg("added_axes"), py::arg("result_type"),
          py::arg("loc") = py::none())
      .def(
          "transpose",
          [](const GraphPtr &g, const GraphValue &input,
             const std::vector<int64_t> &permutation, const py::object &loc) {
            return wrap(
                g, g->transpose(input.value, permutation, toLocation(loc)));
          },
          py::arg("input"), py::arg("permutation"), py::arg("loc") = py::none())
      .def("verify", [](const GraphPtr &g) { check(g->verify()); })
      .def(
          "print",
          [](const GraphPtr &g, bool debugInfo) { return g->print(debugInfo); },
          py::arg("debug_info") = false);
}

} // namespace jpmhc::python

PYBIND11_MODULE(_core, m) {
  using namespace jpmhc::python;
  m.doc() = "The compiler of jpmhc: graph building and compilation.";
  py::exception<void> diagnostic(m, "DiagnosticError", PyExc_Exception);
  diagnosticType = diagnostic.ptr();
  Py_INCREF(diagnosticType);
  bindGraph(m);
  bindCompiler(m);
  bindManifolds(m);
  bindSettings(m);
}
