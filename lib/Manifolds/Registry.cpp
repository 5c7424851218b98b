// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Manifolds/Manifold.h"

using namespace mlir;
using namespace jpmhc;

LogicalResult
ManifoldRegistry::verify(function_ref<InFlightDiagnostic()> emitError,
                         StringRef name, DictionaryAttr parameters) {
  return success();
}
