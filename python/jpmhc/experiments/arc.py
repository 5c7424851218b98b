# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The demo: a recursive model with hyper-connections learns ARC-AGI-1 tasks on the CPU.

    python -m jpmhc.experiments.arc --out out/demo [--quick] [--manifold stiefel] [--resume]

It learns from the demonstration pairs of the tasks whose grids fit on the canvas, augmented, and
is judged on their test pairs. In the output folder: `metrics.jsonl`, `checkpoint.safetensors`,
`report.png`, `summary.json` and `ptx/`.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import jpmhc
from jpmhc import checkpoint, manifolds, plotting
from jpmhc.averaging import MovingAverage
from jpmhc.data.arc import ArcDataset, Examples, decode_grid, load_tasks
from jpmhc.errors import CheckpointError, ConfigError, JpmhcError, OutputError, UnsupportedError
from jpmhc.eval.arc import Scores, commonest_colour, copy_input, score, vote
from jpmhc.experiments.arc_model import ArcModel, ModelConfig
from jpmhc.optim import AdamAtan2, SignSGD
from jpmhc.training import (
    GracefulInterrupt,
    MetricsWriter,
    Progress,
    Schedule,
    read_metrics,
    write_summary,
)

CHIP = "sm_100a"


@dataclass(frozen=True)
class RunConfig:
    """How the model is trained.

    Attributes:
        seed: of the parameters, the augmentations and the order of the examples.
        batch: B, grids of a step.
        depth: supervision steps that a grid stays in the batch, and steps of an evaluation.
        augmentations: of each task, the identity included.
        lr, warmup: rate of AdamAtan2 and the steps of its linear warm-up.
        weight_decay: of AdamAtan2.
        puzzle_lr, puzzle_decay: of SignSGD on the puzzle embeddings.
        average: decay of the moving average that is judged.
    """

    seed: int = 0
    batch: int = 32
    depth: int = 4
    augmentations: int = 16
    lr: float = 1e-3
    warmup: int = 50
    weight_decay: float = 0.1
    puzzle_lr: float = 1e-2
    puzzle_decay: float = 0.1
    average: float = 0.999


@dataclass(frozen=True)
class Options:
    """What the command line asks for.

    Attributes:
        out: the output folder.
        steps: training ends after this many steps in all ...
        seconds: ... or, if that is earlier, after this time.
        evaluate_every: steps between two evaluations, after which a checkpoint is written too.
        resume: whether to go on with the checkpoint in the output folder.
    """

    out: Path
    steps: int
    seconds: float
    evaluate_every: int
    resume: bool = False


# ---- batches ----


