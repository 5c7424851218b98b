# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Predictions under many augmentations: undone, voted upon, scored and submitted.

    judge = Judge(puzzles.sets.evaluation, puzzles.identifiers(), canvas=30)
    for batch in EvaluationBatches(puzzles.evaluation, 768):
        tokens, halting = model(batch)
        judge.add(batch, tokens, halting)
    judge.result().as_dict((1, 2, 10, 100, 1000))

Each prediction is cut to the largest rectangle of colours, its augmentation is undone, and the
grid counts as a vote for the test input it answers. Candidates are ranked by (votes, mean halting
score). What belongs together is found by the puzzle's name and the input grid, so that examples
from the TRM's files are judged the same way.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from jpmhc.data.arc.augment import IDENTITY, Augmentation, parse_name
from jpmhc.data.arc.puzzles import BLANK_PUZZLE, Batch
from jpmhc.data.arc.tasks import Pair, Task
from jpmhc.data.arc.tokens import FIRST_COLOUR, grid_sizes
from jpmhc.data.checks import whole
from jpmhc.data.reading import field, read_json
from jpmhc.errors import DataError, OutputError, RangeError, ShapeError
from jpmhc.eval.pass_at_k import pass_at_k_of_all
from jpmhc.files import replacing

__all__ = [
    "ATTEMPTS",
    "Ballot",
    "Candidate",
    "Judge",
    "Result",
    "read_submission",
    "score_submission",
    "submission",
    "write_submission",
]

ATTEMPTS = 2  # of a test input in the ARC Prize


@dataclass(frozen=True, eq=False)
class Candidate:
    """A grid that was predicted, uint8 [rows, columns], maybe empty.

    Attributes:
        grid: the grid, its augmentation undone.
        votes: predictions that were this grid.
        halting: the mean of their halting scores.
    """

    grid: np.ndarray
    votes: int
    halting: float


class Ballot:
    """The predictions for one test input."""

    def __init__(self) -> None:
        self._grids: dict[tuple, np.ndarray] = {}
        self._scores: dict[tuple, list[float]] = {}
        self._answers: dict[Augmentation, tuple] = {}

    def add(
        self, grid: np.ndarray, halting: float = 0.0, augmentation: Augmentation = IDENTITY
    ) -> None:
        """Counts a vote; a second one under the same augmentation counts as another vote."""
        key = _key(grid)
        self._grids.setdefault(key, grid)
        self._scores.setdefault(key, []).append(float(halting))
        self._answers.setdefault(augmentation, key)

    def merge(self, other: Ballot) -> None:
        """Counts all votes of another ballot too."""
        for key, scores in other._scores.items():
            self._grids.setdefault(key, other._grids[key])
            self._scores.setdefault(key, []).extend(scores)
        for augmentation, key in other._answers.items():
            self._answers.setdefault(augmentation, key)

    def ranking(self) -> list[Candidate]:
        """Distinct grids, best first: by (votes, mean halting score).

        Of those equal in both the smaller grid, then the one of lower colours comes first, so
        that the order in which votes were counted does not matter.
        """
        candidates = [
            (-len(scores), -math.fsum(scores) / len(scores), key)
            for key, scores in self._scores.items()
        ]
        return [
            Candidate(self._grids[key], -votes, -halting)
            for votes, halting, key in sorted(candidates)
        ]

    def answer(self, augmentation: Augmentation = IDENTITY) -> np.ndarray | None:
        """What was predicted under an augmentation."""
        key = self._answers.get(augmentation)
        return None if key is None else self._grids[key]

    @property
    def augmentations(self) -> list[Augmentation]:
        """Those that a prediction was made under."""
        return list(self._answers)


def _key(grid: np.ndarray) -> tuple:
    return (*grid.shape, grid.tobytes())


