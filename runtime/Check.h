// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- Check.h - Search for NaNs and infinities ---------------------------===//
#ifndef JPMHC_RUNTIME_CHECK_H
#define JPMHC_RUNTIME_CHECK_H

#include "Gemm.h"
#include "jpmhc/Runtime/Launch.h"

namespace jpmhc::runtime {

/// JPMHC_OK, or a failure that names the first number that is not finite among
/// those that the launch has written.
int32_t checkLaunch(const jpmhcKernel &kernel, void **args);

/// The same for a product.
int32_t checkGemmResult(const GemmCall &call, const char *location);

} // namespace jpmhc::runtime

#endif // JPMHC_RUNTIME_CHECK_H
