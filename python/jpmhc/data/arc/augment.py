# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Variants of a task: the symmetries of the square times the permutations of the colours 1..9."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jpmhc.data import philox
from jpmhc.data.arc.tasks import Task
from jpmhc.data.arc.tokens import NUM_COLOURS
from jpmhc.data.checks import whole
from jpmhc.errors import ConfigError, DataError, RangeError

NUM_DIHEDRAL = 8
MOST_VARIANTS = 100_000

_STREAM_AUGMENTATION = 1
_TRIES = 5  # candidates drawn for each variant asked for, as in the TRM's scripts
_INVERSE_DIHEDRAL = (0, 3, 2, 1, 4, 5, 6, 7)
# TRM separates the parts of a name by `|||`, HRM by `_`.
_NAME = re.compile(r"(.+)(?:\|\|\||_)t([0-7])(?:\|\|\||_)(\d{10})", re.S)


def turn(grid: np.ndarray, dihedral: int) -> np.ndarray:
    """A grid after one of the 8 symmetries of the square, numbered as in the TRM's scripts.

    0 as it is; 1, 2, 3 quarter turns against the clock; 4 left to right; 5 upside down;
    6 rows and columns exchanged; 7 the same along the other diagonal.
    """
    if dihedral < 4:
        return np.rot90(grid, dihedral)
    return {4: grid[:, ::-1], 5: grid[::-1], 6: grid.T, 7: grid[::-1, ::-1].T}[dihedral]


@dataclass(frozen=True)
class Augmentation:
    """A renaming of colours and a symmetry of the square, both undone by `invert`.

    Attributes:
        dihedral: 0..7, see `turn`.
        colours: the new name of each colour 0..9; 0, the background, keeps its name.
    """

    dihedral: int = 0
    colours: tuple[int, ...] = tuple(range(NUM_COLOURS))

    def __post_init__(self) -> None:
        whole("symmetry", self.dihedral, 0, NUM_DIHEDRAL - 1)
        if (
            not isinstance(self.colours, tuple)
            or sorted(self.colours) != list(range(NUM_COLOURS))
            or self.colours[0] != 0
        ):
            expected = "a permutation of 0..9 that keeps 0"
            raise ConfigError("bad colours", expected=expected, given=self.colours)

    def apply(self, grid: np.ndarray) -> np.ndarray:
        """The augmented grid, uint8."""
        return turn(np.array(self.colours, dtype=np.uint8)[grid], self.dihedral)

    def invert(self, grid: np.ndarray) -> np.ndarray:
        """The grid that `apply` would turn into this one."""
        back = turn(np.asarray(grid), _INVERSE_DIHEDRAL[self.dihedral])
        return np.argsort(self.colours).astype(np.uint8)[back]

    def name(self, task: str) -> str:
        """The name of a task under this augmentation, such as `00d62c1b|||t3|||0213456789`.

        The task as it is has its own name.
        """
        if self == IDENTITY:
            return task
        return f"{task}|||t{self.dihedral}|||{''.join(map(str, self.colours))}"


IDENTITY = Augmentation()


def parse_name(name: str, where: object = None) -> tuple[str, Augmentation]:
    """Task and augmentation of a puzzle's name as TRM or HRM write it.

    Raises:
        DataError: the name has an augmentation that is none.
    """
    found = _NAME.fullmatch(name)
    if not found:
        return name, IDENTITY
    task, dihedral, colours = found.groups()
    try:
        return task, Augmentation(int(dihedral), tuple(map(int, colours)))
    except ConfigError as error:
        message = "bad puzzle name"
        raise DataError(message, expected=error.expected, given=name, where=where) from error


@dataclass(frozen=True, eq=False)
class Variants:
    """Augmentations of a task, the identity first.

    Attributes:
        dihedral: uint8 [V].
        colours: uint8 [V, 10].
    """

    dihedral: np.ndarray
    colours: np.ndarray

    def __len__(self) -> int:
        return len(self.dihedral)

    def __getitem__(self, index: int) -> Augmentation:
        if not 0 <= index < len(self):
            raise RangeError("no such variant", expected=f"0..{len(self) - 1}", given=index)
        return Augmentation(int(self.dihedral[index]), tuple(self.colours[index].tolist()))

    def __iter__(self) -> Iterator[Augmentation]:
        return (self[index] for index in range(len(self)))


