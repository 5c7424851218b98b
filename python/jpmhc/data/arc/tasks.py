# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks: pairs of grids that show a rule, and pairs that test it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc.data.arc.tokens import LARGEST_GRID, NUM_COLOURS
from jpmhc.errors import DataError

_FIELDS = ("input", "output")


@dataclass(frozen=True, eq=False)
class Pair:
    """An input grid and its output grid, uint8 [rows, columns] of colours 0..9, read only.

    The output of a test pair may be None: not known.
    """

    input: np.ndarray
    output: np.ndarray | None

    @property
    def grids(self) -> tuple[np.ndarray, ...]:
        """The grids that are known."""
        return (self.input,) if self.output is None else (self.input, self.output)

    def same_as(self, other: Pair) -> bool:
        """Whether both have equal grids."""
        if (self.output is None) != (other.output is None):
            return False
        return all(np.array_equal(a, b) for a, b in zip(self.grids, other.grids, strict=True))


@dataclass(frozen=True, eq=False)
class Task:
    """A task: its name, the pairs that show its rule and the pairs that test it."""

    id: str
    demonstrations: tuple[Pair, ...]
    tests: tuple[Pair, ...]

    @classmethod
    def from_grids(
        cls,
        id: str,
        demonstrations: Iterable[Sequence],
        tests: Iterable[Sequence],
        where: object = None,
    ) -> Task:
        """Check pairs (input, output) of anything NumPy can read as a matrix, and copy them.

        Args:
            id: the name.
            demonstrations: at least one pair.
            tests: at least one pair; an output may be None.
            where: the file they come from, for errors.

        Raises:
            DataError: no pairs, or a grid that is not a matrix of 1..30 rows and columns of
                integers 0..9; it names the file, the task, the pair (counted from 1) and the
                field.
        """
        place = f"{where}: task {id}" if where else f"task {id}"
        parts = []
        for name, pairs in (("demonstration", demonstrations), ("test", tests)):
            parts.append(
                tuple(
                    _pair(pair, f"{place}, {name} {k}", output_needed=name != "test")
                    for k, pair in enumerate(pairs, start=1)
                )
            )
            if not parts[-1]:
                raise DataError(f"no {name} pair", where=place)
        return cls(id, *parts)

    @classmethod
    def from_json(cls, id: str, value: object, where: object = None) -> Task:
        """A task in the official format, {"train": [{"input": ..., "output": ...}], "test": ...}.

        Raises:
            DataError: as `from_grids`, or a field is missing.
        """
        place = f"{where}: task {id}" if where else f"task {id}"
        parts = []
        for field, name in (("train", "demonstration"), ("test", "test")):
            pairs = value.get(field) if isinstance(value, Mapping) else None
            if not isinstance(pairs, list):
                given = "none" if pairs is None else type(pairs).__name__
                raise DataError("bad task", expected=f"a list {field!r}", given=given, where=place)
            for k, pair in enumerate(pairs, start=1):
                if not isinstance(pair, Mapping) or "input" not in pair:
                    given = sorted(pair) if isinstance(pair, Mapping) else type(pair).__name__
                    expected = "an input and an output"
                    where_pair = f"{place}, {name} {k}"
                    raise DataError("bad pair", expected=expected, given=given, where=where_pair)
            parts.append([(pair["input"], pair.get("output")) for pair in pairs])
        return cls.from_grids(id, *parts, where=where)

    def to_json(self) -> dict[str, list[dict[str, list]]]:
        """The task in the official format; an unknown output is left out."""

        def pairs(part: tuple[Pair, ...]) -> list[dict[str, list]]:
            return [
                {
                    field: grid.tolist()
                    for field, grid in zip(_FIELDS, (pair.input, pair.output), strict=True)
                    if grid is not None
                }
                for pair in part
            ]

        return {"train": pairs(self.demonstrations), "test": pairs(self.tests)}

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, demonstrations first."""
        return self.demonstrations + self.tests

    @property
    def largest_side(self) -> int:
        """The longest side of any grid of the task, demonstrations and tests alike."""
        return max(max(grid.shape) for pair in self.pairs for grid in pair.grids)

    def same_as(self, other: Task) -> bool:
        """Whether both have equal pairs, in the same order."""
        return (
            len(self.demonstrations) == len(other.demonstrations)
            and len(self.tests) == len(other.tests)
            and all(a.same_as(b) for a, b in zip(self.pairs, other.pairs, strict=True))
        )


@dataclass(frozen=True, eq=False)
class TaskSets:
    """Tasks by what may be learnt of them.

    Attributes:
        training: all pairs are training data.
        evaluation: the demonstrations are training data; the tests never are.
        origin: where they come from, in words.
    """

    training: tuple[Task, ...]
    evaluation: tuple[Task, ...]
    origin: str = ""

    def __len__(self) -> int:
        return len(self.training) + len(self.evaluation)

    def __iter__(self) -> Iterator[Task]:
        """All tasks, training set first."""
        yield from self.training
        yield from self.evaluation

    def up_to(self, max_grid: int) -> TaskSets:
        """The tasks whose every grid has at most so many rows and columns."""

        def small(tasks: tuple[Task, ...]) -> tuple[Task, ...]:
            return tuple(task for task in tasks if task.largest_side <= max_grid)

        return TaskSets(small(self.training), small(self.evaluation), self.origin)

    @classmethod
    def merged(cls, parts: Iterable[TaskSets]) -> TaskSets:
        """All tasks of several sets, each name once.

        A task that comes twice with equal pairs is taken once; one that is in a training and in
        an evaluation set belongs to the evaluation set, so that its tests are not learnt.

        Raises:
            DataError: two tasks of one name differ.
        """
        parts = list(parts)
        tasks: dict[str, Task] = {}
        evaluation = {task.id for part in parts for task in part.evaluation}
        for part in parts:
            for task in part:
                known = tasks.setdefault(task.id, task)
                if not known.same_as(task):
                    message = "two tasks of one name with other content"
                    raise DataError(message, given=task.id, where=part.origin)
        return cls(
            tuple(task for task in tasks.values() if task.id not in evaluation),
            tuple(task for task in tasks.values() if task.id in evaluation),
            "; ".join(dict.fromkeys(part.origin for part in parts)),
        )


def _pair(pair: Sequence, where: str, *, output_needed: bool) -> Pair:
    try:
        given = len(pair)
    except TypeError:
        given = type(pair).__name__
    if given != 2:
        raise DataError("bad pair", expected="an input and an output", given=given, where=where)
    if pair[1] is None and not output_needed:
        return Pair(_grid(pair[0], f"{where}, input"), None)
    return Pair(_grid(pair[0], f"{where}, input"), _grid(pair[1], f"{where}, output"))


def _grid(values: object, where: str) -> np.ndarray:
    try:
        grid = np.asarray(values)
    except (ValueError, OverflowError) as error:
        given = _row_lengths(values) or error
        raise DataError("bad grid", expected="a matrix", given=given, where=where) from error
    if grid.ndim != 2 or not all(1 <= side <= LARGEST_GRID for side in grid.shape):
        expected = f"1..{LARGEST_GRID} rows and columns"
        given = f"shape {list(grid.shape)}"
        raise DataError("bad grid", expected=expected, given=given, where=where)
    if grid.dtype.kind not in "iu":
        expected = "integers"
        raise DataError("bad grid", expected=expected, given=f"dtype {grid.dtype}", where=where)
    wrong = grid[(grid < 0) | (grid >= NUM_COLOURS)]
    if wrong.size:
        expected = f"colours 0..{NUM_COLOURS - 1}"
        raise DataError("bad grid", expected=expected, given=wrong[0], where=where)
    grid = np.ascontiguousarray(grid.astype(np.uint8))
    grid.flags.writeable = False
    return grid


def _row_lengths(values: object) -> str | None:
    """What is wrong with a ragged grid."""
    if not isinstance(values, Sequence) or not all(isinstance(row, Sequence) for row in values):
        return None
    lengths = sorted({len(row) for row in values})
    return f"rows of {', '.join(map(str, lengths))} cells" if len(lengths) > 1 else None
