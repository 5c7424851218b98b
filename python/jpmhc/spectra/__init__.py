# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Singular values of the Jacobian of a deep hyper-connected network, from its mixers.

The model is J = Y_L ... Y_1 with Y_l = A_l ⊗ I_p + σ_l X_l, where A_l is the q×q mixer of layer l
and X_l has independent entries of variance 1/N, N = qp, in the limit N → ∞ at fixed q. The limit
has no randomness left, so it is computed by solving equations, not by sampling.

The numerical core is C++ (`jpmhc._spectral`); it needs no LLVM.
"""

from __future__ import annotations

from jpmhc.spectra.automatic import (
    ConvergenceWarning,
    Solution,
    greens_function,
    singular_value_density,
    solve,
)
from jpmhc.spectra.model import Layers
from jpmhc.spectra.solvers import scalar_dyson

__all__ = [
    "ConvergenceWarning",
    "Layers",
    "Solution",
    "greens_function",
    "scalar_dyson",
    "singular_value_density",
    "solve",
]
