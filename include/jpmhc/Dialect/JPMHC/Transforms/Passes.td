// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_TRANSFORMS_PASSES_TD
#define JPMHC_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def Differentiate : Pass<"jpmhc-differentiate", "::mlir::ModuleOp"> {
  let summary = "replace each jpmhc.vjp by a calculation in reverse mode";
  let description = [{
    The callee's body moves to the place of the op and is followed by the rules of its ops in reverse order, each
    through `DifferentiableOpInterface`; an op without a rule between an active input and an active result is an error
    at that op. The cotangents of a value that is used several times are added up (in f32 for bf16 and f16).

    A function that the body calls stays a function. It is differentiated once for each set of active operands and of
    results with a cotangent, and becomes two: `@f_forward` returns the results of `@f` and what its gradient needs
    beyond arguments and results; `@f_backward` takes those and the cotangents. What is kept is a minimum cut, in
    bytes, between what has to be kept and what the gradient uses: element-wise arithmetic, fills, broadcasts and
    reshapes are rather computed again.

    `jpmhc.stop_gradient` disappears, and so do private functions that nothing calls any more. Calls are taken to be
    without side effects, as all ops on tensors are.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
                           "::mlir::math::MathDialect", "::mlir::tensor::TensorDialect"];
  let statistics = [Statistic<"functions", "functions-differentiated", "functions differentiated for their calls">,
                    Statistic<"residualBytes", "residual-bytes", "bytes that forward functions return for gradients">];
}

def ExpandBlocks : Pass<"jpmhc-expand-blocks"> {
  let summary = "replace hyper-connection blocks by what they consist of";
  let description = [{
    `jpmhc.hyper_connection` becomes `jpmhc.stream_logits`, `jpmhc.stream_maps`, `jpmhc.stream_read`, the ops of its
    region and `jpmhc.stream_write`. After that nothing needs to differentiate or fuse regions.
  }];
  let dependentDialects = ["::jpmhc::JPMHCDialect"];
}

def FuseElementwise : Pass<"jpmhc-fuse-elementwise", "::mlir::func::FuncOp"> {
  let summary = "fuse element-wise arithmetic on tensors into single passes over memory";
  let description = [{
    Generalises every named linalg op but contractions, then fuses a producer into its consumer when it has one use or
    is cheap enough to be computed twice (upstream's pass fuses single uses only and writes shared broadcasts to memory).
    Fills and empties are given to each user of its own, so that bufferization never copies zeros.
  }];
  let dependentDialects = ["::mlir::linalg::LinalgDialect", "::mlir::arith::ArithDialect"];
}

def PrepareBufferization : Pass<"jpmhc-prepare-bufferization", "::mlir::ModuleOp"> {
  let summary = "say which arguments may be overwritten";
  let description = [{
    One-shot bufferization takes every argument without `bufferization.writable = false` for writable and may compute
    in the caller's arrays. Every tensor argument becomes read-only here, except those marked `jpmhc.inplace` (a
    parameter or a state that the function updates and returns). Functions become private meanwhile: the passes that
    turn results into out-parameters skip public ones. A function of several blocks is an error: the passes after this
    one read a function from its first op to its last.
  }];
}

