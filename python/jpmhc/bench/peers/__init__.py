# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a PyTorch user would run instead, as fast as PyTorch honestly allows.

Modes are formulation/eager and formulation/compile. "tuned" takes long to find: coefficients as
separate vectors over tokens, an unrolled Sinkhorn iteration, a larger fusion limit, products with
few outputs as convolutions. "common" is what published code does. Importing a module of this
package imports torch.
"""
