# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Which K permutations of n streams mix fastest (JPmHC, appendix C).

A set S of permutations makes a random walk on the group S_n: multiply by a member of S drawn at
random. Its transition matrix T, n! by n!, has the spectral gap ``|λ₁| - |λ₂|`` (algorithm 5), and
because T is not normal, also the singular gap ``1 - σ₂``, which a single step is bound by.

T is the sum of the irreducible representations of the group, each as often as its dimension, so
that its spectrum is that of a few small matrices (for n = 5 of 4×4 to 6×6 instead of 120×120):
Young's orthogonal form gives them. A set counts once for all sets that conjugation (renaming the
streams) and inversion (T becomes its transpose) make of it; neither changes a gap.
"""

from __future__ import annotations

import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError, ShapeError, shown

__all__ = ["GeneratingSets", "generating_sets", "spectral_gaps"]

MOST_STREAMS = 8
"""Beyond it the largest irreducible representation has more than 200 dimensions."""

TIE = 1e-7
"""Gaps nearer than this count as equal: T may be defective, which costs half the digits or more."""

_MOST_SUBSETS = 10_000_000
_ROWS_AT_ONCE = 1 << 18

Permutation = tuple[int, ...]


# The irreducible representations.


def _partitions(n: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    largest = n if largest is None else largest
    if n == 0:
        yield ()
    for first in range(min(n, largest), 0, -1):
        for rest in _partitions(n - first, first):
            yield (first, *rest)


def _tableaux(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Standard Young tableaux, each as the row of every entry."""
    n = sum(shape)
    found: list[tuple[int, ...]] = []

    def extend(rows: tuple[int, ...], filled: tuple[int, ...]) -> None:
        if len(rows) == n:
            found.append(rows)
            return
        for row, length in enumerate(shape):
            above = row == 0 or filled[row - 1] > filled[row]
            if filled[row] < length and above:
                grown = (*filled[:row], filled[row] + 1, *filled[row + 1 :])
                extend((*rows, row), grown)

    extend((), (0,) * len(shape))
    return found


def _contents(rows: tuple[int, ...]) -> list[int]:
    """Column minus row of each entry of a tableau."""
    filled: dict[int, int] = {}
    contents = []
    for row in rows:
        contents.append(filled.get(row, 0) - row)
        filled[row] = filled.get(row, 0) + 1
    return contents


@functools.cache
def _transpositions(n: int) -> list[np.ndarray]:
    """For each irreducible representation but the trivial one, the matrices [n - 1, d, d] of the
    adjacent transpositions in Young's orthogonal form."""
    result = []
    for shape in _partitions(n):
        if len(shape) == 1:
            continue
        tableaux = _tableaux(shape)
        place = {rows: k for k, rows in enumerate(tableaux)}
        matrices = np.zeros((n - 1, len(tableaux), len(tableaux)))
        for k, rows in enumerate(tableaux):
            contents = _contents(rows)
            for i in range(n - 1):
                inverse = 1 / (contents[i + 1] - contents[i])
                matrices[i, k, k] = inverse
                swapped = (*rows[:i], rows[i + 1], rows[i], *rows[i + 2 :])
                if swapped != rows and swapped in place:
                    matrices[i, k, place[swapped]] = math.sqrt(1 - inverse * inverse)
        result.append(matrices)
    return result


@functools.lru_cache(maxsize=4096)
def _represent(order: Permutation) -> list[np.ndarray]:
    """The matrix of a permutation in each representation of `_transpositions`."""
    sequence, word = list(order), []
    for end in range(len(sequence) - 1, 0, -1):
        for i in range(end):
            if sequence[i] > sequence[i + 1]:
                sequence[i], sequence[i + 1] = sequence[i + 1], sequence[i]
                word.append(i)
    matrices = []
    for generators in _transpositions(len(order)):
        product = np.eye(generators.shape[1])
        for i in word:
            product = product @ generators[i]
        matrices.append(product)
    return matrices