def ResultsToArguments : Pass<"jpmhc-results-to-arguments", "::mlir::ModuleOp"> {
  let summary = "turn results into out-parameters, drop those that are an argument";
  let description = [{
    A result whose buffer is an argument (an in-place update) disappears; `jpmhc.aliases` on the function keeps, for
    each original result, the argument that it is, or -1. An argument marked `jpmhc.inplace` that is not updated in
    place is an error: the update would be lost.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::func::FuncDialect"];
}

def LowerLinalg : Pass<"jpmhc-lower-linalg", "::mlir::func::FuncOp"> {
  let summary = "lower linalg on buffers to parallel loops and library products";
  let description = [{
    Contractions of matrices become `jpmhc.gemm` (a zero fill just before becomes `beta = 0`), everything else becomes
    a loop over rows with loops over columns inside. A sum over rows is split into a fixed number of partial sums, so
    that its result does not depend on threads.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect",
                           "::jpmhc::JPMHCDialect"];
}

def SimplifyKernels : Pass<"jpmhc-simplify-kernels", "::mlir::ModuleOp"> {
  let summary = "canonicalize, but keep parallel loops as they are";
  let description = [{
    The canonicalizer would merge a loop over rows with its loop over columns into one of two dimensions, and inline a
    loop over a single row. Both lose what the loops stand for: rows for threads, columns for vector lanes.
  }];
}

def DropEmpty : Pass<"jpmhc-drop-empty", "::mlir::ModuleOp"> {
  let summary = "remove work on buffers without elements";
  let description = [{
    Loops that run no iteration disappear, accesses to a buffer without elements too (they sit in loops that never
    run), and a product over no terms is a fill. Such a buffer then is at most an argument that is handed on; it becomes
    `memref<0xT>`, because upstream's calling convention has no pointer for a type like `memref<2x0x4xf32>`.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
}

def FuseRows : Pass<"jpmhc-fuse-rows", "::mlir::func::FuncOp"> {
  let summary = "merge loops over the same rows";
  let description = [{
    Two parallel loops over the same range become one when every buffer that one writes and the other touches is
    accessed by both in the row of the loop alone, and nothing between them conflicts. This is the fusion that keeps a
    row in cache through a chain of norms, element-wise work and stream mixing.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
  let statistics = [Statistic<"merged", "loops-merged", "loops merged into an earlier one">];
}

def FuseTiles : Pass<"jpmhc-fuse-tiles", "::mlir::func::FuncOp"> {
  let summary = "walk tokens once through loops of different shapes (CPU)";
  let description = [{
    Loops over rows, over groups of tokens and over chunks of tokens that touch the same buffers only in their own
    tokens' rows become one loop over tiles of `lanes` tokens. A stack of hyper-connection blocks thus reads its streams
    once between two products, forward and backward. Of a buffer that one such loop alone uses, no more than a tile is
    left, on the stack. Loops stay apart where what every tile reads again (weights, partial sums) would not stay in the
    cache.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect", "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"merged", "loops-merged", "loops merged into an earlier one">];
}

def ShareScratch : Pass<"jpmhc-share-scratch", "::mlir::func::FuncOp"> {
  let summary = "let stack buffers that are never in use at once share memory (CPU)";
  let description = [{
    Within a block, a `memref.alloca` whose last use comes before another's first one gives its memory to it. A loop that
    has been fused from many walks over the same few buffers then, which stay in a cache. Buffers in use at the same time
    keep allocations of their own, so that they are known not to alias. Small buffers are left alone.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
  let statistics = [Statistic<"shared", "buffers-shared", "buffers that took another's memory">];
}

def PlanMemory : Pass<"jpmhc-plan-memory", "::mlir::ModuleOp"> {
  let summary = "place every temporary of a step in one arena";
  let description = [{
    The life of a buffer runs from the first to the last top-level op that touches it or a view of it. Buffers are
    placed largest first at the lowest free offset of one i8 argument, which each function gets as its last argument
    and hands on to the functions it calls. `jpmhc.arena_bytes` on a function is what it needs, calls included.
    A function of several blocks is an error.
  }];
  let dependentDialects = ["::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect"];
}

def OutlineKernels : Pass<"jpmhc-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "make each top-level parallel loop a kernel function and a launch";
  let description = [{
    The loop becomes `func @name(lower, upper, buffers and scalars...)`; loops that are equal but for the values they
    capture share one function. The call site keeps the user's location.
  }];
  let dependentDialects = ["::jpmhc::JPMHCDialect", "::mlir::func::FuncDialect"];
  let statistics = [Statistic<"kernels", "kernels", "distinct kernels">,
                    Statistic<"shared", "launches-sharing-a-kernel", "launches of a kernel that existed already">];
}

def PrintCost : Pass<"jpmhc-print-cost", "::mlir::ModuleOp"> {
  let summary = "print what each kernel of each entry computes and moves";
  let description = [{
    One line, a comment, for each kernel and line of the user's program: runs, floating-point operations, bytes of its
    loads and stores, and the floor, the bytes of its buffers each read or written once. `+` marks numbers that are
    lower bounds, since a loop's length is known at run time only. The module is not changed.
  }];
}

def LowerParallelToFor : Pass<"jpmhc-lower-parallel-to-for", "::mlir::func::FuncOp"> {
  let summary = "run the parallel loops of a kernel one after the other (a CPU thread's share)";
  let description = [{
    `scf.parallel` becomes `scf.for`; reductions become carried values, which the loop vectoriser splits over lanes.
    Scratch of a row moves to the start of the kernel.
  }];
  let dependentDialects = ["::mlir::scf::SCFDialect"];
}

def MapToGPU : Pass<"jpmhc-map-to-gpu", "::mlir::ModuleOp"> {
  let summary = "give the parallel loops of kernels to GPU blocks and threads";
  let description = [{
    A kernel whose rows have loops over columns gets a block for each row: its threads share the columns, sums go
    through shuffles and shared memory in a fixed order, and a barrier parts one loop from the next. A kernel without
    such loops (tokens, plain element-wise work) gets a thread for each row. `jpmhc.block` and `jpmhc.rows_per_block`
    on the function say how to launch it.
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
                           "::mlir::memref::MemRefDialect"];
}

def LowerGPUToNVVM : Pass<"jpmhc-lower-gpu-to-nvvm", "::mlir::gpu::GPUModuleOp"> {
  let summary = "GPU kernels to the NVVM dialect, buffers as bare pointers";
  let description = [{
    One conversion for everything a kernel holds: upstream's pass leaves the control flow of `gpu.func` behind, whose
    block arguments then disagree with the converted types. Mathematics becomes intrinsics where PTX has an
    instruction, instead of calls of libdevice.
  }];
  let dependentDialects = ["::mlir::NVVM::NVVMDialect", "::mlir::LLVM::LLVMDialect"];
}

def ApproximateMath : Pass<"jpmhc-approximate-math", "::mlir::func::FuncOp"> {
  let summary = "replace transcendental functions by polynomials";
  let description = [{
    Upstream's polynomial approximations, on scalars and on vectors: the loop vectoriser then vectorises them, and a
    vector of sixteen values is not sixteen library calls. Accurate to a few ulp (exp 1, log 1, tanh 5); `atan2`,
    whose polynomial is not, and sin and cos of large arguments stay library calls.
  }];
  let dependentDialects = ["::mlir::math::MathDialect", "::mlir::arith::ArithDialect", "::mlir::vector::VectorDialect"];
}

def WrapKernels : Pass<"jpmhc-wrap-kernels", "::mlir::ModuleOp"> {
  let summary = "give each kernel the entry that the launch ABI calls";
  let description = [{
    `void name(i64 lower, i64 upper, ptr arguments)` loads the pointers (and the scalars behind them) and calls the
    kernel proper, which is internal and may be inlined there.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

def LowerHostToLLVM : Pass<"jpmhc-lower-host-to-llvm", "::mlir::ModuleOp"> {
  let summary = "turn launches, products and copies into calls of the launch ABI";
  let description = [{
    Every function gets the context as first argument, buffers as bare pointers, and returns a status: 0, or that of
    the first call that failed, after which nothing more runs. `jpmhc.launch` fills an array of pointers and calls
    `jpmhcLaunch`, `jpmhc.gemm` calls `jpmhcGemm`. An entry (a function that was public in the user's module) is called
    `i32 @name.entry(ptr context, ptr arguments)`, where `arguments` has one pointer for each buffer or scalar, the
    arena last. The functions themselves become `@name.step`, internal: no name of the user's is that of a function
    which kernels call, such as `sinf`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
}

#endif // JPMHC_TRANSFORMS_PASSES_TD
