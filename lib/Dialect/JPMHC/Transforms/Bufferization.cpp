// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bufferization of every op with a kernel: results get buffers, the op becomes
// its loops.
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "ParallelLoops.h"
#include "jpmhc/Dialect/JPMHC/Transforms/Passes.h"
#include "jpmhc/Kernels/KernelBuilder.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"

using namespace mlir;
using namespace jpmhc;
using namespace mlir::bufferization;

namespace {

template <typename Op>
struct KernelOpBufferization
    : BufferizableOpInterface::ExternalModel<KernelOpBufferization<Op>, Op> {
  static int64_t resultOverwriting(Operation *op, OpOperand &operand) {
    for (int64_t i = 0, e = op->getNumResults(); i < e; ++i)
      if (cast<KernelOpInterface>(op).getInPlaceOperand(i) ==
          operand.getOperandNumber())
        return i;
    return -1;
  }

  bool bufferizesToMemoryRead(Operation *, OpOperand &,
                              const AnalysisState &) const {
    return true;
  }

  bool bufferizesToMemoryWrite(Operation *op, OpOperand &operand,
                               const AnalysisState &) const {
    return resultOverwriting(op, operand) >= 0;
  }

  AliasingValueList getAliasingValues(Operation *op, OpOperand &operand,
                                      const AnalysisState &) const {
    int64_t result = resultOverwriting(op, operand);
    if (result < 0)
      return {};
    return {{op->getResult(result), BufferRelation::Equivalent}};
  }

  bool bufferizesToAllocation(Operation *op, Value value) const {
    return cast<KernelOpInterface>(op).getInPlaceOperand(
               cast<OpResult>(value).getResultNumber()) < 0;
  }

  LogicalResult bufferize(Operation *op, RewriterBase &rewriter,
                          const BufferizationOptions &options,
                          BufferizationState &state) const {
    SmallVector<Value> inputs, outputs;
    for (Value operand : op->getOperands()) {
      if (!isa<TensorType>(operand.getType())) {
        inputs.push_back(operand);
        continue;
      }
      FailureOr<Value> buffer = getBuffer(rewriter, operand, options, state);
      if (failed(buffer))
        return failure();
      inputs.push_back(*buffer);
    }
    auto kernelOp = cast<KernelOpInterface>(op);
    for (OpResult result : op->getResults()) {
      int64_t overwritten =
          kernelOp.getInPlaceOperand(result.getResultNumber());
      if (overwritten >= 0) {
        outputs.push_back(inputs[overwritten]);
        continue;
      }
      auto type = cast<RankedTensorType>(result.getType());
      if (!type.hasStaticShape())
        return op->emitOpError("expected static shapes for code generation, "
                               "got a result of type ")
               << type;
      outputs.push_back(memref::AllocOp::create(
          rewriter, op->getLoc(),
          MemRefType::get(type.getShape(), type.getElementType()),
          rewriter.getI64IntegerAttr(64)));
    }
    Operation *before = op->getPrevNode();
    KernelBuilder kernel(rewriter, op->getLoc(), getTarget(op));
    kernelOp.emitKernel(kernel, inputs, outputs);
    nameKernels(before, op, op->getName().stripDialect());
    replaceOpWithBufferizedValues(rewriter, op, outputs);
    return success();
  }
};

template <typename Op> void attach(MLIRContext *context) {
  if constexpr (Op::template hasTrait<KernelOpInterface::Trait>())
    Op::template attachInterface<KernelOpBufferization<Op>>(*context);
}

template <typename... Ops> void attachAll(MLIRContext *context) {
  (attach<Ops>(context), ...);
}

} // namespace

void jpmhc::registerBufferization(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, JPMHCDialect *) {
    context->loadDialect<memref::MemRefDialect, scf::SCFDialect,
                         vector::VectorDialect, arith::ArithDialect,
                         math::MathDialect>();
    attachAll<
#define GET_OP_LIST
#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.cpp.inc"
        >(context);
  });
}
