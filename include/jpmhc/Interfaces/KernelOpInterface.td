// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_INTERFACES_KERNELOPINTERFACE_TD
#define JPMHC_INTERFACES_KERNELOPINTERFACE_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/Interfaces.td"

def JPMHC_KernelOpInterface : OpInterface<"KernelOpInterface"> {
  let cppNamespace = "::jpmhc";
  let description = [{
    An op on tensors that knows how to compute itself as loops over buffers. Bufferization replaces the op by what
    `emitKernel` builds: one or more parallel loops (`scf.parallel`) over rows, each of which becomes a kernel.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits the loops at the builder's insertion point. `inputs` holds one value an operand (a memref for a tensor,
        the value itself for a scalar); `outputs` one memref a result, already allocated, contents undefined.
        A result named by `getInPlaceOperand` shares its buffer with that operand.
      }], "void", "emitKernel",
      (ins "::jpmhc::KernelBuilder &":$kernel, "::mlir::ValueRange":$inputs, "::mlir::ValueRange":$outputs)>,
    InterfaceMethod<[{
        The operand whose buffer result `result` overwrites, or -1 when the result has a buffer of its own (default).
      }], "int64_t", "getInPlaceOperand", (ins "int64_t":$result), "", [{ return -1; }]>,
  ];
}

#endif // JPMHC_INTERFACES_KERNELOPINTERFACE_TD
