// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "jpmhc/Interfaces/DifferentiableOpInterface.h"
#include "jpmhc/Interfaces/KernelOpInterface.h"

#include "jpmhc/Interfaces/DifferentiableOpInterface.cpp.inc"
#include "jpmhc/Interfaces/KernelOpInterface.cpp.inc"
