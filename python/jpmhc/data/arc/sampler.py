# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches: of training as the TRM samples them, and of evaluation in order.

An epoch visits every group (task) once in a random order, draws one of its puzzles (variants),
and takes that puzzle's examples in a random order. Example i of epoch e is a function of the
seed, e and i. Some epochs make an iteration; a batch goes on over the end of an epoch, but not of
an iteration, whose last, partial batch is dropped. The data are made by any number of threads and
come in the same order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from jpmhc.data import philox
from jpmhc.data.ahead import by_threads, check_workers
from jpmhc.data.arc.puzzles import Batch, ExampleTable
from jpmhc.data.checks import MOST, whole
from jpmhc.errors import ConfigError

_EPOCHS_KEPT = 8  # in memory
_STREAM_GROUPS, _STREAM_PUZZLE, _STREAM_EXAMPLE = 2, 6, 7


class Position(NamedTuple):
    """Where training is: the next batch of an iteration."""

    iteration: int
    batch: int


class TrainingBatches:
    """Endless batches to learn from.

    Args:
        examples: such as `ArcPuzzles.training`, or a set in the TRM's format.
        batch_size: B, of all ranks together.
        seed: 0 <= seed < 2**64.
        epochs: of an iteration, at most 2**24. Where all puzzles of a group have as many examples
            and none are cut, no more than a few epochs are in memory.
        cut_puzzles: whether the examples of a puzzle that find no place in a batch are left out,
            as in the TRM's scripts, instead of beginning the next batch. Then the batches depend
            on the batch size.
        rank, ranks: which part of each batch to give: rows rank * B / ranks and following.
        workers: threads that make batches ahead; 0 for none.

    Attributes:
        position: of the batch that comes next; may be set.

    Raises:
        ConfigError: a number out of range, or an iteration without a whole batch.
    """

    def __init__(
        self,
        examples: ExampleTable,
        batch_size: int,
        *,
        seed: int = 0,
        epochs: int = 1,
        cut_puzzles: bool = False,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
    ) -> None:
        self.examples, self.cut_puzzles = examples, cut_puzzles
        self.seed = philox.check_seed(seed)
        self.batch_size = whole("batch_size", batch_size, 1, MOST)
        self.epochs, self.workers = whole("epochs", epochs, 1, MOST), check_workers(workers)
        self._share = _share(self.batch_size, rank, ranks)
        self.position = Position(0, 0)
        self._rows = lru_cache(maxsize=2)(self._iteration_rows)
        self._rows_of_epoch = lru_cache(maxsize=_EPOCHS_KEPT)(self.epoch_rows)
        self._counts: dict[int, int] = {}
        # How many examples every epoch has; None: not every epoch has as many.
        self._epoch_size = None if cut_puzzles else _epoch_size(examples)
        if not self.batches_in(0):
            most = self._epoch_size and self.epochs * self._epoch_size
            expected = f"at most {most or len(self._rows(0))} examples"
            hint = "more epochs an iteration make room for larger batches"
            raise ConfigError("no whole batch", expected=expected, given=batch_size, hint=hint)

    def epoch_rows(self, epoch: int) -> np.ndarray:
        """int64 [E]: which examples an epoch has, in its order; E is the same for all epochs.

        Only where the puzzles of a group differ in size, as they may in files, E varies.
        """
        return np.concatenate(self._epoch(epoch) or [np.zeros(0, dtype=np.int64)])

    def batches_in(self, iteration: int) -> int:
        """Whole batches of an iteration."""
        if self._epoch_size is not None:
            return self.epochs * self._epoch_size // self.batch_size
        if iteration not in self._counts:
            self._counts[iteration] = len(self._rows(iteration)) // self.batch_size
        return self._counts[iteration]

    def batch(self, iteration: int, batch: int) -> Batch:
        """This rank's rows of a batch, whatever was taken before.

        Raises:
            ConfigError: there is no such batch.
        """
        iteration = whole("iteration", iteration, 0)
        batch = whole("batch", batch, 0, self.batches_in(iteration) - 1)
        return self.examples.batch(self._batch_rows(iteration, batch)[self._share])

    def _batch_rows(self, iteration: int, batch: int) -> np.ndarray:
        """The rows of a batch for all ranks."""
        first = batch * self.batch_size
        end = first + self.batch_size
        size = self._epoch_size
        if size is None:
            return self._rows(iteration)[first:end]
        epochs = range(first // size, -(-end // size))
        before = epochs[0] * size
        parts = [self._rows_of_epoch(iteration * self.epochs + epoch) for epoch in epochs]
        return np.concatenate(parts)[first - before : end - before]

    def position_of(self, step: int) -> Position:
        """The position of a batch counted through from the beginning.

        Raises:
            ConfigError: a negative step.
        """
        step = whole("step", step, 0)
        if self._epoch_size is not None:
            return Position(*divmod(step, self.batches_in(0)))
        iteration = 0
        while step >= (size := self.batches_in(iteration)):
            iteration, step = iteration + 1, step - size
        return Position(iteration, step)

    def at_step(self, step: int) -> Batch:
        """The batch of a step counted through from the beginning.

        Raises:
            ConfigError: a negative step.
        """
        return self.batch(*self.position_of(step))

    def __iter__(self) -> Iterator[Batch]:
        """Batches from `position` on, which goes along with what was taken."""

        def make(position: Position) -> tuple[Position, Batch]:
            return position, self.batch(*position)

        positions = self._positions(self.position)
        for position, batch in by_threads(make, positions, self.workers):
            self.position = self._next(position)
            yield batch

    def state(self) -> dict[str, int]:
        """What a checkpoint must hold to go on with the next batch."""
        return {**self._identity(), **self.position._asdict()}

    def load_state(self, state: Mapping[str, int]) -> None:
        """Go on where `state` was asked for; the number of ranks and workers may differ.

        Raises:
            ConfigError: the state is of other data, or of another seed or batch size.
        """
        for name, own in self._identity().items():
            if not isinstance(state.get(name), int) or state[name] != own:
                message = f"state of another {name.replace('_', ' ')}"
                raise ConfigError(message, expected=own, given=state.get(name))
        iteration, batch = (whole(name, state.get(name), 0) for name in Position._fields)
        if batch >= self.batches_in(iteration):
            expected = f"at most {self.batches_in(iteration) - 1}"
            raise ConfigError("bad batch", expected=expected, given=batch)
        self.position = Position(iteration, batch)

    def _identity(self) -> dict[str, int]:
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "epochs": self.epochs,
            "cut_puzzles": int(self.cut_puzzles),
            "examples": len(self.examples),
            "puzzles": self.examples.num_puzzles,
        }

    def _next(self, position: Position) -> Position:
        iteration, batch = position.iteration, position.batch + 1
        while batch >= self.batches_in(iteration):
            iteration, batch = iteration + 1, 0
        return Position(iteration, batch)

    def _positions(self, position: Position) -> Iterator[Position]:
        while True:
            yield position
            position = self._next(position)

    def _iteration_rows(self, iteration: int) -> np.ndarray:
        first = iteration * self.epochs
        puzzles = [
            rows for epoch in range(first, first + self.epochs) for rows in self._epoch(epoch)
        ]
        if self.cut_puzzles:
            puzzles = _cut(puzzles, self.batch_size)
        return np.concatenate(puzzles)

    def _epoch(self, epoch: int) -> list[np.ndarray]:
        """The rows of each puzzle that an epoch visits."""
        table = self.examples
        order = philox.permutation(self.seed, _STREAM_GROUPS, (epoch,), table.num_groups)
        words = philox.words(self.seed, _STREAM_PUZZLE, (epoch,), table.num_groups)[order]
        first, end = table.group_indices[order], table.group_indices[order + 1]
        puzzles = first + philox.below(words, end - first)
        start, sizes = table.puzzle_indices[puzzles], np.diff(table.puzzle_indices)[puzzles]
        ends = np.cumsum(sizes)
        rows = (start - ends + sizes).repeat(sizes) + np.arange(ends[-1])
        # Shuffled within each puzzle: sorted by the puzzle first, then by random words.
        words = philox.words(self.seed, _STREAM_EXAMPLE, (epoch,), len(rows))
        rows = rows[np.lexsort([words, np.arange(len(sizes)).repeat(sizes)])]
        return np.split(rows, ends[:-1])


