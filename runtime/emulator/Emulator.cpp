// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Compiles a module for emulation and launches its kernels.

#include "jpmhc/Runtime/Emulator.h"

#include "Block.h"
#include "HostFunctions.h"
#include "Instrument.h"
#include "jpmhc/Target/PTX.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/DebugInfo.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <numeric>
#include <random>
#include <sys/mman.h>
#include <thread>

using namespace llvm;

namespace jpmhc::emulator {

char EmulatorFault::ID = 0;

std::error_code EmulatorFault::convertToErrorCode() const {
  return inconvertibleErrorCode();
}

StringRef toString(FaultKind kind) {
  switch (kind) {
  case FaultKind::OutOfBounds:
    return "out of bounds";
  case FaultKind::Misaligned:
    return "misaligned access";
  case FaultKind::ReadOnlyWrite:
    return "write to read-only memory";
  case FaultKind::UninitializedShared:
    return "read of unwritten shared memory";
  case FaultKind::DataRace:
    return "data race";
  case FaultKind::Deadlock:
    return "deadlock";
  case FaultKind::DivergentCollective:
    return "divergent collective";
  case FaultKind::InvalidOperand:
    return "invalid operand";
  case FaultKind::Trap:
    return "trap";
  case FaultKind::AccessLimit:
    return "limit exceeded";
  }
  return "fault";
}

//===----------------------------------------------------------------------===//
// DeviceMemory
//===----------------------------------------------------------------------===//

Error DeviceMemory::registerBuffer(const void *pointer, uint64_t bytes,
                                   StringRef name, bool writable) {
  auto base = reinterpret_cast<uintptr_t>(pointer);
  if (!base)
    return createStringError("expected buffer '" + name +
                             "' to have an address, got null");
  auto overlaps = [&](const Buffer &other) {
    return base < other.base + other.bytes && other.base < base + bytes;
  };
  auto after = buffers.lower_bound(base);
  if (after != buffers.begin() && overlaps(std::prev(after)->second))
    --after;
  if (after != buffers.end() &&
      (after->first == base || overlaps(after->second)))
    return createStringError("buffer '" + name + "' overlaps buffer '" +
                             after->second.name + "'");
  buffers[base] = {base, bytes, name.str(), writable};
  return Error::success();
}

Error DeviceMemory::unregisterBuffer(const void *base) {
  if (!buffers.erase(reinterpret_cast<uintptr_t>(base)))
    return createStringError(
        "expected the address of a registered buffer, got 0x" +
        utohexstr(reinterpret_cast<uintptr_t>(base), /*LowerCase=*/true));
  return Error::success();
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

struct Emulator::Impl {
  EmulatorOptions options;
  Program program;
  std::vector<EntryFunction> entries; // parallel to program.kernels
  std::vector<BufferState> globals;
  std::unique_ptr<orc::LLJIT> jit;
};

/// Loads the module into a context of its own: JIT compilation needs one, and
/// the caller's module stays as it is.
static Expected<std::unique_ptr<Module>> copyInto(LLVMContext &context,
                                                  const Module &module) {
  SmallVector<char, 0> bitcode;
  raw_svector_ostream stream(bitcode);
  WriteBitcodeToFile(module, stream);
  return parseBitcodeFile(
      MemoryBufferRef(StringRef(bitcode.data(), bitcode.size()),
                      module.getModuleIdentifier()),
      context);
}

/// The optimisations that come before PTX, without those that make up loads:
/// the attribute by which ThreadSanitizer asks for that is put on every
/// function.
static Error optimizeAsForPTX(Module &module, const EmulatorOptions &options) {
  PTXOptions ptxOptions;
  ptxOptions.optLevel = options.optLevel;
  auto machine = createPTXTargetMachine(options.chip, ptxOptions);
  if (!machine)
    return machine.takeError();
  for (Function &function : module)
    if (!function.isDeclaration())
      function.addFnAttr(Attribute::SanitizeThread);
  optimizeForPTX(module, **machine, options.optLevel);
  return Error::success();
}

static Expected<orc::JITTargetMachineBuilder> detectHost() {
  InitializeNativeTarget();
  InitializeNativeTargetAsmPrinter();
  auto builder = orc::JITTargetMachineBuilder::detectHost();
  if (!builder)
    return builder;
  // Native bf16 conversions flush subnormal numbers.
  builder->addFeatures({"-avx512bf16", "-avxneconvert"});
  builder->setCodeGenOptLevel(CodeGenOptLevel::Default);
  return builder;
}

static Expected<std::unique_ptr<orc::LLJIT>>
makeJIT(orc::JITTargetMachineBuilder host) {
  auto jit =
      orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(host)).create();
  if (!jit)
    return jit;
  orc::JITDylib &dylib = (*jit)->getMainJITDylib();
  orc::SymbolMap symbols;
  for (const HostFunction &function : getHostFunctions())
    symbols[(*jit)->mangleAndIntern(function.name)] = {
        orc::ExecutorAddr::fromPtr(function.address), JITSymbolFlags::Exported};
  if (Error error = dylib.define(orc::absoluteSymbols(std::move(symbols))))
    return std::move(error);
  // memcpy, exp2f, …
  auto process = orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
      (*jit)->getDataLayout().getGlobalPrefix());
  if (!process)
    return process.takeError();
  dylib.addGenerator(std::move(*process));
  return jit;
}

