// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Locations.h"

using namespace mlir;

std::string jpmhc::userLocation(Location loc) {
  std::string text;
  loc->walk([&](Location inner) {
    auto file = dyn_cast<FileLineColLoc>(inner);
    if (!file)
      return WalkResult::advance();
    text = (file.getFilename().getValue() + ":" + Twine(file.getLine()) + ":" +
            Twine(file.getColumn()))
               .str();
    return WalkResult::interrupt();
  });
  return text;
}