class Judge:
    """Collects predictions.

    Args:
        tasks: whose tests are judged.
        identifiers: the name of each puzzle id, as `ArcPuzzles.identifiers` gives.
        canvas: side of the canvas.

    Attributes:
        ballots: by (task, number of the test from 0).
    """

    def __init__(self, tasks: Iterable[Task], identifiers: Sequence[str], canvas: int) -> None:
        self.tasks = {task.id: task for task in tasks}
        self.canvas = whole("canvas", canvas, 1)
        self._identifiers = identifiers
        self._parsed = lru_cache(maxsize=None)(self._parse)
        self._tests: dict[tuple, list[int]] = {}
        self.ballots: dict[tuple[str, int], Ballot] = {}
        for task in self.tasks.values():
            for k, pair in enumerate(task.tests):
                self._tests.setdefault((task.id, _key(pair.input)), []).append(k)
                self.ballots[task.id, k] = Ballot()

    def _parse(self, puzzle: int) -> tuple[str, Augmentation]:
        if not 0 <= puzzle < len(self._identifiers):
            expected = f"0..{len(self._identifiers) - 1}"
            raise RangeError("no such puzzle id", expected=expected, given=puzzle)
        return parse_name(self._identifiers[puzzle])

    def add(self, batch: Batch, predictions: np.ndarray, halting: np.ndarray | None = None) -> None:
        """Counts the predictions of a batch, all or, on an error, none.

        Rows that fill the batch up are left out.

        Args:
            batch: of evaluation examples.
            predictions: integers [B, canvas * canvas], such as the argmax of the logits.
            halting: [B], higher is surer, such as the sigmoid of TRM's q_halt; 0 if None.

        Raises:
            ShapeError: the predictions or scores do not fit the batch.
            RangeError: a puzzle id has no name.
            DataError: an input is no test of its task, or a halting score is not finite.
        """
        predictions = np.asarray(predictions)
        halting = np.zeros(len(predictions)) if halting is None else np.asarray(halting)
        if predictions.shape != batch.tokens.shape:
            expected, given = list(batch.tokens.shape), list(predictions.shape)
            raise ShapeError("bad predictions", expected=expected, given=given)
        if predictions.shape[1:] != (self.canvas**2,):
            expected, given = f"[B, {self.canvas**2}]", list(predictions.shape)
            raise ShapeError("bad predictions", expected=expected, given=given)
        if halting.shape != predictions.shape[:1]:
            expected, given = list(predictions.shape[:1]), list(halting.shape)
            raise ShapeError("bad halting scores", expected=expected, given=given)
        wrong = np.flatnonzero(~np.isfinite(halting))
        if wrong.size:
            where, given = f"row {wrong[0]}", halting[wrong[0]]
            raise DataError("bad halting score", expected="finite", given=given, where=where)
        used = batch.puzzle_ids != BLANK_PUZZLE
        rows = zip(
            batch.puzzle_ids[used].tolist(),
            _cut(batch.tokens[used], self.canvas),
            _cut(predictions[used], self.canvas),
            halting[used].tolist(),
            strict=True,
        )
        votes = []
        for puzzle, given, predicted, score in rows:
            name, augmentation = self._parsed(puzzle)
            for k in self._tests_of(name, augmentation.invert(given)):
                votes.append((name, k, augmentation.invert(predicted), score, augmentation))
        for name, k, *vote in votes:
            self.ballots[name, k].add(*vote)

    def _tests_of(self, name: str, grid: np.ndarray) -> list[int]:
        if found := self._tests.get((name, _key(grid))):
            return found
        message = "an input that is no test" if name in self.tasks else "a task that is not judged"
        raise DataError(message, given=f"{grid.shape[0]} x {grid.shape[1]}", where=f"task {name}")

    def merge(self, other: Judge) -> None:
        """Counts all votes of another judge of the same tasks, such as another rank's.

        Raises:
            DataError: it judges other tasks.
        """
        if set(self.ballots) != set(other.ballots):
            raise DataError("votes on other tasks", expected=len(self.ballots))
        for place, ballot in self.ballots.items():
            ballot.merge(other.ballots[place])

    def result(self) -> Result:
        """How the tasks were answered.

        Raises:
            DataError: the output of a test is unknown.
        """
        return Result({task.id: _outcome(task, self.ballots) for task in self.tasks.values()})


def _cut(tokens: np.ndarray, canvas: int) -> list[np.ndarray]:
    sizes = zip(*(side.tolist() for side in grid_sizes(tokens, canvas)), strict=True)
    squares = tokens.reshape(-1, canvas, canvas)
    return [
        np.ascontiguousarray(square[:rows, :columns] - FIRST_COLOUR).astype(np.uint8)
        for square, (rows, columns) in zip(squares, sizes, strict=True)
    ]


@dataclass(frozen=True, eq=False)
class _Outcome:
    """Of a task: the place of the truth in each test's ranking (-1: not there), the answers of
    each augmentation (bool [N, tests]), and whether the task as it is was answered right."""

    places: list[int]
    right: np.ndarray
    greedy: bool


def _outcome(task: Task, ballots: Mapping[tuple[str, int], Ballot]) -> _Outcome:
    own = [ballots[task.id, k] for k in range(len(task.tests))]
    for k, pair in enumerate(task.tests, start=1):
        if pair.output is None:
            raise DataError("output not known", where=f"task {task.id}, test {k}")
    places = [_place(ballot, pair) for ballot, pair in zip(own, task.tests, strict=True)]
    augmentations = dict.fromkeys(a for ballot in own for a in ballot.augmentations)
    right = np.array(
        [
            [
                _is_right(ballot.answer(a), pair)
                for ballot, pair in zip(own, task.tests, strict=True)
            ]
            for a in augmentations
        ],
        dtype=bool,
    ).reshape(-1, len(own))
    greedy = all(_is_right(b.answer(), pair) for b, pair in zip(own, task.tests, strict=True))
    return _Outcome(places, right, greedy)


def _is_right(grid: np.ndarray | None, pair: Pair) -> bool:
    return grid is not None and np.array_equal(grid, pair.output)


def _place(ballot: Ballot, pair: Pair) -> int:
    ranking = ballot.ranking()
    return next((k for k, c in enumerate(ranking) if _is_right(c.grid, pair)), -1)


