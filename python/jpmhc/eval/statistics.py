# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How sure a result is: bootstrap intervals, and tests of paired runs.

Two models are compared on paired seeds: run k of both has the same seed, so that data order and
what else is random agree, and the differences of the pairs are looked at.

Random numbers are addressed by a seed: equal inputs give equal intervals and p-values.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc.data import philox
from jpmhc.data.checks import MOST, fraction, one_of, whole
from jpmhc.errors import DataError

__all__ = [
    "FEW_SEEDS",
    "Comparison",
    "Interval",
    "bootstrap",
    "compare",
    "paired_seeds",
    "permutation_test",
    "sign_test",
]

FEW_SEEDS = 3  # fewer seeds than this are said in titles

_STREAM_SEEDS, _STREAM_BOOTSTRAP, _STREAM_SIGNS = 20, 21, 22
_EXACT_UP_TO = 16  # pairs whose 2^n signs are all tried
_MOST_AT_ONCE = 2**22  # random numbers held at once
_METHODS = ("bca", "percentile")
_NORMAL = statistics.NormalDist()

Statistic = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Interval:
    """An estimate with a confidence interval.

    Attributes:
        estimate: the statistic of the values.
        low, high: ends of the interval; both are the estimate where there is one value alone.
        n: how many values.
        confidence: such as 0.95.
        method: "bca" or "percentile".
    """

    estimate: float
    low: float
    high: float
    n: int
    confidence: float
    method: str

    @property
    def half_width(self) -> float:
        """Half of high - low."""
        return (self.high - self.low) / 2


def mean(samples: np.ndarray) -> np.ndarray:
    """The mean along the last axis."""
    return samples.mean(axis=-1)


def bootstrap(
    values: Sequence[float] | np.ndarray,
    statistic: Statistic = mean,
    *,
    confidence: float = 0.95,
    method: str = "bca",
    resamples: int = 10_000,
    seed: int = 0,
) -> Interval:
    """The bootstrap interval of a statistic.

    "percentile" takes quantiles of the statistic over resamples; "bca" (Efron 1987) corrects
    them for bias, z0, and for acceleration, a: with z = Phi^-1(quantile) it takes the quantiles
    Phi(z0 + (z0 + z) / (1 - a (z0 + z))), with z0 = Phi^-1 of the part of the resamples below
    the estimate (half of those equal to it) and a from the jackknife.

    Args:
        values: [n].
        statistic: takes [..., n], gives [...].
        confidence: in (0, 1).
        method: "bca" or "percentile".
        resamples: how many, 100..2**24.
        seed: of the resamples.

    Raises:
        DataError: no value, or one that is not finite.
        ConfigError: an option out of range.
    """
    values = _checked(values)
    one_of("method", method, _METHODS)
    confidence = fraction("confidence", confidence, ends=False)
    resamples = whole("resamples", resamples, 100, MOST)
    n, estimate = len(values), float(statistic(values))
    if n == 1:
        return Interval(estimate, estimate, estimate, 1, confidence, method)
    found = np.sort(_resampled(values, statistic, resamples, seed))
    quantiles = np.array([(1 - confidence) / 2, (1 + confidence) / 2])
    if method == "bca":
        quantiles = _bca_quantiles(quantiles, found, estimate, values, statistic)
    low, high = np.quantile(found, quantiles)
    return Interval(estimate, float(low), float(high), n, confidence, method)


