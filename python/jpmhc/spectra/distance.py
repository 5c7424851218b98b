# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far a theory's singular values are from sampled ones.

The 1-Wasserstein distance ``W₁ = ∫ |F(s) - F̂(s)| ds`` between distribution functions of singular
values, from 0 up. Both are smoothed by the same Cauchy kernel, the theory by its η: a density
computed at s + iη is the convolution with it. JPmHC's own recipe (algorithm 12) compares squares,
smooths one side only, starts at 0.01 and renormalises, which drops the mass near 0, so that a wrong
method can look better than the exact one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError, ShapeError
from jpmhc.spectra.operators import integer

__all__ = ["Distance", "density_distance", "sample_distance", "smoothed_cdf", "smoothing_grid"]

_RESAMPLES = 200
_LEVEL = 0.95
_POINTS_PER_WIDTH = 2  # grid points within η: the trapezoid then errs by exp(-4π) at most


@dataclass(frozen=True)
class Distance:
    """W₁ with a bootstrap interval over samples.

    Attributes:
        w1: the distance.
        low, high: 95 % percentile interval. Resampling adds noise of its own, so that where
            there is no difference the interval lies above w1.

    All three are NaN where the theory is so somewhere.
    """

    w1: float
    low: float
    high: float


def smoothing_grid(largest: float, eta: float) -> np.ndarray:
    """Equally spaced singular values from 0 to past `largest`, two within η.

    Raises:
        ConfigError: η is not positive, or so small that there would be over 10⁶ points.
    """
    if not (np.isfinite(eta) and eta > 0):
        raise ConfigError("eta", expected="a finite number > 0", given=eta)
    end = 1.25 * largest + 0.05
    points = int(np.ceil(_POINTS_PER_WIDTH * end / eta)) + 1
    if points > 1_000_000:
        raise ConfigError("eta", expected=f"at least {2 * end / 1e6:.1e}", given=eta)
    return np.arange(points) * (eta / _POINTS_PER_WIDTH)


def smoothed_cdf(values: np.ndarray, grid: np.ndarray, eta: float) -> np.ndarray:
    """Smoothed distribution function of each sample: [samples, N] on the grid [G] to [samples, G].

    ``F(s) = (1/N) Σ_i (atan((s - s_i)/η) + atan((s + s_i)/η)) / π``: mass and its mirror image,
    as for -(2/π) Im w G(w²) at w = s + iη. The values are put on the grid, each shared by its two
    neighbours, and the sum is a convolution.
    """
    values = np.atleast_2d(values)
    step = grid[1] - grid[0]
    reach = max(len(grid) - 1, int(np.ceil(values.max() / step)) + 1)
    masses = np.stack([_masses(row / step, reach) for row in values])
    mirrored = np.concatenate([masses[:, :0:-1], masses], 1)  # places -reach … reach
    offsets = np.arange(-2 * reach, 2 * reach + 1)
    kernel = np.arctan(offsets * (step / eta)) / np.pi
    size = 1 << (len(kernel) + mirrored.shape[1] - 1).bit_length()
    spectrum = np.fft.rfft(kernel, size)
    result = np.empty((len(values), len(grid)))
    for row in range(len(values)):
        whole = np.fft.irfft(np.fft.rfft(mirrored[row], size) * spectrum, size)
        result[row] = whole[3 * reach : 3 * reach + len(grid)]
    return result


def _masses(places: np.ndarray, reach: int) -> np.ndarray:
    """Shares of values at (fractional) places 0 … reach; the mass at 0 is halved for its mirror."""
    left = np.floor(places).astype(np.int64)
    right = places - left
    count = len(places)
    masses = np.bincount(left, (1 - right) / count, reach + 2)
    masses += np.bincount(left + 1, right / count, reach + 2)
    # Mirroring repeats every place but 0: what lies there belongs to both halves already.
    masses[0] *= 2
    return masses[: reach + 1]


def density_distance(
    density: Callable[[np.ndarray, float], np.ndarray],
    values: np.ndarray,
    eta: float,
    *,
    seed: int = 0,
    resamples: int = _RESAMPLES,
) -> Distance:
    """W₁ between a theory and samples.

    Args:
        density: called with singular values [G] ≥ 0 and η, gives the smoothed density [G].
        values: sampled singular values [samples, N].
        eta: width of the smoothing.
        seed: of the bootstrap, which draws whole samples: the values of one repel each other.
        resamples: of the bootstrap.

    Raises:
        ConfigError, ShapeError: η or the values do not fit.
    """
    values = _checked_values(values)
    grid = smoothing_grid(float(values.max()), eta)
    theory = np.asarray(density(grid, eta), np.float64)
    if not np.isfinite(theory).all():
        return Distance(np.nan, np.nan, np.nan)
    steps = 0.5 * (theory[1:] + theory[:-1]) * np.diff(grid)
    return _distance(np.concatenate([[0.0], np.cumsum(steps)]), values, grid, eta, seed, resamples)


def sample_distance(
    first: np.ndarray,
    second: np.ndarray,
    eta: float,
    *,
    seed: int = 0,
    resamples: int = _RESAMPLES,
) -> Distance:
    """W₁ between two sets of samples, equally smoothed: the noise of the other distance.

    Raises:
        ConfigError, ShapeError: as `density_distance`.
    """
    first, second = _checked_values(first), _checked_values(second)
    grid = smoothing_grid(float(max(first.max(), second.max())), eta)
    reference = smoothed_cdf(second, grid, eta).mean(0)
    return _distance(reference, first, grid, eta, seed, resamples)


def _checked_values(values: Any) -> np.ndarray:
    values = np.asarray(values, np.float64)
    if values.ndim != 2 or not values.size:
        raise ShapeError("singular values", expected="[samples, N]", given=list(values.shape))
    if not np.isfinite(values).all() or (values < 0).any():
        raise ConfigError("singular values", expected="finite numbers ≥ 0", given=values.min())
    return values


def _distance(
    reference: np.ndarray,
    values: np.ndarray,
    grid: np.ndarray,
    eta: float,
    seed: int,
    resamples: int,
) -> Distance:
    resamples = integer("resamples", resamples, 2)
    single = smoothed_cdf(values, grid, eta)
    rng = np.random.Generator(np.random.Philox(key=[seed, 0]))
    count = len(single)
    weights = rng.multinomial(count, np.full(count, 1 / count), resamples) / count
    step = grid[1] - grid[0]

    def w1(cdf: np.ndarray) -> np.ndarray:
        gaps = np.abs(cdf - reference)
        return step * (gaps.sum(-1) - 0.5 * (gaps[..., 0] + gaps[..., -1]))

    spread = np.concatenate([w1(part @ single) for part in np.array_split(weights, 8)])
    low, high = np.quantile(spread, [(1 - _LEVEL) / 2, (1 + _LEVEL) / 2])
    return Distance(float(w1(single.mean(0))), float(low), float(high))