class Result:
    """Scores over tasks, each a mean in 0..1. A task without predictions is wrong."""

    def __init__(self, outcomes: Mapping[str, _Outcome]) -> None:
        self._outcomes = outcomes

    @property
    def tasks(self) -> int:
        """How many tasks were judged."""
        return len(self._outcomes)

    def _mean(self, values: Iterable[float]) -> float:
        return math.fsum(values) / max(self.tasks, 1)

    @property
    def exact_accuracy(self) -> float:
        """Tasks whose tests are all right without an augmentation (JPmHC's greedy accuracy)."""
        return self._mean(o.greedy for o in self._outcomes.values())

    def solved(self, k: int) -> list[str]:
        """The tasks of which every test's output is among the k best distinct grids."""
        return [
            name
            for name, outcome in self._outcomes.items()
            if all(0 <= place < k for place in outcome.places)
        ]

    def pass_at_votes(self, k: int) -> float:
        """The part of the tasks that `solved` gives: pass@k of k distinct votes."""
        return len(self.solved(k)) / max(self.tasks, 1)

    def partial_at_votes(self, k: int) -> float:
        """The same, but a task counts by the part of its tests: what the TRM's script prints."""
        return self._mean(
            sum(0 <= place < k for place in o.places) / len(o.places)
            for o in self._outcomes.values()
        )

    def pass_at_samples(self, k: int) -> float:
        """pass@k of k samples, as JPmHC defines it, each augmentation being a sample.

        Where a task has fewer than k samples all of them are taken.
        """
        return self._mean(
            pass_at_k_of_all(o.right, min(k, len(o.right))) if len(o.right) else 0.0
            for o in self._outcomes.values()
        )

    def as_dict(self, ks: Iterable[int] = (1, 2, 5, 10, 100, 1000)) -> dict[str, float | int]:
        """All scores, for metrics and summaries."""
        ks = list(ks)
        return {
            "tasks": self.tasks,
            "exact_accuracy": self.exact_accuracy,
            **{f"votes_pass@{k}": self.pass_at_votes(k) for k in ks},
            **{f"votes_partial@{k}": self.partial_at_votes(k) for k in ks},
            **{f"samples_pass@{k}": self.pass_at_samples(k) for k in ks},
        }


# ---- submissions ----


def submission(judge: Judge, attempts: int = ATTEMPTS) -> dict[str, list[dict[str, list]]]:
    """The best grids of each test in the ARC Prize's format.

    {task: [{"attempt_1": grid, "attempt_2": grid}, ...]} with an entry for each test, in order.
    Empty grids are no attempts; where there are too few the best is repeated, and where there is
    none it is a single cell of colour 0.
    """
    return {
        task.id: [_attempts(judge.ballots[task.id, k], attempts) for k in range(len(task.tests))]
        for task in judge.tasks.values()
    }


def _attempts(ballot: Ballot, attempts: int) -> dict[str, list]:
    grids = [c.grid.tolist() for c in ballot.ranking() if c.grid.size][:attempts] or [[[0]]]
    grids += grids[:1] * (attempts - len(grids))
    return {f"attempt_{k}": grid for k, grid in enumerate(grids, start=1)}


def write_submission(path: str | os.PathLike, judge: Judge, attempts: int = ATTEMPTS) -> None:
    """Writes `submission` as a JSON file, replaced as a whole.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with replacing(path) as file:
            file.write(json.dumps(submission(judge, attempts)).encode())
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot write the submission", given=given, where=path) from error


def read_submission(path: str | os.PathLike) -> dict[str, list[list[np.ndarray]]]:
    """The attempts of a submission file: by task, for each test a list of grids.

    Raises:
        DataError: the file is no submission; it names the task, the test and the attempt.
    """
    value = read_json(path, "the submission", dict)
    return {
        name: [
            _read_attempts(test, f"{path}: task {name}, test {k}")
            for k, test in enumerate(field(value, name, list, path), start=1)
        ]
        for name in value
    }


def _read_attempts(test: object, where: str) -> list[np.ndarray]:
    if not isinstance(test, dict) or "attempt_1" not in test:
        raise DataError("bad submission", expected="an attempt_1", given=test, where=where)
    grids = []
    for name in sorted(test):
        # Checked as a pair's grid is, by way of a task of that grid alone.
        pair = (test[name], test[name])
        task = Task.from_grids(name, [pair], [pair], where)
        grids.append(task.demonstrations[0].input)
    return grids


def score_submission(
    attempts: Mapping[str, Sequence[Sequence[np.ndarray]]], tasks: Iterable[Task]
) -> float:
    """The part of the tasks of which each test has a right attempt.

    Raises:
        DataError: a task is missing or has another number of tests, or an output is unknown.
    """
    solved = []
    for task in tasks:
        own = attempts.get(task.id)
        if own is None or len(own) != len(task.tests):
            given = "none" if own is None else len(own)
            expected = f"{len(task.tests)} tests"
            raise DataError(
                "bad submission", expected=expected, given=given, where=f"task {task.id}"
            )
        if any(pair.output is None for pair in task.tests):
            raise DataError("output not known", where=f"task {task.id}")
        solved.append(
            all(
                any(_is_right(grid, pair) for grid in grids)
                for grids, pair in zip(own, task.tests, strict=True)
            )
        )
    return sum(solved) / max(len(solved), 1)