def _gaps_of_means(means: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Spectral and singular gap [...] of walks whose means [..., d, d] are given."""
    eigenvalue = functools.reduce(
        np.maximum, (np.abs(np.linalg.eigvals(mean)).max(-1) for mean in means)
    )
    singular = functools.reduce(
        np.maximum, (np.linalg.svd(mean, compute_uv=False)[..., 0] for mean in means)
    )
    return np.maximum(1 - eigenvalue, 0.0), np.maximum(1 - singular, 0.0)


def spectral_gaps(basis: Sequence[Sequence[int]]) -> tuple[float, float]:
    """Both gaps of the walk that a set of permutations makes.

    Args:
        basis: permutations of 0 … n-1, 2 ≤ n ≤ 8, as the permutation manifold takes them:
            ``(P x)_i = x[perm[i]]``.

    Returns:
        (|λ₁| - |λ₂|, 1 - σ₂) of T = (1/K) Σ R(s). Both are 0 where the set does not generate the
        group; the first one is also 0 where all its permutations are odd.

    Raises:
        ShapeError, ConfigError: it is no set of permutations of one size.
    """
    orders = _checked_basis(basis)
    by_representation = zip(*(_represent(order) for order in orders), strict=True)
    means = [np.mean(matrices, axis=0) for matrices in by_representation]
    spectral, singular = _gaps_of_means(means)
    return float(spectral), float(singular)


def _checked_basis(basis: Sequence[Sequence[int]]) -> list[Permutation]:
    orders = [tuple(int(i) for i in order) for order in basis]
    if not orders:
        raise ShapeError("basis", expected="at least one permutation", given="none")
    n = len(orders[0])
    _check_streams(n)
    for order in orders:
        if sorted(order) != list(range(n)):
            raise ConfigError("basis", expected=f"permutations of 0..{n - 1}", given=order)
    if len(set(orders)) != len(orders):
        raise ConfigError("basis", expected="each permutation once", given=orders)
    return orders


def _check_streams(n: Any) -> None:
    whole = isinstance(n, (int, np.integer)) and not isinstance(n, bool)
    if not whole or not 2 <= n <= MOST_STREAMS:
        raise ConfigError("n", expected=f"an integer 2..{MOST_STREAMS}", given=n)


# The result.


@dataclass(frozen=True)
class GeneratingSets:
    """What a search found.

    Attributes:
        n: streams.
        count: K, permutations in a set.
        method: "exhaustive" or "annealing".
        gap: the largest spectral gap |λ₁| - |λ₂| found; that of all sets if exhaustive.
        singular_gap: 1 - σ₂ of `best`, the largest among the sets that tie in `gap`.
        best: a set of the largest gap; of those the one of the largest singular gap, then the
            first in lexicographic order.
        ties: number of sets of the largest gap (within 1e-7), where exhaustive; None otherwise.
        representatives: one set for each class of those under conjugation and inversion.
        largest_singular_gap: the largest 1 - σ₂ of any generating set, where exhaustive.
        record: what was searched: counts, seed, time.
    """

    n: int
    count: int
    method: str
    gap: float
    singular_gap: float
    best: tuple[Permutation, ...]
    ties: int | None
    representatives: tuple[tuple[Permutation, ...], ...]
    largest_singular_gap: float | None
    record: dict[str, Any] = field(default_factory=dict)

    @property
    def basis(self) -> list[list[int]]:
        """The best set as the permutation manifold's parameter `basis`."""
        return [list(order) for order in self.best]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "n": self.n,
            "count": self.count,
            "method": self.method,
            "gap": self.gap,
            "singular_gap": self.singular_gap,
            "basis": self.basis,
            "ties": self.ties,
            "representatives": [[list(o) for o in s] for s in self.representatives],
            "largest_singular_gap": self.largest_singular_gap,
            "record": self.record,
        }