Expected<std::unique_ptr<Emulator>>
Emulator::create(const Module &source, const EmulatorOptions &options) {
  std::string problems;
  raw_string_ostream problemStream(problems);
  if (verifyModule(source, &problemStream))
    return createStringError("expected a valid module, got: " +
                             StringRef(problems).rtrim());
  if (options.hostThreads == 0)
    return createStringError("expected at least one host thread, got 0");

  auto context = std::make_unique<LLVMContext>();
  Expected<std::unique_ptr<Module>> module = copyInto(*context, source);
  if (!module)
    return module.takeError();
  if (Error error = optimizeAsForPTX(**module, options))
    return std::move(error);

  auto host = detectHost();
  if (!host)
    return host.takeError();
  auto machine = host->createTargetMachine();
  if (!machine)
    return machine.takeError();
  Expected<Program> program = instrument(**module, **machine);
  if (!program)
    return program.takeError();
  if (program->kernels.empty())
    return createStringError(
        "expected a function with the ptx_kernel calling convention, got none");
  StripDebugInfo(**module);

  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->program = std::move(*program);
  auto jit = makeJIT(std::move(*host));
  if (!jit)
    return jit.takeError();
  impl->jit = std::move(*jit);
  if (Error error = impl->jit->addIRModule(
          orc::ThreadSafeModule(std::move(*module), std::move(context))))
    return std::move(error);
  for (const KernelInfo &kernel : impl->program.kernels) {
    auto address = impl->jit->lookup(kernel.entry);
    if (!address)
      return address.takeError();
    impl->entries.push_back(address->toPtr<EntryFunction>());
  }
  for (const GlobalVariableInfo &variable : impl->program.globals) {
    auto address = impl->jit->lookup(variable.symbol);
    if (!address)
      return address.takeError();
    BufferState state;
    state.base = address->getValue();
    state.bytes = variable.bytes;
    state.name = variable.name;
    state.writable = !variable.constant;
    impl->globals.push_back(std::move(state));
  }
  return std::unique_ptr<Emulator>(new Emulator(std::move(impl)));
}

