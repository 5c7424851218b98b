// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//===- ChainMap.cpp - The map for every processor -------------------------===//
#include "ChainMapImpl.h"

using namespace jpmhc::spectral;

std::unique_ptr<ChainMap>
jpmhc::spectral::createBaselineChainMap(const ChainModel &model) {
  return createSized(model);
}

std::unique_ptr<ChainMap>
jpmhc::spectral::createChainMap(const ChainModel &model) {
#ifdef JPMHC_SPECTRAL_AVX2
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return createAvx2ChainMap(model);
#endif
  return createBaselineChainMap(model);
}
