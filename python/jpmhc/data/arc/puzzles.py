# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puzzles, each a task under one augmentation, and their examples, made when they are asked for.

The same three levels as in the TRM's files: a group is a task, its puzzles are the task's
variants, and a puzzle's examples are its pairs. What depends on chance does so through the seed,
the task's name, the number of the variant and that of the pair, and on nothing else.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jpmhc.data import philox
from jpmhc.data.arc.augment import Augmentation, Variants, draw_variants, task_key
from jpmhc.data.arc.tasks import Pair, Task, TaskSets
from jpmhc.data.arc.tokens import (
    EOS,
    FIRST_COLOUR,
    IGNORE,
    LARGEST_CANVAS,
    PAD,
    VOCABULARY_SIZE,
    GridStore,
    as_labels,
)
from jpmhc.data.checks import whole
from jpmhc.errors import DataError, RangeError

BLANK_PUZZLE = 0

_STREAM_PLACED, _STREAM_OFFSET = 4, 5


@dataclass(frozen=True, eq=False)
class Batch:
    """What a training or evaluation step takes.

    Attributes:
        tokens: int32 [B, canvas * canvas], the input grids.
        labels: int32 [B, canvas * canvas], the output grids; IGNORE where nothing is asked.
        puzzle_ids: int32 [B].
        rows: int64 [B], which examples of the table these are; -1 for one that fills up.
        count: rows in use; the others, all PAD, IGNORE and blank, fill the batch up.
    """

    tokens: np.ndarray
    labels: np.ndarray
    puzzle_ids: np.ndarray
    rows: np.ndarray
    count: int

    def filled(self, size: int) -> Batch:
        """The batch with rows added at its end until there are `size`."""
        missing = size - len(self.rows)
        if missing <= 0:
            return self

        def fill(array: np.ndarray, value: int) -> np.ndarray:
            widths = [(0, missing)] + [(0, 0)] * (array.ndim - 1)
            return np.pad(array, widths, constant_values=value)

        return Batch(
            fill(self.tokens, PAD),
            fill(self.labels, IGNORE),
            fill(self.puzzle_ids, BLANK_PUZZLE),
            fill(self.rows, -1),
            self.count,
        )


