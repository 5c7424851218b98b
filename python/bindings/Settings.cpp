// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Settings, and what the compiler was built with and finds on this machine.

#include "Bindings.h"

#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Settings.h"
#include "jpmhc/Target/CPU.h"
#include "jpmhc/Target/PTX.h"

#include "llvm/Config/llvm-config.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

namespace py = pybind11;

namespace jpmhc::python {

static py::dict describe() {
  CPUTarget host = CPUTarget::host();
  py::dict result;
  result["version"] = JPMHC_VERSION;
  result["llvm"] = LLVM_VERSION_STRING;
  result["build"] = compilerDigest();
  result["triple"] = host.triple;
  result["chip"] = host.chip;
  result["features"] = host.features;
  result["lanes"] = host.lanes;
  char blas[1024] = "", error[512] = "";
  bool found = jpmhcDescribeBlas(blas, sizeof(blas)) == JPMHC_OK;
  if (!found)
    snprintf(error, sizeof(error), "%s", jpmhcLastError(nullptr));
  result["blas"] = found ? py::object(py::str(blas)) : py::none();
  result["blas_error"] = std::string(error);
  auto ptxas = findPtxas();
  result["ptxas"] = ptxas ? *ptxas : std::string();
  result["ptxas_error"] =
      ptxas ? std::string() : llvm::toString(ptxas.takeError());
  return result;
}

void bindSettings(py::module_ &m) {
  m.attr("version") = JPMHC_VERSION;
  m.def(
      "set_setting",
      [](const std::string &name, std::optional<std::string> value) {
        setSetting(name, std::move(value));
      },
      py::arg("name"), py::arg("value"),
      "Overrides an environment variable for this process; None undoes it.");
  m.def(
      "get_setting", [](const std::string &name) { return getSetting(name); },
      py::arg("name"));
  m.def("describe", &describe, "What the compiler finds on this machine.");
  m.def(
      "write_trace",
      [](const std::string &path) {
        if (jpmhcTraceWrite(path.c_str()) != JPMHC_OK)
          throw py::value_error(jpmhcLastError(nullptr));
      },
      "Writes the events since the last call as a Chrome trace.");
}

} // namespace jpmhc::python