def _epoch_size(examples: ExampleTable) -> int | None:
    """How many examples an epoch has; None where the puzzles of a group differ in theirs."""
    sizes = np.diff(examples.puzzle_indices)
    first = sizes[examples.group_indices[:-1]]
    vary = (sizes != first.repeat(np.diff(examples.group_indices))).any()
    return None if vary else int(first.sum())


def _cut(puzzles: list[np.ndarray], batch_size: int) -> list[np.ndarray]:
    """The puzzles without the examples that would begin another batch than the puzzle did."""
    kept, room = [], batch_size
    for rows in puzzles:
        kept.append(rows[:room])
        room -= len(kept[-1])
        room = room or batch_size
    return kept


class EvaluationBatches:
    """All examples once, in order; the last batch is filled up with ignored rows.

    Args:
        examples: such as `ArcPuzzles.evaluation`.
        batch_size: B, of all ranks together.
        rank, ranks: as for `TrainingBatches`.
        workers: threads that make batches ahead; 0 for none.

    Raises:
        ConfigError: a number out of range.
    """

    def __init__(
        self,
        examples: ExampleTable,
        batch_size: int,
        *,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
    ) -> None:
        self.examples, self.batch_size = examples, whole("batch_size", batch_size, 1, MOST)
        self._share = _share(self.batch_size, rank, ranks)
        self.workers = check_workers(workers)

    def __len__(self) -> int:
        return -(-len(self.examples) // self.batch_size)

    def batch(self, index: int) -> Batch:
        """This rank's rows of a batch.

        Raises:
            ConfigError: there is no such batch.
        """
        index = whole("batch", index, 0, len(self) - 1)
        rows = np.arange(index * self.batch_size, (index + 1) * self.batch_size)[self._share]
        return self.examples.batch(rows[rows < len(self.examples)]).filled(len(rows))

    def __iter__(self) -> Iterator[Batch]:
        yield from by_threads(self.batch, range(len(self)), self.workers)


def _share(batch_size: int, rank: int, ranks: int) -> slice:
    ranks = whole("ranks", ranks, 1)
    rank = whole("rank", rank, 0, ranks - 1)
    if batch_size % ranks:
        expected = f"a multiple of {ranks} ranks"
        raise ConfigError("bad batch_size", expected=expected, given=batch_size)
    size = batch_size // ranks
    return slice(rank * size, (rank + 1) * size)
