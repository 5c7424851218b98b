# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Singular values of the Jacobian of a deep hyper-connected network, from its mixers.

The model is J = Y_L ... Y_1 with Y_l = A_l ⊗ I_p + σ_l X_l, where A_l is the q×q mixer of layer l
and X_l has independent entries of variance 1/N, N = qp, in the limit N → ∞ at fixed q. The limit
has no randomness left, so it is computed by solving equations, not by sampling.

The numerical core is C++ (`jpmhc._spectral`); it needs no LLVM.
"""

from __future__ import annotations

from jpmhc.spectra.acceleration import aaa, hutch_plus_plus, richardson
from jpmhc.spectra.activated import ActivatedSolution, activated_greens_function
from jpmhc.spectra.automatic import greens_function, singular_value_density, solve
from jpmhc.spectra.diagnostics import (
    DiagnosticsCallback,
    LayerProbe,
    anisotropy,
    diagnose,
    diagnose_contexts,
    draw_contexts,
    gradient_norms,
    randomized_svd,
    signal_propagation_rate,
    spectral_flatness,
    stable_rank,
)
from jpmhc.spectra.distance import density_distance, sample_distance
from jpmhc.spectra.figure_one import panel, panel_mixers
from jpmhc.spectra.laboratory import mixers
from jpmhc.spectra.model import Layers
from jpmhc.spectra.operators import SidePathOperator, singular_values
from jpmhc.spectra.permutations import generating_sets, spectral_gaps
from jpmhc.spectra.sampling import checkpoint_mixers, draw_mixers, monte_carlo
from jpmhc.spectra.solvers import (
    ConvergenceWarning,
    DomainWarning,
    Solution,
    block_chain,
    free_product,
    kronecker_layer,
    operator_layer,
    operator_valued,
    scalar_dyson,
    z1_map,
)
from jpmhc.spectra.spectrum import Edge, Interval, Spectrum, SpectrumWarning, spectrum
from jpmhc.spectra.trsp import side_path

__all__ = [
    "ActivatedSolution",
    "ConvergenceWarning",
    "DiagnosticsCallback",
    "DomainWarning",
    "Edge",
    "Interval",
    "LayerProbe",
    "Layers",
    "SidePathOperator",
    "Solution",
    "Spectrum",
    "SpectrumWarning",
    "aaa",
    "activated_greens_function",
    "anisotropy",
    "block_chain",
    "checkpoint_mixers",
    "density_distance",
    "diagnose",
    "diagnose_contexts",
    "draw_contexts",
    "draw_mixers",
    "free_product",
    "generating_sets",
    "gradient_norms",
    "greens_function",
    "hutch_plus_plus",
    "kronecker_layer",
    "mixers",
    "monte_carlo",
    "operator_layer",
    "operator_valued",
    "panel",
    "panel_mixers",
    "randomized_svd",
    "richardson",
    "sample_distance",
    "scalar_dyson",
    "side_path",
    "signal_propagation_rate",
    "singular_value_density",
    "singular_values",
    "solve",
    "spectral_flatness",
    "spectral_gaps",
    "spectrum",
    "stable_rank",
    "z1_map",
]
