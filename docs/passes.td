// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What docs/passes.md is made of.
include "jpmhc/Dialect/JPMHC/Transforms/Passes.td"
include "jpmhc/Target/Passes.td"
