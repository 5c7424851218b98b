# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers whose noise passes an activation: Y = A ⊗ I_p + σ D X with D = diag(φ′).

D is not noise of another variance: with φ = ReLU half of the rows of DX vanish, and the singular
values differ (by W₁ = 0.018 at A = I, L = 1, σ² = 0.05) from those of independent entries with
variance σ² E[φ′²]. The chain's equations change in one place: the self energy of b_k is
σ_k² t[v_{k−1}] D_k², which differs from row to row, and that of v_{k−1} is σ_k² (1/N) tr D_k² M_bb.
All else keeps the p fibres apart, so M is an average over a fibre's draws of D₁ ... D_L.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc.errors import ConfigError, ShapeError
from jpmhc.spectra.model import Layers, points, upper_half_plane
from jpmhc.spectra.solvers import Progress, warn_of_failures

__all__ = ["ActivatedSolution", "activated_greens_function"]

#: Draws of D that are enumerated; where there are more, fibres are sampled.
_ENUMERATED = 4096
_HISTORY = 5


@dataclass(frozen=True)
class ActivatedSolution:
    """G(z) of layers with an activation.

    Attributes:
        value: complex128, G(z); NaN where it did not converge.
        residual: relative, of the equations with the fibres that were taken.
        converged: whether the residual is below 1e-9.
        exact: whether all draws of D were enumerated; otherwise fibres were sampled.
        error: standard error of `value` from the sampling, from four independent quarters of the
            fibres; 0 where it is exact.
    """

    value: NDArray[np.complex128]
    residual: NDArray[np.float64]
    converged: NDArray[np.bool_]
    exact: bool
    error: NDArray[np.float64]


class _Fibres:
    """The map on 2L unknowns, averaged over fibres with weights."""

    def __init__(self, layers: Layers, squares: NDArray, weights: NDArray) -> None:
        self.layers = layers
        self.squares = squares  # [fibres, L, q], D²
        self.weights = weights

    def __call__(self, w: complex, t: NDArray) -> NDArray:
        layers, q = self.layers, self.layers.size
        depth, identity = layers.depth, np.eye(layers.size)
        fibres = len(self.weights)
        of_v = -layers.sigma2 * t[1::2]
        of_v[0] += w
        of_b = -(layers.sigma2 * t[0::2])[:, None] * self.squares  # [fibres, L, q]
        of_b[:, -1] += w
        x = [np.broadcast_to(identity / of_v[0], (fibres, q, q))]
        for k in range(1, depth):
            a = layers.mixers[k - 1]
            b = _diagonal(of_b[:, k - 1]) - a @ x[-1] @ a.T
            x.append(b @ np.linalg.inv(of_v[k] * b - identity))
        mapped = np.empty(2 * depth, complex)
        y = _diagonal(1 / of_b[:, -1])
        for k in range(depth - 1, -1, -1):
            a = layers.mixers[k]
            seen = a.T @ y @ a
            m = x[k] @ np.linalg.inv(identity - seen @ x[k])
            block = y + y @ a @ m @ a.T @ y
            mapped[2 * k] = self._mean(np.einsum("fii->f", m))
            mapped[2 * k + 1] = self._mean(np.einsum("fi,fii->f", self.squares[:, k], block))
            if k > 0:
                c = of_v[k] * identity - seen
                y = c @ np.linalg.inv(of_b[:, k - 1, :, None] * c - identity)
        return mapped

    def _mean(self, traces: NDArray) -> complex:
        return (self.weights @ traces) / self.layers.size

    def solve(self, w: complex, t: NDArray, sweeps: int, goal: float) -> tuple[NDArray, float]:
        """The fixed point by Anderson's acceleration of the damped iteration, from t."""
        steps: list[NDArray] = []
        changes: list[NDArray] = []
        last = None
        residual = np.inf
        for _ in range(sweeps):
            f = self(w, t) - t
            residual = float((np.abs(f) / (1 + np.abs(t))).max())
            if not residual > goal:
                break
            if last is not None:
                steps = [*steps, t - last[0]][-_HISTORY:]
                changes = [*changes, f - last[1]][-_HISTORY:]
            last = t, f
            damped = t + f / 2
            t = damped
            if steps:
                ds, df = np.stack(steps, 1), np.stack(changes, 1)
                mix = np.linalg.lstsq(df, f, rcond=None)[0]
                trial = damped - (ds + df / 2) @ mix
                if np.isfinite(trial).all() and (trial.imag < 0).all():
                    t = trial
                else:
                    steps, changes = [], []
        return t, residual