def generating_sets(
    n: int,
    count: int,
    *,
    method: str = "auto",
    seed: int = 0,
    proposals: int = 4000,
    restarts: int = 4,
    progress: Callable[[int, int], None] | None = None,
) -> GeneratingSets:
    """Search for `count` permutations of `n` streams with the largest spectral gap.

    Args:
        n: 2 … 8.
        count: K, 2 … n!.
        method: "exhaustive" looks at every set, up to symmetry (at most 10⁷ sets: n ≤ 4, and
            n = 5 up to K = 4); "annealing" improves sets at random; "auto" takes the former
            where it can.
        seed: of the annealing.
        proposals: sets that each restart of the annealing looks at.
        restarts: independent starts.
        progress: called with what is done and the whole, now and then.

    Raises:
        ConfigError: a number is out of range, or there are too many sets for "exhaustive".
    """
    _check_streams(n)
    order = math.factorial(n)
    for name, value, least, most in (
        ("count", count, 2, order),
        ("seed", seed, 0, 2**63),
        ("proposals", proposals, 1, 10**9),
        ("restarts", restarts, 1, 10**6),
    ):
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or not least <= value <= most:
            raise ConfigError(name, expected=f"an integer {least}..{most}", given=value)
    if method not in ("auto", "exhaustive", "annealing"):
        expected = "auto, exhaustive or annealing"
        raise ConfigError("method of the search", expected=expected, given=shown(method))
    subsets = math.comb(order, count)
    feasible = subsets <= _MOST_SUBSETS and count * math.log2(order) < 63
    if method == "exhaustive" and not feasible:
        expected = f"at most {_MOST_SUBSETS} sets of an exhaustive search"
        raise ConfigError("too many sets", expected=expected, given=subsets, hint="use annealing")
    if method != "annealing" and feasible:
        return _exhaustive(n, count, progress)
    return _annealing(n, count, seed, proposals, restarts, progress)


# Exhaustive search.


class _Group:
    """S_n as tables over the numbers of its elements, which are in lexicographic order."""

    def __init__(self, n: int) -> None:
        self.elements: list[Permutation] = list(itertools.permutations(range(n)))
        array = np.array(self.elements)
        weights = n ** np.arange(n)
        self._codes = array @ weights
        self._sorted = np.argsort(self._codes)
        self._weights = weights
        self.order = len(self.elements)
        # product[a, b] = number of a∘b, (a∘b)(k) = a(b(k)).
        self.product = self._number(array[:, array])
        self.inverse = self._number(np.argsort(array, axis=1))
        # Every conjugation, without and with an inversion first: the images of each element.
        conjugated = self.product[self.product, self.inverse[:, None]]
        images = np.concatenate([conjugated, conjugated[:, self.inverse]])
        self.images = images.astype(np.uint8)  # n ≤ 5: at most 120 elements
        signs = np.array([_is_odd(order) for order in self.elements])
        self.is_odd = signs

    def _number(self, orders: np.ndarray) -> np.ndarray:
        codes = orders @ self._weights
        return self._sorted[np.searchsorted(self._codes, codes, sorter=self._sorted)]

    def generates(self, sets: np.ndarray) -> np.ndarray:
        """Whether each set [B, K] of elements generates the whole group."""
        reached = np.zeros((len(sets), self.order), bool)
        reached[:, 0] = True  # the identity
        before = self.product[:, self.inverse].T  # before[s, h] = number of h∘s⁻¹
        while True:
            grown = reached.copy()
            for column in range(sets.shape[1]):
                grown |= np.take_along_axis(grown, before[sets[:, column]], 1)
            if (grown == reached).all():
                return grown.all(1)
            reached = grown


def _is_odd(order: Permutation) -> bool:
    return bool(sum(a > b for a, b in itertools.combinations(order, 2)) % 2)


