// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `jpmhc._spectral`: the spectral library as Python sees it. Arguments are
// checked for meaning by the library, and for type and shape by the package.

#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Spectral/Chain.h"
#include "jpmhc/Spectral/Convolution.h"
#include "jpmhc/Spectral/ScalarDyson.h"

#include <optional>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;
using namespace jpmhc::spectral;

using Complex = std::complex<double>;
/// A contiguous array of the right type is taken as it is, others are copied.
template <typename T>
using Array = py::array_t<T, py::array::c_style | py::array::forcecast>;

/// Raises the class of `jpmhc.errors` that belongs to a failure.
static void raiseIfFailed(const Status &status) {
  if (status.isOk())
    return;
  if (status.getKind() == Status::Kind::Interrupted)
    throw py::error_already_set();
  py::object errors = py::module_::import("jpmhc.errors");
  const char *name =
      status.getKind() == Status::Kind::Shape ? "ShapeError" : "ConfigError";
  py::object error = errors.attr(name)(status.getMessage());
  PyErr_SetObject(reinterpret_cast<PyObject *>(Py_TYPE(error.ptr())),
                  error.ptr());
  throw py::error_already_set();
}

/// Runs `work(observer)` without the interpreter's lock. The observer takes it
/// to see to signals and to tell `progress(done, total)`, if that is not None.
template <typename Work>
static void runReleased(const py::object &progress, Work work) {
  Observer observer = [&](int64_t done, int64_t total) {
    py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0)
      return false;
    if (progress.is_none())
      return true;
    try {
      progress(done, total);
      return true;
    } catch (py::error_already_set &error) {
      error.restore();
      return false;
    }
  };
  Status status = Status::ok();
  {
    py::gil_scoped_release unlocked;
    status = work(observer);
  }
  raiseIfFailed(status);
}

static py::object scalarDyson(double a, double sigma2, const Array<Complex> &z,
                              bool allRoots, const py::object &progress) {
  Array<Complex> g(z.size());
  Array<Complex> roots({allRoots ? z.size() : py::ssize_t(0), py::ssize_t(3)});
  runReleased(progress, [&, zs = z.data(), gs = g.mutable_data(),
                         rs = allRoots ? roots.mutable_data()
                                       : nullptr](const Observer &observer) {
    return solveScalarDyson(a, sigma2, z.size(), zs, gs, rs, observer);
  });
  return allRoots ? py::make_tuple(g, roots) : py::object(g);
}

/// A model whose layers have been checked and scaled once.
static std::unique_ptr<ChainModel> createModel(const Array<double> &mixers,
                                               const Array<double> &sigma2) {
  if (mixers.ndim() != 3 || mixers.shape(1) != mixers.shape(2) ||
      sigma2.ndim() != 1 || sigma2.shape(0) != mixers.shape(0))
    raiseIfFailed(Status::shape("expected mixers [L, q, q] and sigma2 [L]"));
  std::unique_ptr<ChainModel> model;
  raiseIfFailed(ChainModel::create(mixers.shape(1), mixers.shape(0),
                                   mixers.data(), sigma2.data(), model));
  return model;
}

static ChainMethod parseMethod(const std::string &name) {
  if (name == "damped")
    return ChainMethod::Damped;
  return name == "anderson" ? ChainMethod::Anderson : ChainMethod::Newton;
}