def _diagonal(values: NDArray) -> NDArray:
    return values[..., None] * np.eye(values.shape[-1])


def _draws(
    layers: Layers, values: NDArray, probabilities: NDArray, fibres: int, seed: int
) -> tuple[NDArray, NDArray, bool]:
    """D² of the fibres, their weights, and whether these are all there are."""
    count = layers.depth * layers.size
    shape = (-1, layers.depth, layers.size)
    if count * np.log(len(values)) <= np.log(_ENUMERATED):
        chosen = np.array(list(itertools.product(range(len(values)), repeat=count)))
        return (values**2)[chosen].reshape(shape), probabilities[chosen].prod(1), True
    generator = np.random.Generator(np.random.Philox(seed))
    chosen = generator.choice(len(values), p=probabilities, size=(fibres, count))
    return (values**2)[chosen].reshape(shape), np.full(fibres, 1 / fibres), False


def activated_greens_function(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    values: ArrayLike = (0.0, 1.0),
    probabilities: ArrayLike = (0.5, 0.5),
    fibres: int = 1024,
    seed: int = 0,
    progress: Progress | None = None,
) -> ActivatedSolution:
    """G(z) of J = Y_L ... Y_1 with Y_l = A_l ⊗ I_p + σ_l D_l X_l, D_l diagonal and random.

    Args:
        mixers: as for `greens_function`.
        sigma2: of the weights, before the activation: the rows of D_l X_l have variance σ_l² D²/N.
        z: points in the upper half plane, any shape, neighbours next to each other.
        values: what the entries of D_l are drawn from, independently; ReLU's slopes by default.
        probabilities: of the values.
        fibres: how many draws of D₁ ... D_L to average over where there are more than 4096, which
            are enumerated; a multiple of 4, ≥ 8.
        seed: of the draws (Philox).
        progress: called as progress(done, total) after each point.

    Raises:
        ShapeError, ConfigError, DTypeError: as `greens_function`; values and probabilities that do
            not fit or do not add up to 1.
    """
    layers = Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    values = points(values, "values", dtype=np.float64)
    probabilities = points(probabilities, "probabilities", dtype=np.float64)
    if values.ndim != 1 or values.shape != probabilities.shape or not values.size:
        raise ShapeError(
            "values, probabilities",
            expected="two vectors of one length",
            given=f"{values.shape}, {probabilities.shape}",
        )
    if (probabilities < 0).any() or abs(probabilities.sum() - 1) > 1e-12:
        raise ConfigError(
            "probabilities", expected="numbers ≥ 0 with sum 1", given=probabilities.tolist()
        )
    if fibres < 8 or fibres % 4:
        raise ConfigError("fibres", expected="a multiple of 4, ≥ 8", given=fibres)
    squares, weights, exact = _draws(layers, values, probabilities, fibres, seed)
    whole = _Fibres(layers, squares, weights)
    quarters = [] if exact else [_Fibres(layers, s, w * 4) for s, w in _split(squares, weights)]
    g = np.empty(z.size, complex)
    residual, error = np.empty(z.size), np.zeros(z.size)
    t = np.full(2 * layers.depth, -1j)
    for index, w in enumerate(np.sqrt(z.ravel())):
        t, residual[index] = _solve_point(whole, w, t)
        g[index] = t[0] / w
        parts = [_solve_point(part, w, t)[0][0] / w for part in quarters]
        if parts:
            error[index] = np.std(parts, ddof=1) / 2
        if progress:
            progress(index + 1, z.size)
    converged = residual < 1e-9
    g[~converged] = np.nan
    warn_of_failures(converged, z)
    shape = z.shape
    return ActivatedSolution(
        g.reshape(shape), residual.reshape(shape), converged.reshape(shape), exact,
        error.reshape(shape),
    )  # fmt: skip


def _split(squares: NDArray, weights: NDArray) -> list[tuple[NDArray, NDArray]]:
    return list(zip(np.split(squares, 4), np.split(weights, 4), strict=True))


def _solve_point(fibres: _Fibres, w: complex, t: NDArray) -> tuple[NDArray, float]:
    """From a neighbour's solution, else from far above the axis in steps."""
    found, residual = fibres.solve(w, t, 60, 1e-11)
    if residual < 1e-9:
        return found, residual
    t = np.full_like(t, -1j)
    for height in np.geomspace(max(1.0, w.imag), w.imag, 8):
        t, residual = fibres.solve(w.real + 1j * height, t, 400, 1e-11)
    return t, residual
