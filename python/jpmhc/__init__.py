# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jpmhc: a compiler for neural networks whose residual path is more than x + F(x)."""