class ExampleTable(abc.ABC):
    """Examples, numbered through, that belong to puzzles, which belong to groups.

    Attributes:
        group_indices: int64 [G + 1]; group g has the puzzles from `group_indices[g]` to before
            `group_indices[g + 1]`.
        puzzle_indices: int64 [P + 1]; the same of puzzles and examples.
        puzzle_ids: int32 [P], the rows of a table of puzzle embeddings.
        canvas: side of the canvas.
    """

    def __init__(
        self,
        group_indices: np.ndarray,
        puzzle_indices: np.ndarray,
        puzzle_ids: np.ndarray,
        canvas: int,
    ) -> None:
        self.group_indices = np.asarray(group_indices, dtype=np.int64)
        self.puzzle_indices = np.asarray(puzzle_indices, dtype=np.int64)
        self.puzzle_ids = np.asarray(puzzle_ids, dtype=np.int32)
        self.canvas = canvas

    def __len__(self) -> int:
        return int(self.puzzle_indices[-1])

    @property
    def num_groups(self) -> int:
        """G."""
        return len(self.group_indices) - 1

    @property
    def num_puzzles(self) -> int:
        """P; the ids may be more."""
        return len(self.puzzle_ids)

    @property
    def sequence_length(self) -> int:
        """Tokens of an example: canvas * canvas."""
        return self.canvas * self.canvas

    def puzzles_of(self, rows: np.ndarray) -> np.ndarray:
        """int64 [B]: the puzzle of each example, as its place in the table.

        Raises:
            RangeError: there is no such example.
        """
        rows = np.asarray(rows, dtype=np.int64)
        wrong = rows[(rows < 0) | (rows >= len(self))]
        if wrong.size:
            raise RangeError("no such example", expected=f"0..{len(self) - 1}", given=wrong[0])
        return np.searchsorted(self.puzzle_indices, rows, side="right") - 1

    def batch(self, rows: np.ndarray) -> Batch:
        """The examples of an index array [B], in that order.

        Raises:
            RangeError: there is no such example.
        """
        rows = np.asarray(rows, dtype=np.int64)
        puzzles = self.puzzles_of(rows)
        tokens, labels = self._encode(rows, puzzles)
        return Batch(tokens, labels, self.puzzle_ids[puzzles], rows, len(rows))

    @abc.abstractmethod
    def _encode(self, rows: np.ndarray, puzzles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and labels, int32 [B, canvas * canvas] each."""


@dataclass(frozen=True, eq=False)
class Examples:
    """A few examples in memory with where they come from.

    Attributes:
        inputs: uint8 [E, canvas * canvas], tokens of the input grids.
        outputs: uint8 [E, canvas * canvas], tokens of the output grids.
        puzzle_ids: int32 [E].
        origins: int32 [E, 3], indices of task, pair and variant; the pair is counted within the
            demonstrations and tests of a training set's task, within the demonstrations or the
            tests of an evaluation set's task.
    """

    inputs: np.ndarray
    outputs: np.ndarray
    puzzle_ids: np.ndarray
    origins: np.ndarray

    def __len__(self) -> int:
        return len(self.inputs)

    @cached_property
    def labels(self) -> np.ndarray:
        """int32 [E, canvas * canvas]: the outputs, with IGNORE for PAD."""
        return as_labels(self.outputs)


class PuzzleExamples(ExampleTable):
    """Some pairs of tasks under all their variants.

    Args:
        owner: the puzzles these are examples of.
        tasks: indices of the tasks.
        pairs: of each of these tasks, the pairs.
        translated: whether all but one example of each variant lie somewhere on the canvas
            instead of in its upper left corner.
    """

    def __init__(
        self,
        owner: ArcPuzzles,
        tasks: Sequence[int],
        pairs: Sequence[Sequence[Pair]],
        translated: bool,
    ) -> None:
        self._owner = owner
        self.translated = translated
        variants = np.array([len(owner.variants[task]) for task in tasks], dtype=np.int64)
        pairs_of = np.array([len(part) for part in pairs], dtype=np.int64)
        groups = _starts(variants)
        self._task = np.array(tasks, dtype=np.int64).repeat(variants)
        self._variant = np.arange(groups[-1]) - groups[:-1].repeat(variants)
        sizes = pairs_of.repeat(variants)
        self._first_pair = _starts(pairs_of)[:-1].repeat(variants)
        ids = owner.first_id[self._task] + self._variant
        super().__init__(groups, _starts(sizes), ids, owner.canvas)
        flat = [pair for part in pairs for pair in part]
        # Grid 2 k is the input of pair k, grid 2 k + 1 its output.
        grids = [grid for pair in flat for grid in (pair.input, pair.output)]
        self._store = GridStore(grids, owner.canvas)
        self._dihedral = np.concatenate([owner.variants[task].dihedral for task in tasks] or [[]])
        self._dihedral = self._dihedral.astype(np.uint8)
        self._colours = [owner.variants[task].colours for task in tasks]
        self._colours = np.concatenate(self._colours or [np.zeros((0, 10), np.uint8)])

    def origins(self, rows: np.ndarray) -> np.ndarray:
        """int32 [B, 3]: indices of task, pair and variant, see `Examples`.

        Raises:
            RangeError: there is no such example.
        """
        puzzles = self.puzzles_of(rows)
        pairs = rows - self.puzzle_indices[puzzles]
        return np.stack([self._task[puzzles], pairs, self._variant[puzzles]], 1).astype(np.int32)

    def materialise(self, variants: int = 1) -> Examples:
        """The examples under the first so many variants of each task (1: as they are).

        Raises:
            ConfigError: `variants` is not positive.
        """
        variants = whole("variants", variants, 1)
        chosen = self._variant < variants
        rows = np.flatnonzero(chosen.repeat(np.diff(self.puzzle_indices)))
        puzzles = self.puzzles_of(rows)
        tokens, labels = self._encode(rows, puzzles)
        outputs = np.where(labels == IGNORE, PAD, labels)
        return Examples(
            *(_read_only(array.astype(np.uint8)) for array in (tokens, outputs)),
            _read_only(self.puzzle_ids[puzzles]),
            _read_only(self.origins(rows)),
        )

    def offsets(self, rows: np.ndarray, puzzles: np.ndarray | None = None) -> np.ndarray:
        """int64 [B, 2]: where on the canvas input and output of each example begin."""
        puzzles = self.puzzles_of(rows) if puzzles is None else puzzles
        if not self.translated:
            return np.zeros((len(rows), 2), dtype=np.int64)
        pair = rows - self.puzzle_indices[puzzles]
        size = self.puzzle_indices[puzzles + 1] - self.puzzle_indices[puzzles]
        seed, key = self._owner.seed, self._owner.keys[self._task[puzzles]]
        variant = self._variant[puzzles]
        placed = philox.below(philox.scattered(seed, _STREAM_PLACED, key, variant), size)
        grids = 2 * (self._first_pair[puzzles] + pair)
        dihedral = self._dihedral[puzzles]
        shapes = [self._store.turned_shapes(grids + k, dihedral) for k in (0, 1)]
        room = self.canvas + 1 - np.maximum(*shapes)
        words = philox.scattered(
            seed,
            _STREAM_OFFSET,
            key[:, None],
            variant[:, None],
            pair[:, None],
            np.arange(2),
        )
        return np.where((pair == placed)[:, None], 0, philox.below(words, room))

    def _encode(self, rows: np.ndarray, puzzles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        grids = 2 * (self._first_pair[puzzles] + rows - self.puzzle_indices[puzzles])
        dihedral, offsets = self._dihedral[puzzles], self.offsets(rows, puzzles)
        values = np.empty((len(rows), VOCABULARY_SIZE), dtype=np.int32)
        values[:, PAD], values[:, EOS] = PAD, EOS
        values[:, FIRST_COLOUR:] = self._colours[puzzles]
        values[:, FIRST_COLOUR:] += FIRST_COLOUR
        tokens = self._store.gather(grids, dihedral, offsets, values)
        values[:, PAD] = IGNORE
        return tokens, self._store.gather(grids + 1, dihedral, offsets, values)


class ArcPuzzles:
    """All variants of some tasks: what can be learnt of them, and what is judged.

    Args:
        sets: the tasks.
        variants: of each task at most, the task as it is included (TRM: 1001).
        canvas: side of the canvas, 1..256; no grid may be larger.
        seed: 0 <= seed < 2**64.
        translate: whether training examples lie anywhere on the canvas, but one of each variant.
        watch: passes on the tasks, of which it is given the number, to show progress.

    Attributes:
        tasks: training set first.
        variants: of each task.
        first_id: int64 [tasks], the puzzle id of each task's variant 0; the others follow. Id 0
            is blank.
        training: the examples to learn from: every pair of a training set's task, the
            demonstrations of an evaluation set's.
        evaluation: the tests of the evaluation set's tasks, in the upper left corner.

    Raises:
        ConfigError: a number out of range.
        DataError: no task, two of one name, or a grid larger than the canvas (names the task).
    """

    def __init__(
        self,
        sets: TaskSets,
        *,
        variants: int = 1001,
        canvas: int = 30,
        seed: int = 0,
        translate: bool = True,
        watch: Callable[[Iterable[Task], int], Iterable[Task]] = lambda tasks, total: tasks,
    ) -> None:
        canvas = whole("canvas", canvas, 1, LARGEST_CANVAS)
        self.sets = sets
        self.tasks: tuple[Task, ...] = tuple(sets)
        _check_tasks(self.tasks, canvas)
        self.variants: tuple[Variants, ...] = tuple(
            draw_variants(task, variants, seed) for task in watch(self.tasks, len(self.tasks))
        )
        self._build(canvas, seed, translate)

    @classmethod
    def restored(
        cls,
        sets: TaskSets,
        variants: Sequence[Variants],
        *,
        canvas: int,
        seed: int,
        translate: bool,
    ) -> ArcPuzzles:
        """Puzzles with variants that were drawn before.

        Raises:
            As the constructor.
        """
        self = cls.__new__(cls)
        self.sets, self.tasks, self.variants = sets, tuple(sets), tuple(variants)
        _check_tasks(self.tasks, canvas)
        self._build(canvas, seed, translate)
        return self

    def _build(self, canvas: int, seed: int, translate: bool) -> None:
        self.canvas, self.seed, self.translate = canvas, philox.check_seed(seed), translate
        self.keys = np.array([task_key(task) for task in self.tasks], dtype=np.uint64)
        self.first_id = 1 + _starts(np.array([len(v) for v in self.variants], dtype=np.int64))[:-1]
        cut = len(self.sets.training)
        learnt = [task.pairs for task in self.sets.training]
        learnt += [task.demonstrations for task in self.sets.evaluation]
        judged = [task.tests for task in self.sets.evaluation]
        self.training = PuzzleExamples(self, range(len(self.tasks)), learnt, translate)
        self.evaluation = PuzzleExamples(self, range(cut, len(self.tasks)), judged, False)

    @property
    def num_puzzle_ids(self) -> int:
        """Rows of a table of puzzle embeddings: every puzzle, and the blank one."""
        return 1 + sum(len(variants) for variants in self.variants)

    def puzzle_id(self, task: int, variant: int = 0) -> int:
        """The id of a task, by its index in `tasks`, under one of its variants.

        Raises:
            RangeError: there is no such task or variant.
        """
        self.augmentation(task, variant)
        return int(self.first_id[task]) + variant

    def augmentation(self, task: int, variant: int) -> Augmentation:
        """What a variant does to a task.

        Raises:
            RangeError: there is no such task or variant.
        """
        if not 0 <= whole("task", task) < len(self.tasks):
            raise RangeError("no such task", expected=f"0..{len(self.tasks) - 1}", given=task)
        return self.variants[task][whole("variant", variant)]

    def identifiers(self) -> list[str]:
        """The name of every puzzle id, `<blank>` first."""
        names = [
            augmentation.name(task.id)
            for task, variants in zip(self.tasks, self.variants, strict=True)
            for augmentation in variants
        ]
        return ["<blank>", *names]

    def leaks(self) -> list[tuple[str, int]]:
        """Tests of the evaluation set, (task, number from 1), that also are a pair to learn from.

        Such a pair is one of another task, or shown and tested in the same one.
        """
        learnt = {_key(pair) for pair in self._learnt_pairs()}
        return [
            (task.id, k)
            for task in self.sets.evaluation
            for k, pair in enumerate(task.tests, start=1)
            if _key(pair) in learnt
        ]

    def _learnt_pairs(self) -> list[Pair]:
        pairs = [pair for task in self.sets.training for pair in task.pairs]
        return pairs + [pair for task in self.sets.evaluation for pair in task.demonstrations]


def _key(pair: Pair) -> tuple:
    return tuple((grid.shape, grid.tobytes()) for grid in pair.grids)


def _starts(sizes: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _read_only(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array


def _check_tasks(tasks: Sequence[Task], canvas: int) -> None:
    if not tasks:
        raise DataError("no tasks", expected="at least 1", given=0)
    names = set()
    for task in tasks:
        if task.id in names:
            raise DataError("two tasks of one name", given=task.id)
        names.add(task.id)
        if task.largest_side > canvas:
            raise DataError(
                "grid larger than the canvas",
                expected=f"at most {canvas} rows and columns",
                given=task.largest_side,
                where=f"task {task.id}",
            )
