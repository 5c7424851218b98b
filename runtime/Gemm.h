// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Gemm.h - Products by a BLAS on our own threads ---------------------===//
#ifndef JPMHC_RUNTIME_GEMM_H
#define JPMHC_RUNTIME_GEMM_H

#include "jpmhc/Runtime/Device.h"

namespace jpmhc::runtime {

/// Loads the BLAS: the file that the environment's JPMHC_BLAS names, else the
/// library found when this was built. Its own threads are never started.
/// Called again, returns the first outcome.
int32_t loadBlas();

/// Makes a product on every thread, so that later ones find the BLAS's kernels
/// chosen and its buffers mapped; loadBlas has succeeded.
void warmUpBlas();

/// f32 product on the pool's threads; loadBlas has succeeded.
void runGemm(const GemmCall &call);

} // namespace jpmhc::runtime

#endif // JPMHC_RUNTIME_GEMM_H
