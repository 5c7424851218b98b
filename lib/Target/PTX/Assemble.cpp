// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs ptxas, directly and not through a shell, and reads what it prints.

#include "jpmhc/Support/Settings.h"
#include "jpmhc/Target/PTX.h"

#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FileUtilities.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace jpmhc {
namespace {

/// The longest ptxas may take, in seconds.
constexpr unsigned timeLimit = 600;

/// A temporary file that goes away with the object.
class TemporaryFile {
public:
  static Expected<TemporaryFile> create(StringRef suffix) {
    SmallString<128> path;
    if (std::error_code code =
            sys::fs::createTemporaryFile("jpmhc", suffix, path))
      return createStringError(code, "cannot make a temporary file: " +
                                         code.message());
    return TemporaryFile(path);
  }

  StringRef path() const { return name; }

  Error write(StringRef text) const {
    std::error_code code;
    raw_fd_ostream stream(name, code);
    if (!code) {
      stream << text;
      stream.close();
      code = stream.error();
      stream.clear_error();
    }
    if (code)
      return createStringError(code,
                               "cannot write " + name + ": " + code.message());
    return Error::success();
  }

  Expected<std::string> read() const {
    auto buffer = MemoryBuffer::getFile(name, /*IsText=*/false,
                                        /*RequiresNullTerminator=*/false);
    if (!buffer)
      return createStringError(buffer.getError(),
                               "cannot read " + name + ": " +
                                   buffer.getError().message());
    return (*buffer)->getBuffer().str();
  }

private:
  explicit TemporaryFile(StringRef path)
      : name(path.str()), remover(std::make_unique<FileRemover>(path)) {}

  std::string name;
  std::unique_ptr<FileRemover> remover;
};

struct ProgramResult {
  int status;
  std::string output;
};

/// Runs a program with its output and errors gathered in one text.
Expected<ProgramResult> runProgram(StringRef program,
                                   ArrayRef<StringRef> arguments) {
  Expected<TemporaryFile> log = TemporaryFile::create("log");
  if (!log)
    return log.takeError();
  SmallVector<StringRef> line{program};
  append_range(line, arguments);
  std::optional<StringRef> redirects[] = {StringRef(), log->path(),
                                          log->path()};
  std::string message;
  int status =
      sys::ExecuteAndWait(program, line, std::nullopt, redirects, timeLimit,
                          /*MemoryLimit=*/0, &message);
  Expected<std::string> output = log->read();
  if (!output)
    return output.takeError();
  if (status < 0)
    return createStringError("cannot run " + program + ": " + message);
  return ProgramResult{status, std::move(*output)};
}

/// "13.0" of "Cuda compilation tools, release 13.0, V13.0.88".
Expected<std::string> readRelease(StringRef ptxas) {
  Expected<ProgramResult> result = runProgram(ptxas, {"--version"});
  if (!result)
    return result.takeError();
  StringRef tail = StringRef(result->output).split("release ").second;
  return tail.take_until([](char c) { return c == ',' || c == '\n'; }).str();
}

/// The number in front of `unit` in `line` ("0 bytes stack frame").
template <typename Integer>
void readFigure(StringRef line, StringRef unit, Integer &figure) {
  size_t position = line.find(unit);
  if (position == StringRef::npos)
    return;
  StringRef before = line.take_front(position).rtrim();
  before = before.take_back(before.size() -
                            (before.find_last_not_of("0123456789") + 1));
  before.getAsInteger(10, figure);
}

} // namespace

std::vector<KernelResources> parsePtxasReport(StringRef text) {
  std::vector<KernelResources> kernels;
  bool inKernel = false; // device functions have properties of their own
  for (StringRef rest = text; !rest.empty();) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    if (line.contains("Compiling entry function '")) {
      kernels.emplace_back();
      kernels.back().name = line.split('\'').second.split('\'').first.str();
      inKernel = true;
    } else if (line.contains("Function properties for ")) {
      StringRef name = line.split("Function properties for ").second.trim();
      inKernel = !kernels.empty() && name == kernels.back().name;
    }
    if (!inKernel)
      continue;
    KernelResources &kernel = kernels.back();
    readFigure(line, " bytes stack frame", kernel.stackFrame);
    readFigure(line, " bytes spill stores", kernel.spillStores);
    readFigure(line, " bytes spill loads", kernel.spillLoads);
    readFigure(line, " registers", kernel.registers);
    readFigure(line, " barriers", kernel.barriers);
    readFigure(line, " bytes smem", kernel.sharedBytes);
  }
  return kernels;
}

Expected<std::string> findPtxas() {
  if (std::optional<std::string> path = getSetting("JPMHC_PTXAS");
      path && !path->empty()) {
    if (!sys::fs::can_execute(*path))
      return createStringError(
          "expected JPMHC_PTXAS to name an executable file, got '" + *path +
          "'");
    return *path;
  }
  if (std::optional<std::string> home = sys::Process::GetEnv("CUDA_HOME");
      home && !home->empty()) {
    SmallString<128> path(*home);
    sys::path::append(path, "bin", "ptxas");
    if (sys::fs::can_execute(path))
      return std::string(path);
  }
  ErrorOr<std::string> found = sys::findProgramByName("ptxas");
  return found ? *found : std::string();
}

Expected<AssemblyReport> assemblePTX(StringRef ptx, StringRef chip) {
  if (Error error = checkPTXChip(chip))
    return std::move(error);
  Expected<std::string> ptxas = findPtxas();
  if (!ptxas)
    return ptxas.takeError();
  AssemblyReport report;
  if (ptxas->empty()) {
    report.note = "not assembled: no ptxas in JPMHC_PTXAS, CUDA_HOME or PATH";
    return report;
  }

  Expected<TemporaryFile> input = TemporaryFile::create("ptx");
  if (!input)
    return input.takeError();
  Expected<TemporaryFile> output = TemporaryFile::create("cubin");
  if (!output)
    return output.takeError();
  if (Error error = input->write(ptx))
    return std::move(error);
  Expected<std::string> release = readRelease(*ptxas);
  if (!release)
    return release.takeError();

  std::string arch = ("-arch=" + chip).str();
  Expected<ProgramResult> result =
      runProgram(*ptxas, {"-v", arch, input->path(), "-o", output->path()});
  if (!result)
    return result.takeError();
  if (result->status != 0)
    return createStringError("ptxas failed for chip " + chip + ": " +
                             StringRef(result->output).trim());
  Expected<std::string> cubin = output->read();
  if (!cubin)
    return cubin.takeError();
  report.assembled = true;
  report.assembler = *ptxas;
  report.release = *release;
  report.kernels = parsePtxasReport(result->output);
  report.cubin.assign(cubin->begin(), cubin->end());
  return report;
}

} // namespace jpmhc
