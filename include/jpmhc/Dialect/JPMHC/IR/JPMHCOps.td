// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The whole dialect: one file a family.
#ifndef JPMHC_OPS_TD
#define JPMHC_OPS_TD

include "jpmhc/Dialect/JPMHC/IR/AttentionOps.td"
include "jpmhc/Dialect/JPMHC/IR/CoreOps.td"
include "jpmhc/Dialect/JPMHC/IR/HyperConnectionOps.td"
include "jpmhc/Dialect/JPMHC/IR/KernelLevelOps.td"
include "jpmhc/Dialect/JPMHC/IR/LossOps.td"
include "jpmhc/Dialect/JPMHC/IR/ManifoldOps.td"
include "jpmhc/Dialect/JPMHC/IR/NormOps.td"
include "jpmhc/Dialect/JPMHC/IR/OptimizerOps.td"
include "jpmhc/Dialect/JPMHC/IR/RandomOps.td"
include "jpmhc/Dialect/JPMHC/IR/TokenOps.td"
include "jpmhc/Dialect/JPMHC/IR/SidePathOps.td"

#endif // JPMHC_OPS_TD
