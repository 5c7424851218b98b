// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#ifndef JPMHC_SUPPORT_LOCATIONS_H
#define JPMHC_SUPPORT_LOCATIONS_H

#include "mlir/IR/Location.h"
#include <string>

namespace jpmhc {

/// "file:line:col" of the first position in a location; empty when there is
/// none.
std::string userLocation(mlir::Location loc);

} // namespace jpmhc

#endif // JPMHC_SUPPORT_LOCATIONS_H