/// Solves at the points w; a dict of value, residual, sweeps, converged and
/// those of slope, unknowns and block that are wanted.
static py::dict solve(const ChainModel &model, const Array<Complex> &w,
                      const std::optional<Array<Complex>> &start,
                      const std::string &method, double tolerance,
                      int64_t maxSweeps, int64_t chunk,
                      const std::vector<std::string> &wanted,
                      const py::object &progress) {
  py::ssize_t count = w.size(), q = model.getSize(), depth = model.getDepth();
  if (start && start->size() != count * 2 * depth)
    raiseIfFailed(Status::shape("expected start [points, 2 L]"));
  ChainOptions options;
  options.method = parseMethod(method);
  options.tolerance = tolerance;
  options.maxSweeps = maxSweeps;
  options.chunk = chunk;
  Array<Complex> value(count);
  Array<double> residual(count);
  Array<int64_t> sweeps(count);
  Array<bool> converged(count);
  ChainResults results;
  results.value = value.mutable_data();
  results.residual = residual.mutable_data();
  results.sweeps = sweeps.mutable_data();
  results.converged = converged.mutable_data();
  py::dict out;
  out["value"] = value;
  out["residual"] = residual;
  out["sweeps"] = sweeps;
  out["converged"] = converged;
  for (const std::string &name : wanted) {
    if (name == "slope") {
      Array<Complex> slope(count);
      results.slope = slope.mutable_data();
      out["slope"] = slope;
    } else if (name == "unknowns") {
      Array<Complex> unknowns({count, 2 * depth});
      results.unknowns = unknowns.mutable_data();
      out["unknowns"] = unknowns;
    } else if (name == "block") {
      Array<Complex> block({count, q, q});
      results.block = block.mutable_data();
      out["block"] = block;
    }
  }
  runReleased(progress, [&, ws = w.data(),
                         starts = start ? start->data()
                                        : nullptr](const Observer &observer) {
    return solveChain(model, count, ws, starts, options, results, observer);
  });
  return out;
}

/// Arrays for the results of `count` points, and pointers into them.
static py::dict makeResults(py::ssize_t count, PointResults &results) {
  Array<Complex> value(count);
  Array<double> residual(count);
  Array<int64_t> sweeps(count);
  Array<bool> converged(count);
  results.value = value.mutable_data();
  results.residual = residual.mutable_data();
  results.steps = sweeps.mutable_data();
  results.converged = converged.mutable_data();
  py::dict out;
  out["value"] = value;
  out["residual"] = residual;
  out["sweeps"] = sweeps;
  out["converged"] = converged;
  return out;
}

static py::dict layer(const Array<double> &squares, double sigma2,
                      const Array<Complex> &w, const py::object &progress) {
  PointResults results;
  py::dict out = makeResults(w.size(), results);
  runReleased(progress, [&, ss = squares.data(),
                         ws = w.data()](const Observer &observer) {
    return solveLayer(squares.size(), ss, sigma2, w.size(), ws, results,
                      observer);
  });
  return out;
}

/// Factors are (squares, sigma2, copies).
static py::dict freeProduct(
    const std::vector<std::tuple<std::vector<double>, double, int64_t>> &given,
    const Array<Complex> &z, const py::object &progress) {
  std::vector<FreeFactor> factors;
  for (const auto &[squares, sigma2, copies] : given)
    factors.push_back({squares, sigma2, copies});
  PointResults results;
  py::dict out = makeResults(z.size(), results);
  runReleased(progress, [&, zs = z.data()](const Observer &observer) {
    return solveFreeProduct(factors, z.size(), zs, results, observer);
  });
  return out;
}

PYBIND11_MODULE(_spectral, m) {
  m.doc() = "Spectra of deep Jacobians; the face of it is jpmhc.spectra.";
  m.def("set_num_threads", [](int count) {
    if (jpmhcSetNumThreads(count) != JPMHC_OK)
      throw py::value_error(jpmhcLastError(nullptr));
  });
  m.def("get_num_threads", &jpmhcGetNumThreads);
  m.def("scalar_dyson", &scalarDyson, py::arg("a"), py::arg("sigma2"),
        py::arg("z"), py::arg("all_roots"), py::arg("progress"));
  m.def("layer", &layer, py::arg("squares"), py::arg("sigma2"), py::arg("w"),
        py::arg("progress"));
  m.def("free_product", &freeProduct, py::arg("factors"), py::arg("z"),
        py::arg("progress"));
  py::class_<ChainModel>(m, "ChainModel")
      .def(py::init(&createModel), py::arg("mixers"), py::arg("sigma2"))
      .def_property_readonly("first_moment", &ChainModel::getFirstMoment)
      .def("solve", &solve, py::arg("w"), py::arg("start"), py::arg("method"),
           py::arg("tolerance"), py::arg("max_sweeps"), py::arg("chunk"),
           py::arg("wanted"), py::arg("progress"));
}
