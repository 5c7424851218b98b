// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compilation and running as Python sees them. The interpreter's lock is
// released meanwhile.

#include "Bindings.h"

#include "jpmhc/Analysis/Cost.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Frontend/GraphBuilder.h"
#include "jpmhc/Pipelines/Pipelines.h"
#include "jpmhc/Runtime/Launch.h"
#include "jpmhc/Support/Interrupts.h"
#include "jpmhc/Support/Settings.h"
#include "jpmhc/Target/CPU.h"
#include "jpmhc/Target/Package.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <unistd.h>

namespace py = pybind11;

namespace jpmhc::python {

const mlir::DialectRegistry &getDialectRegistry() {
  static const mlir::DialectRegistry registry = [] {
    mlir::DialectRegistry r;
    registerAllDialects(r);
    return r;
  }();
  return registry;
}

/// The Python exception of a failure that is the compiler's own: nothing was
/// said about the program.
static PyObject *failureType = nullptr;

[[noreturn]] static void raiseFailure(const std::string &message) {
  PyErr_SetString(failureType, message.c_str());
  throw py::error_already_set();
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

/// The devices that programs run on: one of each kind for the process, made
/// when it is first needed.
static jpmhcContext *getDevice(const std::string &name) {
  static std::mutex mutex;
  static std::map<std::string, jpmhcContext *> devices;
  std::lock_guard<std::mutex> lock(mutex);
  jpmhcContext *&device = devices[name];
  if (!device && jpmhcContextCreate(name.c_str(), &device) != JPMHC_OK)
    raiseFailure("could not create the device " + name + ": " +
                 jpmhcLastError(nullptr));
  return device;
}

/// Compiled code and the arena its entries share. Runs of one executable take
/// turns.
class Program {
public:
  Program(std::unique_ptr<Executable> compiled, const std::string &deviceName)
      : executable(std::move(compiled)), device(getDevice(deviceName)) {
    for (const EntrySpec &entry : this->executable->entries())
      arenaBytes = std::max(arenaBytes, entry.arenaBytes);
    if (arenaBytes == 0)
      return;
    if (int32_t status = jpmhcAlloc(device, arenaBytes, &arena))
      throw RunError{status, jpmhcLastError(device)};
  }
  ~Program() {
    if (arena)
      jpmhcFree(device, arena);
  }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  /// What the kernels' launches moved so far, on the emulator.
  llvm::ArrayRef<emulator::EmulatedKernel> traffic() const {
    return emulated ? emulated->getKernels()
                    : llvm::ArrayRef<emulator::EmulatedKernel>();
  }
  void setEmulated(EmulatedExecutable *pointer) { emulated = pointer; }

  llvm::ArrayRef<EntrySpec> entries() const { return executable->entries(); }
  int64_t plannedPeakBytes() const { return arenaBytes; }
  const CompilationReport &report() const { return executable->report(); }

  size_t find(const std::string &name) const {
    for (auto [i, entry] : llvm::enumerate(entries()))
      if (entry.name == name)
        return i;
    throw py::key_error("no entry '" + name + "'");
  }

  void run(size_t number, std::vector<uintptr_t> addresses) {
    const EntrySpec &entry = entries()[number];
    size_t expected = entry.arguments.size();
    for (int64_t alias : entry.aliases)
      expected += alias < 0;
    if (addresses.size() != expected)
      throw py::value_error("expected " + std::to_string(expected) +
                            " addresses, got " +
                            std::to_string(addresses.size()));
    std::string message;
    int32_t status;
    {
      py::gil_scoped_release release;
      std::lock_guard<std::mutex> turn(mutex);
      std::vector<void *> buffers;
      for (uintptr_t address : addresses)
        buffers.push_back(reinterpret_cast<void *>(address));
      buffers.push_back(arena);
      status = observedRun(number, buffers);
      if (status != JPMHC_OK)
        message = jpmhcLastError(device);
    }
    if (status != JPMHC_OK)
      throw RunError{status, message};
  }

  /// A run as the settings JPMHC_TRACE and JPMHC_CHECK ask for.
  int32_t observedRun(size_t number, std::vector<void *> &buffers) {
    bool traced = !getSetting("JPMHC_TRACE").value_or("").empty();
    bool checked = getSetting("JPMHC_CHECK").value_or("") == "finite";
    // The device is every program's: it may be as another one has left it.
    traced ? jpmhcTraceStart(device) : jpmhcSetTrace(device, nullptr, nullptr);
    jpmhcSetCheck(device, checked);
    if (checked)
      if (int32_t status = checkArguments(entries()[number], buffers))
        return status;
    int64_t start = traced ? jpmhcTraceNow() : 0;
    int32_t status = executable->run(number, device, buffers.data());
    if (traced) {
      jpmhcTraceEvent event{entries()[number].name.c_str(), nullptr, gettid(),
                            start, jpmhcTraceNow()};
      jpmhcTraceRecord(&event);
    }
    return status;
  }

  /// A failure that names the first argument with a NaN or an infinity.
  static int32_t checkArguments(const EntrySpec &entry,
                                llvm::ArrayRef<void *> buffers) {
    for (auto [i, spec] : llvm::enumerate(entry.arguments)) {
      int32_t type = llvm::StringSwitch<int32_t>(spec.dtype)
                         .Case("f32", JPMHC_F32)
                         .Case("bf16", JPMHC_BF16)
                         .Case("f16", JPMHC_F16)
                         .Default(0);
      int64_t found =
          type ? jpmhcFindNotFinite(type, buffers[i], spec.elements()) : -1;
      if (found >= 0)
        return jpmhcFail(JPMHC_NOT_FINITE,
                         llvm::formatv("argument {0} of '{1}' holds a number "
                                       "that is not finite at element {2}",
                                       i, entry.name, found)
                             .str()
                             .c_str());
    }
    return JPMHC_OK;
  }

  struct RunError {
    int32_t status;
    std::string message;
  };

private:
  std::unique_ptr<Executable> executable;
  EmulatedExecutable *emulated = nullptr; // the same, where it is one
  jpmhcContext *device;
  void *arena = nullptr;
  int64_t arenaBytes = 0;
  std::mutex mutex;
};

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

/// Asks Python, now and then, whether a signal such as that of Ctrl-C has come,
/// and keeps the exception that its handler raised. Python has handlers run in
/// the main thread alone, so elsewhere the answer is no.
class SignalCheck {
public:
  bool operator()() {
    constexpr std::chrono::milliseconds kPeriod(20);
    auto now = std::chrono::steady_clock::now();
    if (raised || now - last < kPeriod)
      return raised.has_value();
    last = now;
    py::gil_scoped_acquire acquire;
    if (PyErr_CheckSignals() != 0)
      raised.emplace();
    return raised.has_value();
  }

  bool hasRaised() const { return raised.has_value(); }

  /// Raises what the handler raised; the interpreter's lock is held.
  [[noreturn]] void rethrow() { throw py::error_already_set(*raised); }

private:
  std::optional<py::error_already_set> raised;
  std::chrono::steady_clock::time_point last = std::chrono::steady_clock::now();
};

/// Runs a part of the compiler without the interpreter's lock; what it reports
/// becomes a Python exception, and so does a signal.
template <typename T>
static T callCompiler(GraphBuilder &graph,
                      llvm::function_ref<llvm::Expected<T>()> part) {
  std::optional<T> result;
  std::string failure;
  llvm::Error reported = llvm::Error::success();
  SignalCheck signals;
  {
    py::gil_scoped_release release;
    InterruptScope scope(signals);
    DiagnosticCollector diagnostics(graph.getContext());
    llvm::Expected<T> value = part();
    if (value) {
      result = std::move(*value);
    } else {
      failure = llvm::toString(value.takeError());
      if (diagnostics.hasErrors())
        reported = diagnostics.takeError(failure, {});
    }
  }
  if (signals.hasRaised()) {
    llvm::consumeError(std::move(reported));
    signals.rethrow();
  }
  if (reported)
    raise(std::move(reported));
  if (!result)
    raiseFailure(failure);
  return std::move(*result);
}

static std::shared_ptr<Program> compileProgram(GraphBuilder &graph,
                                               const std::string &target) {
  if (target != "emulator") {
    auto compiled = callCompiler<std::unique_ptr<Executable>>(
        graph, [&] { return compileForCPU(graph.getModule(), CPUOptions()); });
    return std::make_shared<Program>(std::move(compiled), "cpu");
  }
  auto compiled = callCompiler<std::unique_ptr<EmulatedExecutable>>(graph, [&] {
    return compileForEmulator(graph.getModule(), GPUOptions());
  });
  EmulatedExecutable *emulated = compiled.get();
  auto program = std::make_shared<Program>(std::move(compiled), "emulator");
  program->setEmulated(emulated);
  return program;
}

static void writePTX(GraphBuilder &graph, const std::string &folder,
                     const std::string &chip, const std::string &name,
                     const Program *measured) {
  GPUOptions options;
  options.chip = chip;
  callCompiler<bool>(graph, [&]() -> llvm::Expected<bool> {
    auto program = buildForGPU(graph.getModule(), options);
    if (!program)
      return program.takeError();
    if (auto error = writePTXPackage(
            *program, options, name, folder,
            measured ? measured->traffic()
                     : llvm::ArrayRef<emulator::EmulatedKernel>()))
      return error;
    return true;
  });
}

static std::vector<std::string> ptxChips() {
  std::vector<std::string> names;
  for (llvm::StringRef chip : getPTXChips())
    names.push_back(chip.str());
  return names;
}

/// The pipelines from the traced program, by the name of the stage that they
/// end in.
struct Stage {
  const char *name;
  void (*build)(mlir::OpPassManager &);
};
static void buildExpanded(mlir::OpPassManager &pm) {
  pm.addPass(createExpandBlocks());
}
static void buildDifferentiated(mlir::OpPassManager &pm) {
  pm.addPass(createExpandBlocks());
  pm.addPass(createDifferentiate());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
}
static constexpr Stage stageTable[] = {
    {"expanded", buildExpanded},
    {"differentiated", buildDifferentiated},
    {"kernels", buildToKernelsPipeline},
};

static std::string printStage(GraphBuilder &graph, const std::string &stage,
                              bool debugInfo) {
  std::string text;
  llvm::Error reported = llvm::Error::success();
  bool failed = false;
  {
    py::gil_scoped_release release;
    DiagnosticCollector diagnostics(graph.getContext());
    mlir::OwningOpRef<mlir::ModuleOp> module(graph.getModule().clone());
    for (const Stage &entry : stageTable) {
      if (stage != entry.name)
        continue;
      mlir::PassManager manager(graph.getContext());
      entry.build(manager);
      failed = mlir::failed(manager.run(*module));
    }
    if (failed) {
      reported = diagnostics.takeError("the compiler failed", {});
    } else {
      llvm::raw_string_ostream os(text);
      mlir::OpPrintingFlags flags;
      if (debugInfo)
        flags.enableDebugInfo(true, /*prettyForm=*/false);
      module->print(os, flags);
    }
  }
  if (reported)
    raise(std::move(reported));
  return text;
}

/// (entry, kernel, location, calls, flops, bytes, floor, exact) of every
/// kernel.
static py::list listCost(GraphBuilder &graph) {
  auto costs = callCompiler<std::vector<KernelCost>>(
      graph, [&]() -> llvm::Expected<std::vector<KernelCost>> {
        mlir::OwningOpRef<mlir::ModuleOp> module(graph.getModule().clone());
        mlir::PassManager manager(graph.getContext());
        buildToKernelsPipeline(manager);
        if (mlir::failed(manager.run(*module)))
          return llvm::createStringError(
              "expected lowering to kernels to succeed");
        mlir::FailureOr<std::vector<KernelCost>> costs = costOf(*module);
        if (mlir::failed(costs))
          return llvm::createStringError("expected the cost of the program");
        return *costs;
      });
  py::list result;
  for (const KernelCost &cost : costs)
    result.append(py::make_tuple(cost.entry, cost.kernel, cost.location,
                                 cost.calls, cost.work.flops, cost.work.bytes,
                                 cost.floor, cost.work.exact));
  return result;
}

/// Seconds of a launch that does nothing on every thread: the fastest of some
/// rounds, as the roofline takes everything.
static double launchSeconds() {
  constexpr int kRounds = 20, kLaunches = 50;
  jpmhcContext *device = getDevice("cpu");
  py::gil_scoped_release release;
  jpmhcKernel kernel{};
  kernel.function = [](int64_t, int64_t, void **) {};
  kernel.name = "empty";
  int64_t best = INT64_MAX;
  for (int round = 0; round < kRounds; ++round) {
    int64_t start = jpmhcTraceNow();
    for (int i = 0; i < kLaunches; ++i)
      jpmhcLaunch(device, &kernel, nullptr, 0, jpmhcGetNumThreads(), 1,
                  nullptr);
    best = std::min(best, jpmhcTraceNow() - start);
  }
  return best * 1e-9 / kLaunches;
}

/// The Python exception of a run that failed: (status, message).
static PyObject *runErrorType = nullptr;

void bindCompiler(py::module_ &m) {
  py::exception<void> failure(m, "CompilerFailure", PyExc_Exception);
  failureType = failure.inc_ref().ptr();
  py::exception<void> runError(m, "RunError", PyExc_Exception);
  runErrorType = runError.inc_ref().ptr();
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p)
        std::rethrow_exception(p);
    } catch (const Program::RunError &e) {
      PyErr_SetObject(runErrorType, py::make_tuple(e.status, e.message).ptr());
    }
  });

  m.attr("UNSUPPORTED") = static_cast<int32_t>(JPMHC_UNSUPPORTED);
  m.attr("INDEX_OUT_OF_RANGE") = static_cast<int32_t>(JPMHC_INDEX_OUT_OF_RANGE);
  m.attr("NOT_FINITE") = static_cast<int32_t>(JPMHC_NOT_FINITE);
  m.attr("OUT_OF_MEMORY") = static_cast<int32_t>(JPMHC_OUT_OF_MEMORY);

  py::class_<Program, std::shared_ptr<Program>>(m, "Executable",
                                                "Compiled code and its arena.")
      .def_property_readonly("planned_peak_bytes", &Program::plannedPeakBytes)
      .def_property_readonly(
          "compilation",
          [](const Program &p) {
            const CompilationReport &report = p.report();
            py::dict fields;
            fields["from_cache"] = report.fromCache;
            fields["compiled_kernels"] = report.compiledKernels;
            fields["lowering_seconds"] = report.loweringSeconds;
            fields["code_seconds"] = report.codeSeconds;
            fields["link_seconds"] = report.linkSeconds;
            return fields;
          },
          "What the compilation did, and how long it took.")
      .def_property_readonly("entries",
                             [](const Program &p) {
                               std::vector<std::string> names;
                               for (const EntrySpec &entry : p.entries())
                                 names.push_back(entry.name);
                               return names;
                             })
      .def(
          "aliases",
          [](const Program &p, const std::string &name) {
            return p.entries()[p.find(name)].aliases;
          },
          "For each result the argument that it overwrites, or -1.")
      .def("find", &Program::find)
      .def("run", &Program::run, py::arg("entry"), py::arg("addresses"),
           "Runs an entry by number on the addresses of its arguments, then of "
           "the results that are no alias.");

  m.def("compile", [](const std::shared_ptr<GraphBuilder> &graph,
                      const std::string &target) {
    return compileProgram(*graph, target);
  });
  m.def(
      "write_ptx",
      [](const std::shared_ptr<GraphBuilder> &graph, const std::string &folder,
         const std::string &chip, const std::string &name,
         const std::shared_ptr<Program> &measured) {
        writePTX(*graph, folder, chip, name, measured.get());
      },
      "Writes kernels.ptx, a header, manifest.json and report.json.");
  m.def(
      "cost",
      [](const std::shared_ptr<GraphBuilder> &graph) {
        return listCost(*graph);
      },
      "What each kernel of each entry computes and moves.");
  m.def("launch_seconds", &launchSeconds,
        "Measures a launch that does nothing.");
  m.def("ptx_chips", &ptxChips, "The GPUs that PTX is written for.");
  m.def("stages", [] {
    std::vector<std::string> names;
    for (const Stage &stage : stageTable)
      names.push_back(stage.name);
    return names;
  });
  m.def("print_stage",
        [](const std::shared_ptr<GraphBuilder> &graph, const std::string &stage,
           bool debugInfo) { return printStage(*graph, stage, debugInfo); });
  m.def("set_num_threads", [](int count) {
    if (jpmhcSetNumThreads(count) != JPMHC_OK)
      throw py::value_error("expected a number of threads ≥ 1");
  });
  m.def("get_num_threads", [] { return jpmhcGetNumThreads(); });
}

} // namespace jpmhc::python
