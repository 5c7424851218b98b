// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ChainMapAvx2.cpp - The map for AVX2 and FMA ------------------------===//
#define Eigen EigenAvx2

#include "ChainMapImpl.h"

using namespace jpmhc::spectral;

std::unique_ptr<ChainMap>
jpmhc::spectral::createAvx2ChainMap(const ChainModel &model) {
  return createSized(model);
}
