// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A GPU without a GPU: runs the kernels of an LLVM module with NVVM intrinsics
// on the host, one fiber a thread, and watches every access they make. The
// same module becomes PTX (jpmhc/Target/PTX.h).
//
// A launch ends with a report of the bytes it moved, or with an EmulatorFault
// that says what went wrong, where in the grid and where in the source. Memory
// outside the registered buffers is never touched.

#ifndef JPMHC_RUNTIME_EMULATOR_H
#define JPMHC_RUNTIME_EMULATOR_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llvm {
class Module;
} // namespace llvm

namespace jpmhc::emulator {

/// Extents of a grid or a block, or a position in one.
struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;

  uint64_t count() const { return uint64_t(x) * y * z; }
};

/// What a kernel did wrong.
enum class FaultKind {
  /// An access outside every registered buffer, or outside the shared memory.
  OutOfBounds,
  /// An address that is not a multiple of the alignment the access promises.
  Misaligned,
  /// A write to a buffer registered as read-only.
  ReadOnlyWrite,
  /// A read of shared memory that nothing has written.
  UninitializedShared,
  /// Two threads touch the same memory, at least one writes, and no barrier
  /// orders them.
  DataRace,
  /// Threads wait and nobody can release them.
  Deadlock,
  /// Threads of a warp that must execute a collective together do not.
  DivergentCollective,
  /// An operand outside what the instruction allows: barrier 16, say.
  InvalidOperand,
  /// A trap instruction.
  Trap,
  /// More accesses than EmulatorOptions::maxAccesses.
  AccessLimit,
};

/// "out of bounds", "data race", …
llvm::StringRef toString(FaultKind kind);

/// The error a faulty kernel ends with.
class EmulatorFault : public llvm::ErrorInfo<EmulatorFault> {
public:
  static char ID;

  EmulatorFault(FaultKind kind, std::string kernel, Dim3 block, Dim3 thread,
                std::string message)
      : kind(kind), kernel(std::move(kernel)), block(block), thread(thread),
        text(std::move(message)) {}

  void log(llvm::raw_ostream &stream) const override { stream << text; }
  std::error_code convertToErrorCode() const override;

  const FaultKind kind;
  const std::string kernel;
  const Dim3 block, thread;

private:
  const std::string text;
};

/// The buffers a kernel may touch: the emulator's global memory. It is host
/// memory, owned by the caller, which must outlive its registration.
class DeviceMemory {
public:
  struct Buffer {
    uintptr_t base = 0;
    uint64_t bytes = 0;
    std::string name;
    bool writable = true;
  };

  /// Error: the range overlaps a registered one, or is at a null pointer.
  llvm::Error registerBuffer(const void *base, uint64_t bytes,
                             llvm::StringRef name, bool writable = true);
  /// Error: no buffer starts at `base`.
  llvm::Error unregisterBuffer(const void *base);

  /// By base address.
  const std::map<uintptr_t, Buffer> &getBuffers() const { return buffers; }

private:
  std::map<uintptr_t, Buffer> buffers;
};

/// What an Emulator is made for, and what it watches.
struct EmulatorOptions {
  /// The chip whose optimisation pipeline runs before the emulation.
  std::string chip = "sm_90a";
  /// The level of that pipeline, 0 to 3. With 3 the emulator sees the loads and
  /// stores that PTX has; speculative loads alone are held back, since they
  /// would count as accesses of the program's.
  unsigned optLevel = 3;
  /// Host threads that blocks are spread over.
  unsigned hostThreads = 1;
  /// Report conflicting accesses.
  bool checkRaces = true;
  /// Count 32-byte sectors a warp instruction (LaunchReport::sectors). Takes
  /// time and memory in proportion to the accesses of a block.
  bool countSectors = false;
  /// Accesses a thread may make before the launch is given up as endless; 0
  /// sets no limit.
  uint64_t maxAccesses = uint64_t(1) << 32;
  /// Bytes of stack a thread, besides what its local variables need.
  size_t stackBytes = 64 * 1024;
};

/// One launch: as of cuLaunchKernel.
struct EmulatorLaunch {
  Dim3 grid, block;
  uint32_t dynamicSharedBytes = 0;
  /// One pointer an argument, to its value.
  llvm::ArrayRef<const void *> arguments;
  /// Order of threads between two synchronisations, and of blocks: 0 is the
  /// natural order, any other number draws one.
  uint64_t seed = 0;
};

/// Bytes through global memory. `requested` counts every access of every
/// thread, `unique` every byte once a launch: what would be moved if nothing
/// had to be fetched twice. An atomic counts as a read and a write.
struct Traffic {
  uint64_t requestedRead = 0, requestedWritten = 0;
  uint64_t uniqueRead = 0, uniqueWritten = 0;
};

/// What a launch did that ended without a fault.
struct LaunchReport {
  Traffic total;
  struct BufferTraffic {
    std::string name;
    Traffic traffic;
  };
  /// Every buffer that was touched, by base address.
  std::vector<BufferTraffic> buffers;
  /// 32-byte sectors of global memory, counted once an instruction of a warp,
  /// and the number of those instructions; 0 unless countSectors.
  uint64_t readSectors = 0, writtenSectors = 0;
  uint64_t readRequests = 0, writeRequests = 0;
  /// Block barriers completed, all blocks together.
  uint64_t barriers = 0;
  /// Shared memory a block, static and dynamic.
  uint64_t sharedBytes = 0;
};

/// The kernels of one module, compiled for emulation. Launches of one Emulator
/// must not overlap in time.
class Emulator {
public:
  /// Compiles `module`, which is left as it is. Errors: a module that does not
  /// verify, has no kernel, holds inline assembly, calls an undefined function,
  /// or uses an NVVM intrinsic that the emulator does not know, by name.
  static llvm::Expected<std::unique_ptr<Emulator>>
  create(const llvm::Module &module, const EmulatorOptions &options = {});
  ~Emulator();

  /// Names of the kernels.
  std::vector<std::string> getKernels() const;

  /// Runs a kernel to its end. Errors: EmulatorFault; and, before anything
  /// runs: an unknown kernel, a wrong number of arguments, a grid or block
  /// outside the limits of the hardware or of the kernel's own `reqntid`.
  llvm::Expected<LaunchReport> launch(llvm::StringRef kernel,
                                      const EmulatorLaunch &launch,
                                      const DeviceMemory &memory);

private:
  struct Impl;
  explicit Emulator(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl;
};

} // namespace jpmhc::emulator

#endif // JPMHC_RUNTIME_EMULATOR_H
