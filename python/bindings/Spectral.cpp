// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// `jpmhc._spectral`: the spectral library as Python sees it. Arguments are
// checked for meaning by the library, and for type and shape by the package.

#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Spectral/ScalarDyson.h"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

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

PYBIND11_MODULE(_spectral, m) {
  m.doc() = "Spectra of deep Jacobians; the face of it is jpmhc.spectra.";
  m.def("set_num_threads", [](int count) {
    if (jpmhcSetNumThreads(count) != JPMHC_OK)
      throw py::value_error(jpmhcLastError(nullptr));
  });
  m.def("get_num_threads", &jpmhcGetNumThreads);
  m.def("scalar_dyson", &scalarDyson, py::arg("a"), py::arg("sigma2"),
        py::arg("z"), py::arg("all_roots"), py::arg("progress"));
}