def _classes(
    group: _Group, size: int, progress: Callable[[int, int], None] | None
) -> tuple[np.ndarray, np.ndarray]:
    """A set of each class under conjugation and inversion [C, size], and the classes' sizes [C].

    Sets of k elements come of the classes of k - 1 by adding any element: every set has a subset
    in some class, and a symmetry takes it there.
    """
    sets = np.zeros((1, 0), np.int64)
    for k in range(1, size + 1):
        found = []
        rows = max(1, _ROWS_AT_ONCE // (group.order * k))
        for start in range(0, len(sets), rows):
            grown = _grow(sets[start : start + rows], group.order)
            found.append(np.unique(_canonical(group, grown)))
            if progress and k == size:
                progress(min(start + rows, len(sets)), len(sets))
        sets = _decode(np.unique(np.concatenate(found)), group.order, k)
    return sets, _class_sizes(group, sets)


def _grow(sets: np.ndarray, order: int) -> np.ndarray:
    """All sets with one more element: [B, k] to [at most B n!, k + 1]."""
    added = np.broadcast_to(np.arange(order)[None, :, None], (len(sets), order, 1))
    kept = np.broadcast_to(sets[:, None, :], (len(sets), order, sets.shape[1]))
    grown = np.concatenate([kept, added], 2).reshape(-1, sets.shape[1] + 1)
    return grown[(grown[:, :-1] != grown[:, -1:]).all(1)]


def _encode(sets: np.ndarray, order: int) -> np.ndarray:
    """Ascending elements as one number, so that the order of numbers is lexicographic."""
    codes = np.zeros(sets.shape[:-1], np.int64)
    for column in range(sets.shape[-1]):
        codes = codes * order + sets[..., column]
    return codes


def _decode(codes: np.ndarray, order: int, size: int) -> np.ndarray:
    return np.stack([codes // order**k % order for k in range(size - 1, -1, -1)], 1)


def _canonical(group: _Group, sets: np.ndarray) -> np.ndarray:
    """The code of the first set of the class of each.

    It begins with the least element that a symmetry makes of any member; only the few symmetries
    that do so need to be looked at further.
    """
    columns = np.ascontiguousarray(sets.T, np.uint8)  # long rows: NumPy reduces them fast
    begin = group.images.min(0)[columns].min(0)
    least = np.full(len(sets), np.iinfo(np.int64).max)
    for images in group.images:
        moved = images[columns]
        rows = np.flatnonzero(moved.min(0) == begin)
        codes = _encode(np.sort(moved[:, rows].T, 1), group.order)
        least[rows] = np.minimum(least[rows], codes)
    return least


def _class_sizes(group: _Group, sets: np.ndarray) -> np.ndarray:
    """Number of the group's symmetries over those that keep the set."""
    columns = np.ascontiguousarray(np.sort(sets, 1).T, np.uint8)
    fixed = np.zeros(len(sets), np.int64)
    for images in group.images:
        moved = images[columns]
        rows = np.flatnonzero(moved.min(0) == columns[0])
        fixed[rows] += (np.sort(moved[:, rows], 0) == columns[:, rows]).all(0)
    return len(group.images) // fixed


def _exhaustive(n: int, count: int, progress: Callable[[int, int], None] | None) -> GeneratingSets:
    began = time.monotonic()
    group = _Group(n)
    sets, sizes = _classes(group, count, progress)
    spectral, singular = _gaps_of_sets(group, sets)
    # A gap says that no other eigenvalue is 1: the walk reaches the whole group.
    generating = spectral > TIE
    generating[~generating] = group.generates(sets[~generating])
    odd = group.is_odd[sets].all(1)
    subsets = math.comb(group.order, count)
    record = {
        "subsets": subsets,
        "classes": len(sets),
        "subsets_in_classes": int(sizes.sum()),
        "generating": int(sizes[generating].sum()),
        "generating_all_odd": int(sizes[generating & odd].sum()),
        "generating_without_gap": int(sizes[generating & (spectral < TIE)].sum()),
        "symmetries": "conjugation and inversion",
        "seconds": time.monotonic() - began,
    }
    if not generating.any():
        raise ConfigError(
            f"no {count} permutations of {n} generate the group", expected="a larger count"
        )
    spectral = np.where(generating, spectral, -1.0)
    singular = np.where(generating, singular, -1.0)
    tied = np.flatnonzero(spectral > spectral.max() - TIE)
    # argsort is stable: of equal singular gaps the first set in lexicographic order.
    tied = tied[np.argsort(-np.round(singular[tied], 9), kind="stable")]
    chosen = [tuple(group.elements[i] for i in sets[k]) for k in tied]
    return GeneratingSets(
        n,
        count,
        "exhaustive",
        float(spectral.max()),
        float(singular[tied[0]]),
        chosen[0],
        int(sizes[tied].sum()),
        tuple(chosen),
        float(singular.max()),
        record,
    )


def _gaps_of_sets(group: _Group, sets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    tables = [np.stack(m) for m in zip(*map(_represent, group.elements), strict=True)]
    spectral, singular = np.empty(len(sets)), np.empty(len(sets))
    for start in range(0, len(sets), 4096):
        part = slice(start, start + 4096)
        means = [table[sets[part]].mean(1) for table in tables]
        spectral[part], singular[part] = _gaps_of_means(means)
    return spectral, singular


# Annealing.


def _annealing(
    n: int,
    count: int,
    seed: int,
    proposals: int,
    restarts: int,
    progress: Callable[[int, int], None] | None,
) -> GeneratingSets:
    began = time.monotonic()
    best: tuple[float, float, tuple[Permutation, ...]] | None = None
    gaps = []
    for restart in range(restarts):
        rng = np.random.default_rng([seed, restart])
        found = _anneal(n, count, proposals, rng, _reporting(progress, restart, restarts))
        gaps.append(found[0])
        better = best is None or found[0] > best[0] + TIE
        tied = best is not None and abs(found[0] - best[0]) <= TIE
        if better or (tied and (-found[1], found[2]) < (-best[1], best[2])):
            best = found
    if best[0] <= TIE:
        raise ConfigError(
            f"annealing found no {count} permutations of {n} with a gap",
            expected="more proposals or a larger count",
            given=f"{restarts} restarts of {proposals}",
        )
    record = {
        "subsets": math.comb(math.factorial(n), count),
        "evaluated": restarts * (proposals + 1),
        "seed": seed,
        "restarts": restarts,
        "proposals": proposals,
        "schedule": f"temperature {_HOT} falling geometrically to {_COLD}",
        "gap_of_each_restart": gaps,
        "seconds": time.monotonic() - began,
    }
    return GeneratingSets(
        n, count, "annealing", best[0], best[1], best[2], None, (best[2],), None, record
    )


_HOT, _COLD = 0.05, 2e-4  # temperatures in units of the gap


def _reporting(
    progress: Callable[[int, int], None] | None, restart: int, restarts: int
) -> Callable[[int, int], None]:
    def report(done: int, total: int) -> None:
        if progress:
            progress(restart * total + done, restarts * total)

    return report


def _anneal(
    n: int,
    count: int,
    proposals: int,
    rng: np.random.Generator,
    report: Callable[[int, int], None],
) -> tuple[float, float, tuple[Permutation, ...]]:
    """Gaps and set of the best of one restart."""
    current = _random_set(n, count, rng)
    value = spectral_gaps(current)
    best = (*value, tuple(sorted(current)))
    for step in range(proposals):
        temperature = _HOT * (_COLD / _HOT) ** (step / proposals)
        proposed = _neighbour(current, n, rng)
        new = spectral_gaps(proposed)
        if new[0] >= value[0] or rng.random() < math.exp((new[0] - value[0]) / temperature):
            current, value = proposed, new
            if (value[0], value[1]) > best[:2]:
                best = (*value, tuple(sorted(current)))
        if step % 64 == 63 or step + 1 == proposals:
            report(step + 1, proposals)
    return best


def _random_set(n: int, count: int, rng: np.random.Generator) -> list[Permutation]:
    chosen: dict[Permutation, None] = {}
    while len(chosen) < count:
        chosen[tuple(rng.permutation(n).tolist())] = None
    return list(chosen)


def _neighbour(
    current: Sequence[Permutation], n: int, rng: np.random.Generator
) -> list[Permutation]:
    """One permutation replaced: by a random one, or with two of its entries exchanged."""
    if len(current) == math.factorial(n):
        return list(current)
    while True:
        position = int(rng.integers(len(current)))
        if rng.random() < 0.3:
            order = rng.permutation(n)
        else:
            order = np.array(current[position])
            i, j = rng.choice(n, 2, replace=False)
            order[[i, j]] = order[[j, i]]
        candidate = tuple(order.tolist())
        if candidate not in current:
            return [*current[:position], candidate, *current[position + 1 :]]
