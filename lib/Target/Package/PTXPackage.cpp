// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Target/Package.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace jpmhc;
namespace json = llvm::json;

static std::string pretty(json::Object object) {
  return llvm::formatv("{0:2}\n", json::Value(std::move(object))).str();
}

/// What ptxas made of a kernel.
static void addResources(json::Object &row, const AssemblyReport &assembly,
                         llvm::StringRef kernel) {
  for (const KernelResources &resources : assembly.kernels) {
    if (resources.name != kernel)
      continue;
    row["registers"] = static_cast<int64_t>(resources.registers);
    row["spill_store_bytes"] = static_cast<int64_t>(resources.spillStores);
    row["spill_load_bytes"] = static_cast<int64_t>(resources.spillLoads);
    row["stack_bytes"] = static_cast<int64_t>(resources.stackFrame);
    row["shared_bytes"] = static_cast<int64_t>(resources.sharedBytes);
  }
}

/// What its launches moved where it ran.
static void addTraffic(json::Object &row,
                       llvm::ArrayRef<emulator::EmulatedKernel> measured,
                       llvm::StringRef kernel) {
  for (const emulator::EmulatedKernel &run : measured) {
    if (run.name != kernel || run.totals.launches == 0)
      continue;
    const emulator::Traffic &t = run.totals.traffic;
    double moved = t.requestedRead + t.requestedWritten;
    double floor = t.uniqueRead + t.uniqueWritten;
    row["launches"] = static_cast<int64_t>(run.totals.launches);
    row["rows"] = run.totals.rows;
    if (run.totals.rows > 0) {
      row["bytes_per_row"] = moved / run.totals.rows;
      row["floor_bytes_per_row"] = floor / run.totals.rows;
    }
    if (floor > 0)
      row["bytes_over_floor"] = moved / floor;
  }
}

static json::Object makeReport(const GPUProgram &program,
                               const AssemblyReport &assembly,
                               llvm::StringRef chip,
                               llvm::ArrayRef<emulator::EmulatedKernel> runs) {
  json::Array kernels;
  for (const GPUKernelSpec &kernel : program.kernels) {
    llvm::StringRef name = kernel.signature.name;
    json::Object row{{"kernel", name},
                     {"block_threads", kernel.blockThreads},
                     {"rows_per_block", kernel.rowsPerBlock}};
    addResources(row, assembly, name);
    addTraffic(row, runs, name);
    kernels.push_back(std::move(row));
  }
  return json::Object{{"format", kManifestVersion},
                      {"chip", chip},
                      {"assembler", assembly.assembled
                                        ? "ptxas " + assembly.release
                                        : assembly.note},
                      {"kernels", std::move(kernels)}};
}

llvm::Error
jpmhc::writePTXPackage(const GPUProgram &program, const GPUOptions &options,
                       llvm::StringRef name, llvm::StringRef folder,
                       llvm::ArrayRef<emulator::EmulatedKernel> measured) {
  if (auto error = checkEntryNames(program.entries))
    return error;
  // A program that computes nothing has no kernels; its PTX is empty.
  llvm::LLVMContext context;
  llvm::Module none("kernels", context);
  auto ptx = translateToPTX(program.module ? *program.module : none,
                            options.chip, options.ptx);
  if (!ptx)
    return ptx.takeError();
  auto assembly = assemblePTX(*ptx, options.chip);
  if (!assembly)
    return assembly.takeError();
  if (auto error = createFolder(folder))
    return error;
  auto write = [&](const llvm::Twine &file, llvm::StringRef contents) {
    llvm::SmallString<256> path(folder);
    llvm::sys::path::append(path, file);
    return writeFile(path, contents);
  };
  std::vector<KernelSpec> signatures;
  for (const GPUKernelSpec &kernel : program.kernels)
    signatures.push_back(kernel.signature);
  if (auto error = write("kernels.ptx", *ptx))
    return error;
  std::string header = makeHeader(
      name, program.entries, signatures,
      "Kernels are in kernels.ptx; each takes the bounds of its rows (two "
      "64-bit integers) before its arguments; manifest.json says how to "
      "launch it.");
  if (auto error = write(name + ".h", header))
    return error;
  json::Object manifest =
      makeManifest(name, "ptx", program.entries, signatures);
  manifest["chip"] = options.chip;
  manifest["ptx"] = "kernels.ptx";
  json::Array *list = manifest.getArray("kernels");
  for (auto [item, kernel] : llvm::zip(*list, program.kernels)) {
    (*item.getAsObject())["block_threads"] = kernel.blockThreads;
    (*item.getAsObject())["rows_per_block"] = kernel.rowsPerBlock;
  }
  if (auto error = write("manifest.json", pretty(std::move(manifest))))
    return error;
  return write("report.json",
               pretty(makeReport(program, *assembly, options.chip, measured)));
}
