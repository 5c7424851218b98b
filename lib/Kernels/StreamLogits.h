// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the two ways to compute the skinny product of normalised streams share:
// along rows (any target), and in panels (a CPU, rows that fit its caches).
#ifndef JPMHC_KERNELS_STREAMLOGITS_H
#define JPMHC_KERNELS_STREAMLOGITS_H

#include "jpmhc/Dialect/JPMHC/IR/JPMHCOps.h"
#include "jpmhc/Kernels/KernelBuilder.h"

namespace jpmhc::stream_logits {

/// Streams as rows [N, d], to be normalised without gain and shift.
struct Rows {
  Rows(KernelBuilder &k, mlir::Value x, NormKind kind, double eps);

  int64_t size() const; ///< d

  KernelBuilder &k;
  mlir::Value x;
  NormKind kind;
  double eps;
  Val width; ///< d
};

/// W · shift, [m].
mlir::Value shiftedWeight(KernelBuilder &k, mlir::Value weight,
                          mlir::Value shift);

/// The gradients of the parameters from partial sums, a chunk of tokens each.
class Adjoint {
public:
  Adjoint(KernelBuilder &k, StreamLogitsVjpOp op, StreamLogitsVjpOp::Adaptor in,
          mlir::ValueRange outputs);

protected:
  /// dW = M ∘ gain + s ⊗ shift with s = Σ dz and M = Σ dz ⊗ u (u the
  /// normalised row); dgain = Σ_o W ∘ M, dshift = Wᵀ s.
  /// `part` is a chunk's part of M.
  void emitParameters(llvm::function_ref<Val(Val chunk, Val o, Val c)> part);

  KernelBuilder &k;
  StreamLogitsVjpOp::Adaptor in;
  Rows rows;
  mlir::Value dx; ///< [N, d]
  mlir::Value dWeight, dGain, dShift;
  mlir::Value dzParts; ///< partial sums of s; null without shift
  int64_t size, outputs;
};

/// Whether streams [N, n, p] are to be computed with in panels.
bool fitPanels(KernelBuilder &k, mlir::Value streams);
void emitInPanels(StreamLogitsOp::Adaptor in, const Rows &rows,
                  mlir::Value out);
void emitVjpInPanels(KernelBuilder &k, StreamLogitsVjpOp op,
                     StreamLogitsVjpOp::Adaptor in, mlir::ValueRange outputs);

} // namespace jpmhc::stream_logits

#endif // JPMHC_KERNELS_STREAMLOGITS_H