def _resampled(values: np.ndarray, statistic: Statistic, resamples: int, seed: int) -> np.ndarray:
    n, found = len(values), []
    at_once = max(1, _MOST_AT_ONCE // n)
    for part, first in enumerate(range(0, resamples, at_once)):
        count = min(at_once, resamples - first)
        words = philox.words(seed, _STREAM_BOOTSTRAP, (part,), count * n)
        found.append(statistic(values[philox.below(words, n).reshape(count, n)]))
    return np.concatenate(found)


def _bca_quantiles(
    quantiles: np.ndarray,
    found: np.ndarray,
    estimate: float,
    values: np.ndarray,
    statistic: Statistic,
) -> np.ndarray:
    below = (np.sum(found < estimate) + np.sum(found <= estimate)) / 2
    # Of extreme parts the half of a resample keeps the bias finite.
    bias = _NORMAL.inv_cdf(min(max(below, 0.5), len(found) - 0.5) / len(found))
    n = len(values)
    left_out = np.array([statistic(np.delete(values, k)) for k in range(n)])
    spread = left_out.mean() - left_out
    scale = 6 * np.sum(spread**2) ** 1.5
    acceleration = float(np.sum(spread**3) / scale) if scale > 0 else 0.0

    def corrected(quantile: float) -> float:
        z = bias + _NORMAL.inv_cdf(quantile)
        scale = 1 - acceleration * z
        return _NORMAL.cdf(bias + z / scale) if scale > 0 else float(z > 0)

    return np.array([corrected(quantile) for quantile in quantiles])


def sign_test(a: Sequence[float], b: Sequence[float]) -> float:
    """The exact two-sided p-value that a is above b as often as below; ties are left out.

    Raises:
        DataError: the two differ in length, or a value is not finite.
    """
    differences = _differences(a, b)
    above, below = int((differences > 0).sum()), int((differences < 0).sum())
    n, fewer = above + below, min(above, below)
    tail = sum(math.comb(n, k) for k in range(fewer + 1))
    return min(1.0, 2 * tail / 2**n)  # integers until here: exact for any n


def permutation_test(
    a: Sequence[float], b: Sequence[float], *, resamples: int = 100_000, seed: int = 0
) -> float:
    """The two-sided p-value of the mean difference of pairs whose members could change places.

    All 2^n changes are tried for n <= 16 pairs; for more, random ones, of which the pairs as they
    are count as one, so that p is never 0.

    Raises:
        DataError: the two differ in length, or a value is not finite.
        ConfigError: resamples below 100.
    """
    resamples = whole("resamples", resamples, 100, MOST)
    differences = _differences(a, b)
    n = len(differences)
    observed = abs(differences.sum())
    # Sums that are equal but for rounding count as equal.
    limit = observed - 1e-12 * np.abs(differences).sum()
    if n <= _EXACT_UP_TO:
        signs = 1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return float(np.mean(np.abs(signs @ differences) >= limit))
    extreme, at_once = 0, max(1, _MOST_AT_ONCE // n)
    for part, first in enumerate(range(0, resamples, at_once)):
        count = min(at_once, resamples - first)
        words = philox.words(seed, _STREAM_SIGNS, (part,), count * n)
        signs = 1 - 2 * (words >> np.uint64(63)).astype(np.int64).reshape(count, n)
        extreme += int(np.sum(np.abs(signs @ differences) >= limit))
    return (1 + extreme) / (1 + resamples)


def paired_seeds(count: int, base: int = 0) -> list[int]:
    """Different seeds below 2**32 for runs of every model that is compared.

    Raises:
        ConfigError: `count` is negative, or `base` is no seed.
    """
    count = whole("number of seeds", count, 0, MOST)
    found: dict[int, None] = {}
    drawn = count
    while len(found) < count:
        words = philox.words(base, _STREAM_SEEDS, (), drawn) >> np.uint64(32)
        found = dict.fromkeys(words.tolist())
        drawn += 1
    return list(found)[:count]


@dataclass(frozen=True)
class Comparison:
    """Two models on the same seeds.

    Attributes:
        a, b: their names.
        seeds: those that both ran.
        difference: of the means, a - b, with its interval.
        sign_p, permutation_p: two-sided p-values.
    """

    a: str
    b: str
    seeds: tuple[int, ...]
    difference: Interval
    sign_p: float
    permutation_p: float

    @property
    def title(self) -> str:
        """What is compared, on how many seeds; fewer than 3 are said."""
        return f"{self.a} against {self.b}, {count_text([len(self.seeds)], 'seeds')}"

    def __str__(self) -> str:
        d = self.difference
        return (
            f"{self.title}: difference {d.estimate:+.4g}, "
            f"{_percent(d.confidence)} interval [{d.low:+.4g}, {d.high:+.4g}], "
            f"sign test p = {self.sign_p:.3g}, permutation test p = {self.permutation_p:.3g}"
        )


def compare(
    a: tuple[str, Mapping[int, float]],
    b: tuple[str, Mapping[int, float]],
    *,
    confidence: float = 0.95,
    method: str = "bca",
    seed: int = 0,
) -> Comparison:
    """Compares two models, each given as its name and its score for each seed.

    Raises:
        DataError: no seed, a seed that only one of them ran, or a score that is not finite.
        ConfigError: as `bootstrap`.
    """
    (name_a, scores_a), (name_b, scores_b) = a, b
    if unpaired := sorted(set(scores_a) ^ set(scores_b)):
        owner = name_a if unpaired[0] in scores_a else name_b
        given = f"seed {unpaired[0]} of {owner} alone"
        raise DataError("unpaired runs", expected="equal seeds", given=given)
    seeds = tuple(sorted(scores_a))
    first, second = ([scores[s] for s in seeds] for scores in (scores_a, scores_b))
    return Comparison(
        name_a,
        name_b,
        seeds,
        bootstrap(_differences(first, second), confidence=confidence, method=method, seed=seed),
        sign_test(first, second),
        permutation_test(first, second, seed=seed),
    )


def count_text(counts: Iterable[int], unit: str) -> str:
    """How many values there were, such as `n = 2 to 5 seeds`; fewer than 3 seeds are said."""
    counts = sorted(set(counts))
    n = str(counts[0]) if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    few = unit == "seeds" and counts[0] < FEW_SEEDS
    return f"n = {n} {unit}" + ("; fewer than 3 seeds" if few else "")


def interval_text(intervals: Sequence[Interval], unit: str) -> str:
    """What intervals made in the same way are, such as `95 % BCa bootstrap interval, n = 5 seeds`.

    Args:
        intervals: at least one.
        unit: what a value was got for: "seeds", or such as "instances".
    """
    first = intervals[0]
    kind = {"bca": "BCa", "percentile": "percentile"}[first.method]
    counts = count_text((interval.n for interval in intervals), unit)
    return f"{_percent(first.confidence)} {kind} bootstrap interval, {counts}"


def _percent(confidence: float) -> str:
    return f"{100 * confidence:g} %"


def _checked(values: Sequence[float] | np.ndarray) -> np.ndarray:
    try:
        values = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError("bad values", expected="numbers", given=error) from error
    if values.ndim != 1 or not len(values):
        raise DataError("bad values", expected="a list of at least 1", given=list(values.shape))
    wrong = np.flatnonzero(~np.isfinite(values))
    if wrong.size:
        given = f"{values[wrong[0]]} at {wrong[0]}"
        raise DataError("bad values", expected="finite ones", given=given)
    return values


def _differences(a: Sequence[float], b: Sequence[float]) -> np.ndarray:
    first, second = _checked(a), _checked(b)
    if len(first) != len(second):
        given = f"{len(first)} and {len(second)}"
        raise DataError("bad pairs", expected="as many of both", given=given)
    return first - second
