// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_TARGET_PASSES_TD
#define JPMHC_TARGET_PASSES_TD

include "mlir/Pass/PassBase.td"

def SetTarget : Pass<"jpmhc-set-target", "::mlir::ModuleOp"> {
  let summary = "say what a module is compiled for";
  let description = [{
    Sets `jpmhc.target`, which the passes after it read. A processor is one that LLVM knows, and this machine's where
    none is named; a GPU is one that PTX is written for. An unknown one is an error.

    The pipelines for a target begin with it: `jpmhc-opt --jpmhc-to-cpu` and `jpmhc-opt --jpmhc-to-ptx=chip=sm_100a` run
    everything from tensors to the LLVM dialect or PTX, and `--mlir-print-ir-after-all` prints each stage.
  }];
  let options = [Option<"kind", "kind", "std::string", "\"cpu\"", "cpu or gpu">,
                 Option<"chip", "chip", "std::string", "\"\"", "processor or GPU">];
  let dependentDialects = ["::jpmhc::JPMHCDialect"];
}

def SplitKernels : Pass<"jpmhc-split-kernels", "::mlir::ModuleOp"> {
  let summary = "move each CPU kernel into a module of its own";
  let description = [{
    The module of a kernel has no name and lies in the program's module, where a declaration stays for the launches.
    Each is lowered, optimised and kept in the cache by itself.
  }];
}

def KernelsToPTX : Pass<"jpmhc-kernels-to-ptx", "::mlir::ModuleOp"> {
  let summary = "turn the gpu.module of the kernels into PTX";
  let description = [{
    The module becomes a `gpu.binary` of its name that holds the PTX as text, for the chip of `jpmhc.target`.
  }];
  let dependentDialects = ["::mlir::gpu::GPUDialect", "::mlir::NVVM::NVVMDialect"];
}

#endif // JPMHC_TARGET_PASSES_TD
