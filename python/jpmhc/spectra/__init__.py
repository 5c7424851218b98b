# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Singular values of the Jacobian of a deep hyper-connected network, from its mixers.

The model is J = Y_L ... Y_1 with Y_l = A_l ⊗ I_p + σ_l X_l, where A_l is the q×q mixer of layer l
and X_l has independent entries of variance 1/N, N = qp, in the limit N → ∞ at fixed q. The limit
has no randomness left, so it is computed by solving equations, not by sampling.

The numerical core is C++ (`jpmhc._spectral`); it needs no LLVM.
"""

from __future__ import annotations

from jpmhc.spectra.acceleration import aaa, hutch_plus_plus, richardson
from jpmhc.spectra.automatic import greens_function, singular_value_density, solve
from jpmhc.spectra.model import Layers
from jpmhc.spectra.solvers import (
    ConvergenceWarning,
    DomainWarning,
    Solution,
    block_chain,
    free_product,
    kronecker_layer,
    operator_valued,
    scalar_dyson,
    z1_map,
)

__all__ = [
    "ConvergenceWarning",
    "DomainWarning",
    "Layers",
    "Solution",
    "aaa",
    "block_chain",
    "free_product",
    "greens_function",
    "hutch_plus_plus",
    "kronecker_layer",
    "operator_valued",
    "richardson",
    "scalar_dyson",
    "singular_value_density",
    "solve",
    "z1_map",
]