def task_key(task: Task) -> int:
    """A number 0 <= key < 2**64 made of the task's name: the address of what is random in it."""
    return int.from_bytes(hashlib.blake2b(task.id.encode(), digest_size=8).digest(), "little")


def draw_variants(task: Task, count: int, seed: int) -> Variants:
    """Up to `count` variants of a task that differ in content, the identity first.

    Candidates are drawn one after the other, 5 for each variant asked for, and kept if no
    earlier one makes the same pairs of grids, in whatever order (a test pair is as good as a
    demonstration). They depend on the seed and the task's name: more variants are the same and
    some more.

    Raises:
        ConfigError: `count` is not in 1..100000.
    """
    count = whole("number of variants", count, 1, MOST_VARIANTS)
    content = _Content(task)
    most = 1 + _TRIES * (count - 1)
    for drawn in (min(count + count // 8 + 8, most), most):  # the first is nearly always enough
        variants = _candidates(task, drawn, seed)
        kept: dict[bytes, int] = {}  # insertion order is that of the draws
        for place, key in enumerate(content.keys(variants)):
            kept.setdefault(key, place)
        if len(kept) >= count:
            break
    chosen = np.fromiter(kept.values(), dtype=np.int64)[:count]
    return Variants(variants.dihedral[chosen], variants.colours[chosen])


def _candidates(task: Task, count: int, seed: int) -> Variants:
    """The identity and the first `count` - 1 random augmentations."""
    words = philox.words(seed, _STREAM_AUGMENTATION, (task_key(task),), NUM_COLOURS * (count - 1))
    words = words.reshape(count - 1, NUM_COLOURS)
    dihedral = np.zeros(count, dtype=np.uint8)
    dihedral[1:] = philox.below(words[:, 0], NUM_DIHEDRAL)
    colours = np.tile(np.arange(NUM_COLOURS, dtype=np.uint8), (count, 1))
    colours[1:, 1:] = 1 + np.argsort(words[:, 1:], axis=1, kind="stable")
    return Variants(dihedral, colours)


class _Content:
    """Tells variants of a task with equal pairs without making their grids.

    A pair under a symmetry is told by its pattern, in which the colours are numbered as they
    first appear, and by the list of these colours. Renaming colours changes the list alone.
    """

    def __init__(self, task: Task) -> None:
        patterns: dict[bytes, int] = {}
        shape = (NUM_DIHEDRAL, len(task.pairs))
        self._pattern = np.zeros(shape, dtype=np.int64)
        self._colours = np.zeros((*shape, NUM_COLOURS - 1), dtype=np.int64)
        for dihedral, k in np.ndindex(*shape):
            pair = task.pairs[k]
            grids = [turn(g, dihedral) for g in (pair.input, pair.output) if g is not None]
            pattern, colours = _pattern(grids)
            self._pattern[dihedral, k] = patterns.setdefault(pattern, len(patterns))
            self._colours[dihedral, k, : len(colours)] = colours

    def keys(self, variants: Variants) -> list[bytes]:
        """For each variant a key that is equal just where the contents are."""
        rows = np.arange(len(variants))[:, None, None]
        renamed = variants.colours[rows, self._colours[variants.dihedral]].astype(np.int64)
        codes = self._pattern[variants.dihedral]  # of a pair: its pattern and 9 decimal digits
        for place in range(NUM_COLOURS - 1):
            codes = codes * 10 + renamed[:, :, place]
        codes.sort(axis=1)  # the order of the pairs does not matter
        return [code.tobytes() for code in codes]


def _pattern(grids: list[np.ndarray]) -> tuple[bytes, list[int]]:
    cells = np.concatenate([grid.reshape(-1) for grid in grids])
    first = np.full(NUM_COLOURS, len(cells))
    first[cells[::-1]] = np.arange(len(cells))[::-1]  # of several places the last is kept
    order = np.argsort(first)
    colours = [c for c in order[: np.count_nonzero(first < len(cells))].tolist() if c]
    number = np.zeros(NUM_COLOURS, dtype=np.uint8)
    number[colours] = np.arange(1, len(colours) + 1)
    return bytes(side for grid in grids for side in grid.shape) + number[cells].tobytes(), colours