def staggered_batch(
    dataset: ArcDataset, step: int, batch: int, depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The grids of a training step, each of which stays for `depth` steps in its row.

    Rows are replaced at different times, so that every batch has grids at every depth. A function
    of the data set and the step alone.

    Returns:
        tokens i32 [B, S], labels i32 [B, S], puzzle ids i32 [B], and bool [B]: rows that begin.
    """
    ahead = step + np.arange(batch) * depth // batch
    turns = ahead // depth
    old, new = (dataset.batch(int(turn), batch) for turn in (turns[0], turns[0] + 1))
    is_new = turns > turns[0]
    tokens, labels, ids = (
        np.where(is_new.reshape(-1, *[1] * (b.ndim - 1)), b, a)
        for a, b in (
            (old.tokens, new.tokens),
            (old.labels, new.labels),
            (old.puzzle_ids, new.puzzle_ids),
        )
    )
    fresh = np.full(batch, True) if step == 0 else ahead % depth == 0
    return tokens, labels, ids, fresh


# ---- evaluation ----


class Evaluator:
    """Runs the model on examples it never trained on, from the initial states."""

    def __init__(self, model: ArcModel, batch: int, depth: int) -> None:
        self._initial = model.initial_state(batch)
        self._batch, self._depth = batch, depth
        cells = jpmhc.spec((batch, model.config.canvas**2), "i32")
        ids = jpmhc.spec((batch,), "i32")
        self._step = jpmhc.compile(model.supervision_step, self._initial, cells, ids)

    def predict(self, examples: Examples) -> np.ndarray:
        """The most likely tokens, int64 [E, S]."""
        found = []
        for batch in examples.batches(self._batch):
            state = self._initial
            for _ in range(self._depth):
                state, logits = self._step(state, batch.tokens, batch.puzzle_ids)
            found.append(logits.argmax(-1)[: batch.count])
        return np.concatenate(found)


def voted_exact(dataset: ArcDataset, examples: Examples, predictions: np.ndarray) -> int:
    """Test grids that are right by a vote of the predictions under all augmentations.

    Each prediction is turned back before the vote; `examples` are those of
    `dataset.held_out(augmentations)`.
    """
    candidates: dict[tuple[int, int], list[np.ndarray]] = {}
    for (task, pair, number), tokens in zip(examples.origins, predictions, strict=True):
        grid = decode_grid(tokens, dataset.canvas)
        back = dataset.augmentation(task, number).invert(grid)
        candidates.setdefault((task, pair), []).append(back)
    return sum(
        np.array_equal(vote(grids), dataset.tasks[task].tests[pair].output)
        for (task, pair), grids in candidates.items()
    )


def baselines(dataset: ArcDataset, examples: Examples) -> dict[str, Scores]:
    """Scores of two predictions that know no rule, for comparison."""
    canvas = dataset.canvas
    colour = commonest_colour(examples, dataset.tasks, canvas)
    return {
        "copy the input": score(copy_input(examples, canvas), examples.labels, canvas),
        "commonest colour": score(colour, examples.labels, canvas),
    }


def samples(
    dataset: ArcDataset, examples: Examples, predictions: np.ndarray, count: int = 8
) -> list[plotting.Sample]:
    """Every so many-th test pair, whether right or not."""
    chosen = np.linspace(0, len(examples) - 1, count).round().astype(int)
    found = []
    for row in chosen:
        task, pair, _ = examples.origins[row]
        truth = dataset.tasks[task].tests[pair]
        prediction = decode_grid(predictions[row], dataset.canvas)
        found.append(
            plotting.Sample(dataset.tasks[task].id, truth.input, truth.output, prediction)
        )
    return found


# ---- the run ----


class Run:
    """A model in training with all that belongs to it.

    Args:
        tasks: such as `jpmhc.data.arc.load_tasks` gives.
        run: how to train.
        sizes: fields of `ModelConfig` to change.
    """

    def __init__(self, tasks: Sequence, run: RunConfig, **sizes: object) -> None:
        self.config = run
        self.dataset = ArcDataset(tasks, augmentations=run.augmentations, seed=run.seed)
        puzzles, canvas = self.dataset.num_puzzles, self.dataset.canvas
        self.model = ArcModel(ModelConfig(puzzles=puzzles, canvas=canvas, **sizes))
        self.model.init(run.seed)
        began = time.monotonic()
        self.step = self._compiled_step()
        self.held_out = self.dataset.held_out()
        self.evaluator = Evaluator(self.model, len(self.held_out), run.depth)
        self.compile_seconds = time.monotonic() - began
        self.average = MovingAverage(self.model, run.average)
        self.schedule = Schedule(run.lr, warmup=run.warmup)
        self.puzzle_schedule = Schedule(run.puzzle_lr, warmup=run.warmup)

    def _compiled_step(self) -> jpmhc.TrainStep:
        run = self.config
        return jpmhc.TrainStep(
            self.model,
            self.model.loss,
            AdamAtan2(lr=run.lr, weight_decay=run.weight_decay),
            *self.batch(0),
            sparse_optimizer=SignSGD(lr=run.puzzle_lr, weight_decay=run.puzzle_decay),
            carry=self.model.initial_state(run.batch),
        )

    def batch(self, step: int) -> tuple[np.ndarray, ...]:
        """The batch of a training step."""
        return staggered_batch(self.dataset, step, self.config.batch, self.config.depth)

    @property
    def tokens_per_step(self) -> int:
        """Tokens that a step reads, those of the puzzle included."""
        return self.config.batch * self.model.config.tokens

    def advance(self) -> float:
        """Takes a step; returns its loss."""
        number = self.step.step
        loss = self.step(
            *self.batch(number), lr=self.schedule(number), sparse_lr=self.puzzle_schedule(number)
        )
        self.average.update(self.step.step)
        return loss

    def predictions(self, examples: Examples) -> np.ndarray:
        """Predicted tokens [E, S] of the averaged model."""
        with self.average.applied():
            return self.evaluator.predict(examples)

    def evaluate(self) -> Scores:
        """Scores of the averaged model on the test pairs."""
        return score(
            self.predictions(self.held_out), self.held_out.labels, self.dataset.canvas
        )

    # ---- checkpoints ----

    def description(self) -> dict[str, dict]:
        """What a checkpoint must agree in to be continued."""
        return {
            "run": dataclasses.asdict(self.config),
            "model": dataclasses.asdict(self.model.config),
        }

    def _sections(self) -> dict[str, Mapping[str, np.ndarray]]:
        return {**self.step.sections(), "average": self.average.arrays}

    def save(self, path: Path) -> None:
        """Writes a checkpoint."""
        checkpoint.save(path, self._sections(), step=self.step.step, config=self.description())

    def load(self, path: Path) -> None:
        """Goes on from a checkpoint.

        Raises:
            CheckpointError: it does not fit, or was made by another configuration.
        """
        _check_same(self.description(), checkpoint.read_metadata(path).config, path)
        self.step.step = checkpoint.load(path, self._sections()).step


def _check_same(own: Mapping, stored: Mapping, path: Path) -> None:
    for part, values in own.items():
        for name, value in values.items():
            given = stored.get(part, {}).get(name)
            if given != value:
                raise CheckpointError(
                    f"made with another {name}", expected=value, given=given, where=path
                )


def train(run: Run, options: Options) -> float:
    """Trains until the options say stop, or Ctrl-C; leaves metrics and a checkpoint.

    Returns:
        seconds that training took, evaluations included.
    """
    saved = options.out / "checkpoint.safetensors"
    if options.resume:
        run.load(saved)
    start = run.step.step
    began = time.monotonic()
    with (
        MetricsWriter(options.out / "metrics.jsonl", resume_at=start or None) as metrics,
        Progress(
            max(options.steps, 1), start=start, tokens_per_step=run.tokens_per_step
        ) as progress,
        GracefulInterrupt(lambda: progress.log("stopping after this step")) as interrupt,
    ):
        finished = run.step.step >= options.steps
        while not finished:
            loss = run.advance()
            done, elapsed = run.step.step, time.monotonic() - began
            metrics.write(done, loss=loss)
            progress.update(done, loss=loss)
            if not math.isfinite(loss):
                raise ConfigError(f"the loss is {loss} at step {done}", hint="lower the rate")
            finished = done >= options.steps or elapsed > options.seconds or interrupt.requested
            if finished or done % options.evaluate_every == 0:
                scores = run.evaluate()
                metrics.write(done, **scores.as_dict(), seconds=elapsed)
                progress.update(done, cells=scores.cell_accuracy)
                run.save(saved)
    return time.monotonic() - began
