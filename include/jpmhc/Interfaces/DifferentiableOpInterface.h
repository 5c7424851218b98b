// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
#define JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/BitVector.h"

namespace jpmhc {
class KernelBuilder;
} // namespace jpmhc

#include "jpmhc/Interfaces/DifferentiableOpInterface.h.inc"

#endif // JPMHC_INTERFACES_DIFFERENTIABLEOPINTERFACE_H
