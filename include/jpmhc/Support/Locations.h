// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The place in the user's program that a location stands for.
#ifndef JPMHC_SUPPORT_LOCATIONS_H
#define JPMHC_SUPPORT_LOCATIONS_H

#include "mlir/IR/Location.h"
#include <string>

namespace jpmhc {

/// The first position inside a location (fused, named, of a call); null when
/// there is none.
mlir::FileLineColLoc findPosition(mlir::Location loc);

/// The same as "file:line:col"; empty when there is none.
std::string userLocation(mlir::Location loc);

} // namespace jpmhc

#endif // JPMHC_SUPPORT_LOCATIONS_H
