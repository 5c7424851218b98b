# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Green's functions and densities by the solver that suits the layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc.errors import ConfigError
from jpmhc.spectra.model import Layers, points, upper_half_plane

__all__ = [
    "ConvergenceWarning",
    "Solution",
    "greens_function",
    "singular_value_density",
    "solve",
]

Progress = Callable[[int, int], None]


class ConvergenceWarning(UserWarning):
    """Some points did not converge; their values are NaN and the warning names them."""


@dataclass(frozen=True)
class Solution:
    """What a solver found, point by point.

    Attributes:
        value: complex128, G(z) = lim (1/N) tr (z − JᵀJ)⁻¹; NaN where it did not converge.
        residual: of the equations that were solved, relative; the certificate of a point.
        converged: whether the residual is below the tolerance and the branch is the right one.
        sweeps: evaluations of the equations or of their derivative.
        method: the solver's name.
        reason: why it was taken.
        error: the largest difference, over a few points, from an independent second route; None
            where there is none.
        second: that route's name.
    """

    value: NDArray[np.complex128]
    residual: NDArray[np.float64]
    converged: NDArray[np.bool_]
    sweeps: NDArray[np.int64]
    method: str
    reason: str
    error: float | None = None
    second: str | None = None

    def __str__(self) -> str:
        lines = [f"method: {self.method}", f"why: {self.reason}"]
        lines.append(
            f"points: {self.value.size}, converged {int(self.converged.sum())}, "
            f"largest residual {self.residual.max(initial=0):.1e}, "
            f"{self.sweeps.mean() if self.sweeps.size else 0:.1f} sweeps a point"
        )
        if self.error is not None:
            lines.append(f"error: {self.error:.1e} against {self.second}")
        return "\n".join(lines)


def _warn_of_failures(solution: Solution, where: NDArray) -> None:
    failed = np.flatnonzero(~solution.converged.ravel())
    if not failed.size:
        return
    shown = ", ".join(f"{where.ravel()[i]:.6g} [{i}]" for i in failed[:5])
    more = f" and {failed.size - 5} more" if failed.size > 5 else ""
    warnings.warn(
        f"{failed.size} of {solution.converged.size} points did not converge and are nan: "
        f"{shown}{more}",
        ConvergenceWarning,
        stacklevel=3,
    )


def solve_chain(
    layers: Layers,
    w: NDArray[np.complex128],
    *,
    iteration: str = "newton",
    tolerance: float = 0.0,
    max_sweeps: int = 20000,
    chunk: int = 25,
    start: NDArray[np.complex128] | None = None,
    wanted: Sequence[str] = (),
    progress: Progress | None = None,
) -> dict[str, NDArray]:
    """The exact block chain at points w with w² = z; see `jpmhc.spectra.chain`."""
    return layers.chain.solve(
        np.ascontiguousarray(w.ravel()),
        start,
        iteration,
        tolerance,
        max_sweeps,
        chunk,
        list(wanted),
        progress,
    )


def solve(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    method: str = "auto",
    check: bool = False,
    progress: Progress | None = None,
) -> Solution:
    """G(z) of the layers with everything that is known about its accuracy.

    Arguments and errors are those of `greens_function`; `check` asks for the error estimate.
    """
    layers = Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    if method not in ("auto", "chain"):
        raise ConfigError("method", expected="auto or chain", given=repr(method))
    w = np.sqrt(z)
    found = solve_chain(layers, w, progress=progress)
    value = np.where(found["converged"], found["value"], np.nan).reshape(z.shape) / w
    return Solution(
        value,
        found["residual"].reshape(z.shape),
        found["converged"].reshape(z.shape),
        found["sweeps"].reshape(z.shape),
        "chain",
        "exact for any mixers",
    )


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
        method: "auto" or a solver by name.
        explain: print which solver was taken, why, and how far a second route is from it.
        progress: called as progress(done, total) about ten times a second.

    Returns:
        complex128 of z's shape; NaN, with a `ConvergenceWarning`, where it did not converge.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; a z outside the upper half plane; an
            unknown method.
    """
    z = upper_half_plane(z)
    solution = solve(mixers, sigma2, z, method=method, check=explain, progress=progress)
    if explain:
        print(solution)
    _warn_of_failures(solution, z)
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
    s = points(s, "s", dtype=np.float64)
    if (s < 0).any():
        raise ConfigError("s", expected="singular values ≥ 0", given=float(s.min()))
    try:
        eta = float(eta)
    except (TypeError, ValueError):
        raise ConfigError("eta", expected="a number > 0", given=repr(eta)) from None
    if not (np.isfinite(eta) and eta > 0):
        raise ConfigError("eta", expected="a number > 0", given=eta)
    w = s + 1j * eta
    # At s = 0 the square lies on the negative axis; its neighbour above has the same density.
    z = w**2
    z = np.where(z.imag > 0, z, z.real + 1j * np.finfo(float).tiny)
    solution = solve(mixers, sigma2, z, method=method, check=explain, progress=progress)
    if explain:
        print(solution)
    _warn_of_failures(solution, s)
    return -2 / np.pi * (w * solution.value).imag
