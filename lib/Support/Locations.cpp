// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Support/Locations.h"

using namespace mlir;

FileLineColLoc jpmhc::findPosition(Location loc) {
  FileLineColLoc found;
  loc->walk([&](Location part) {
    found = dyn_cast<FileLineColLoc>(part);
    return found ? WalkResult::interrupt() : WalkResult::advance();
  });
  return found;
}

std::string jpmhc::userLocation(Location loc) {
  FileLineColLoc position = findPosition(loc);
  if (!position)
    return "";
  return (position.getFilename().getValue() + ":" + Twine(position.getLine()) +
          ":" + Twine(position.getColumn()))
      .str();
}
