# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Green's functions and densities by the solver that suits the layers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc.errors import ConfigError, shown, unknown_name
from jpmhc.spectra import solvers
from jpmhc.spectra.model import Layers, points, upper_half_plane
from jpmhc.spectra.solvers import Progress, Solution

__all__ = ["greens_function", "singular_value_density", "solve"]

METHODS = ("auto", "chain", "free", "kronecker", "scalar")


def choose(layers: Layers) -> tuple[str, str]:
    """The solver for the layers, and why."""
    if layers.depth == 1:
        return "kronecker", "one layer: one unknown, whatever the size of the mixer"
    if layers.orthogonal_scales is not None:
        return (
            "scalar",
            "every mixer is a multiple of an orthogonal matrix, whose rotations the noise absorbs: "
            f"the chain with numbers for the {layers.size}x{layers.size} blocks is exact",
        )
    kind = "equal" if (layers.mixers == layers.mixers[0]).all() else "different"
    return (
        "chain",
        f"{layers.depth} {kind} mixers of {layers.size}x{layers.size} that are not multiples of "
        "orthogonal matrices: only the block chain is exact",
    )


def scalar_layers(layers: Layers) -> Layers:
    """Layers of 1×1 mixers with the same spectrum, for multiples of orthogonal matrices."""
    scales = layers.orthogonal_scales
    if scales is None:
        raise ConfigError(
            "method scalar", expected="multiples of orthogonal matrices", given="other mixers"
        )
    return Layers(np.ascontiguousarray(scales[:, None, None]), layers.sigma2)


def _run(layers: Layers, method: str, z: NDArray, progress: Progress | None) -> Solution:
    if method == "kronecker":
        if layers.depth != 1:
            raise ConfigError("method kronecker", expected="one layer", given=layers.depth)
        return solvers.kronecker_layer(layers.mixers[0], layers.sigma2[0], z, progress=progress)
    if method == "scalar":
        found = solvers.block_chain(scalar_layers(layers), None, z, progress=progress)
        return dataclasses.replace(found, method="scalar")
    if method == "free":
        return solvers.free_product(layers.mixers, layers.sigma2, z, progress=progress)
    return solvers.block_chain(layers, None, z, progress=progress)


def _second_route(layers: Layers, method: str, z: NDArray) -> tuple[NDArray, str]:
    """Another way to the same values, and its name."""
    if method == "kronecker":
        return solvers.block_chain(layers, None, z).value, "the block chain"
    if method == "scalar":
        found = solvers.free_product(layers.mixers, layers.sigma2, z)
        return found.value, "the free multiplicative convolution"
    if method == "free":
        return solvers.block_chain(layers, None, z).value, "the block chain"
    found = solvers.block_chain(layers, None, z, iteration="anderson", max_sweeps=3000)
    return found.value, "the accelerated iteration of the same equations from t = -i"


def solve(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    method: str = "auto",
    check: bool = True,
    progress: Progress | None = None,
) -> Solution:
    """G(z) of the layers with everything that is known about its accuracy.

    Arguments and errors are those of `greens_function`. `check` computes the error estimate: the
    largest difference from a second, independent route at up to eight of the points.
    """
    layers = Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    if method not in METHODS:
        raise unknown_name("method", method, METHODS)
    reason = "asked for"
    if method == "auto":
        method, reason = choose(layers)
    solution = dataclasses.replace(_run(layers, method, z, progress), reason=reason)
    if not check or not z.size:
        return solution
    chosen = solvers.sample(z.size)
    other, name = _second_route(layers, method, z.ravel()[chosen])
    difference = np.abs(other - solution.value.ravel()[chosen])
    if not np.isfinite(difference).any():
        return solution
    return dataclasses.replace(solution, error=float(np.nanmax(difference)), second=name)


def greens_function(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    method: str = "auto",
    explain: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.complex128]:
    """G(z) = lim (1/N) tr (z − JᵀJ)⁻¹ for J = Y_L ... Y_1, Y_l = A_l ⊗ I_p + σ_l X_l.

    X_l has independent entries of variance 1/N, N = qp → ∞ at fixed q.

    Args:
        mixers: L ≥ 1 real q×q arrays, the first applied first.
        sigma2: σ_l² ≥ 0, one number or one a layer.
        z: points in the upper half plane, any shape. Neighbours in memory should be neighbours in
            the plane: each is solved starting from the one before it.
        method: "auto", or by name "chain" (`block_chain`), "kronecker" (`kronecker_layer`),
            "scalar" (the chain of numbers, for multiples of orthogonal mixers) or "free"
            (`free_product`).
        explain: print which solver was taken, why, and how far a second route is from it.
        progress: called as progress(done, total) about ten times a second.

    Returns:
        complex128 of z's shape; NaN, with a `ConvergenceWarning`, where it did not converge.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; a z outside the upper half plane; an
            unknown method, or one that does not serve these layers.
    """
    z = upper_half_plane(z)
    solution = solve(mixers, sigma2, z, method=method, check=explain, progress=progress)
    if explain:
        print(solution)
    solvers.warn_of_failures(solution.converged, z)
    return solution.value


def singular_value_density(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    s: ArrayLike,
    eta: float,
    *,
    method: str = "auto",
    explain: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.float64]:
    """The density of singular values of J at s, smoothed by a Cauchy kernel of half width η.

    ρ(s) = −(2/π) Im[w G(w²)], w = s + iη. Both s and −s enter the kernel, as they do for samples
    smoothed in the same way.

    Args:
        mixers: as for `greens_function`.
        sigma2: as for `greens_function`.
        s: singular values ≥ 0, any shape, preferably sorted.
        eta: half width > 0, in units of s.
        method: as for `greens_function`.
        explain: as for `greens_function`.
        progress: as for `greens_function`.

    Returns:
        float64 of the shape of s; NaN, with a `ConvergenceWarning`, where it did not converge.

    Raises:
        ShapeError, ConfigError, DTypeError: as `greens_function`; a negative s; η ≤ 0.
    """
    density, solution = solve_density(
        mixers, sigma2, s, eta, method=method, check=explain, progress=progress
    )
    if explain:
        print(solution)
    solvers.warn_of_failures(solution.converged, np.asarray(s, np.float64))
    return density


def solve_density(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    s: ArrayLike,
    eta: float,
    *,
    method: str = "auto",
    check: bool = True,
    progress: Progress | None = None,
) -> tuple[NDArray[np.float64], Solution]:
    """The density, and the Green's function with everything that is known about its accuracy.

    Arguments and errors are those of `singular_value_density`, `check` is as for `solve`.
    """
    s = points(s, "s", dtype=np.float64)
    if (s < 0).any():
        raise ConfigError("s", expected="singular values ≥ 0", given=float(s.min()))
    try:
        eta = float(eta)
    except (TypeError, ValueError):
        raise ConfigError("eta", expected="a number > 0", given=shown(eta)) from None
    if not (np.isfinite(eta) and eta > 0):
        raise ConfigError("eta", expected="a number > 0", given=eta)
    w = s + 1j * eta
    # At s = 0 the square lies on the negative axis; its neighbour above has the same density.
    z = w**2
    z = np.where(z.imag > 0, z, z.real + 1j * np.finfo(float).tiny)
    solution = solve(mixers, sigma2, z, method=method, check=check, progress=progress)
    return -2 / np.pi * (w * solution.value).imag, solution