Emulator::Emulator(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Emulator::~Emulator() = default;

std::vector<std::string> Emulator::getKernels() const {
  std::vector<std::string> names;
  for (const KernelInfo &kernel : impl->program.kernels)
    names.push_back(kernel.name);
  return names;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

static std::string format(const Dim3 &d) {
  return ("(" + Twine(d.x) + "," + Twine(d.y) + "," + Twine(d.z) + ")").str();
}

/// The limits of every GPU from sm_80 on, but for shared memory, where it is
/// that of sm_90 and later.
static Error checkLaunch(const KernelInfo &kernel,
                         const EmulatorLaunch &launch) {
  constexpr uint64_t mostShared = 227 * 1024, mostBlocks = Cell::blockMask - 1;
  const Dim3 &grid = launch.grid, &block = launch.block;
  auto error = [&](const Twine &text) {
    return createStringError("kernel '" + kernel.name + "': " + text);
  };
  if (launch.arguments.size() != kernel.parameters)
    return error("expected " + Twine(kernel.parameters) + " arguments, got " +
                 Twine(launch.arguments.size()));
  if (is_contained(launch.arguments, nullptr))
    return error("expected a pointer to every argument's value, got null");
  if (block.count() == 0 || block.count() > maxThreads || block.x > 1024 ||
      block.y > 1024 || block.z > 64)
    return error(
        "expected a block of at most 1024 threads within (1024,1024,64), got " +
        format(block));
  if (grid.count() == 0 || grid.x > INT32_MAX || grid.y > 65535 ||
      grid.z > 65535)
    return error("expected a grid within (2147483647,65535,65535), got " +
                 format(grid));
  if (grid.count() > mostBlocks)
    return error("expected at most " + Twine(mostBlocks) +
                 " blocks in the emulator, got " + Twine(grid.count()));
  const std::optional<Dim3> &required = kernel.requiredBlock;
  if (required && (required->x != block.x || required->y != block.y ||
                   required->z != block.z))
    return error("expected the block that it was compiled for, " +
                 format(*required) + ", got " + format(block));
  if (kernel.maxThreads && block.count() > *kernel.maxThreads)
    return error("expected a block of at most " + Twine(*kernel.maxThreads) +
                 " threads, got " + Twine(block.count()));
  uint64_t shared = kernel.staticSharedBytes + launch.dynamicSharedBytes;
  if (shared > mostShared)
    return error("expected at most " + Twine(mostShared) +
                 " bytes of shared memory, got " + Twine(shared));
  return Error::success();
}

namespace {
/// The cells of a launch's buffers, unmapped with the object.
class ShadowMapping {
public:
  ~ShadowMapping() {
    for (auto [memory, bytes] : mappings)
      munmap(memory, bytes);
  }
  Error map(BufferState &buffer, uint32_t granule) {
    size_t bytes = (buffer.bytes / granule + 2) * sizeof(Cell);
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return createStringError("cannot map " + Twine(bytes) +
                               " bytes to watch buffer '" + buffer.name + "'");
    mappings.push_back({memory, bytes});
    buffer.cells = static_cast<Cell *>(memory);
    return Error::success();
  }

private:
  std::vector<std::pair<void *, size_t>> mappings;
};
} // namespace

/// The buffers of the caller and of the module, by address.
static Error gatherBuffers(LaunchState &state, ShadowMapping &shadow,
                           const DeviceMemory &memory,
                           ArrayRef<BufferState> globals) {
  for (const auto &[base, buffer] : memory.getBuffers()) {
    if (buffer.bytes == 0)
      continue;
    BufferState one;
    one.base = base;
    one.bytes = buffer.bytes;
    one.name = buffer.name;
    one.writable = buffer.writable;
    state.buffers.push_back(std::move(one));
  }
  append_range(state.buffers, globals);
  llvm::sort(state.buffers, [](const BufferState &a, const BufferState &b) {
    return a.base < b.base;
  });
  for (BufferState &buffer : state.buffers)
    if (Error error = shadow.map(buffer, state.program.granule))
      return error;
  return Error::success();
}

static std::vector<uint32_t> drawBlockOrder(uint64_t blocks, uint64_t seed) {
  std::vector<uint32_t> order(blocks);
  std::iota(order.begin(), order.end(), 0);
  if (seed != 0) {
    std::mt19937_64 random(seed);
    for (size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[random() % i]);
  }
  return order;
}

static void addTraffic(Traffic &sum, const Traffic &part) {
  sum.requestedRead += part.requestedRead;
  sum.requestedWritten += part.requestedWritten;
  sum.uniqueRead += part.uniqueRead;
  sum.uniqueWritten += part.uniqueWritten;
}

static LaunchReport summarize(const LaunchState &state,
                              ArrayRef<std::unique_ptr<BlockRunner>> runners) {
  LaunchReport report;
  report.sharedBytes =
      state.kernel.staticSharedBytes + state.launch.dynamicSharedBytes;
  std::vector<Traffic> traffic(state.buffers.size());
  for (const auto &runner : runners) {
    const WorkerCounts &counts = runner->getCounts();
    report.barriers += counts.barriers;
    report.readSectors += counts.readSectors;
    report.writtenSectors += counts.writtenSectors;
    report.readRequests += counts.readRequests;
    report.writeRequests += counts.writeRequests;
    for (auto [sum, part] : zip(traffic, counts.buffers))
      addTraffic(sum, part);
  }
  for (auto [buffer, sum] : zip(state.buffers, traffic)) {
    addTraffic(report.total, sum);
    if (sum.requestedRead || sum.requestedWritten)
      report.buffers.push_back({buffer.name, sum});
  }
  return report;
}

Expected<LaunchReport> Emulator::launch(StringRef name,
                                        const EmulatorLaunch &launch,
                                        const DeviceMemory &memory) {
  const Program &program = impl->program;
  auto kernel = find_if(program.kernels,
                        [&](const KernelInfo &k) { return k.name == name; });
  if (kernel == program.kernels.end())
    return createStringError("unknown kernel: expected one of " +
                             join(getKernels(), ", ") + ", got '" + name + "'");
  if (Error error = checkLaunch(*kernel, launch))
    return std::move(error);

  LaunchState state(program, *kernel, impl->options, launch);
  state.entry = impl->entries[kernel - program.kernels.begin()];
  ShadowMapping shadow;
  if (Error error = gatherBuffers(state, shadow, memory, impl->globals))
    return std::move(error);

  std::vector<uint32_t> order =
      drawBlockOrder(launch.grid.count(), launch.seed);
  size_t workers = std::min<size_t>(impl->options.hostThreads, order.size());
  if (workers > 1)
    state.locks.reset(new std::atomic_flag[LaunchState::stripes]());
  std::vector<std::unique_ptr<BlockRunner>> runners;
  for (size_t i = 0; i < workers; ++i) {
    runners.push_back(std::make_unique<BlockRunner>(state));
    if (Error error = runners.back()->prepare())
      return std::move(error);
  }
  std::atomic<size_t> next{0};
  auto work = [&](BlockRunner &runner) {
    for (size_t i; (i = next++) < order.size();)
      if (order[i] < state.faultBlock)
        runner.run(order[i]);
  };
  std::vector<std::thread> threads;
  for (size_t i = 1; i < workers; ++i)
    threads.emplace_back(work, std::ref(*runners[i]));
  work(*runners[0]);
  for (std::thread &thread : threads)
    thread.join();

  if (state.fault)
    return Error(std::move(state.fault));
  return summarize(state, runners);
}

} // namespace jpmhc::emulator
