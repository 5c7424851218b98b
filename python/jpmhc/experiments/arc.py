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
import functools
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import jpmhc
from jpmhc import checkpoint, knobs, manifolds, plotting
from jpmhc.averaging import MovingAverage
from jpmhc.data.arc import (
    ArcPuzzles,
    Examples,
    Task,
    TaskSets,
    TrainingBatches,
    decode_grid,
    load_tasks,
)
from jpmhc.errors import (
    CheckpointError,
    ConfigError,
    JpmhcError,
    MissingDependencyError,
    OutputError,
)
from jpmhc.eval.arc import Scores, commonest_colour, copy_input, score
from jpmhc.eval.arc_votes import Ballot
from jpmhc.experiments.arc_model import PLAIN, ArcModel, ModelConfig
from jpmhc.optim import AdamAtan2, SignSGD
from jpmhc.profiling import Profile, profile
from jpmhc.training import (
    GracefulInterrupt,
    MetricsWriter,
    Progress,
    Schedule,
    read_metrics,
    write_summary,
)

CHIP = "sm_100a"
CANVAS = 6  # side of the canvas; tasks with larger grids are left out
STEPS, EVALUATE_EVERY = 2000, 100
QUICK_STEPS, QUICK_EVALUATE_EVERY = 120, 40


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

    @property
    def checkpoint(self) -> Path:
        """Where the checkpoint is."""
        return self.out / "checkpoint.safetensors"


# ---- batches ----


def puzzles_of(tasks: Sequence[Task], run: RunConfig) -> ArcPuzzles:
    """The tasks, whose demonstrations are learnt and whose tests are judged, for a small canvas."""
    return ArcPuzzles(
        TaskSets((), tuple(tasks)),
        variants=run.augmentations,
        canvas=CANVAS,
        seed=run.seed,
        translate=False,
    )


def batches_of(puzzles: ArcPuzzles, batch: int, seed: int) -> TrainingBatches:
    """Batches in which at most one percent of the examples is dropped."""
    demonstrations = sum(len(task.demonstrations) for task in puzzles.tasks)
    epochs = -(-100 * batch // demonstrations)
    return TrainingBatches(puzzles.training, batch, seed=seed, epochs=epochs)


def staggered_batch(
    batches: TrainingBatches, step: int, depth: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The grids of a training step, each of which stays for `depth` steps in its row.

    Rows are replaced at different times, so that every batch has grids at every depth. A function
    of the data and the step alone.

    Returns:
        tokens i32 [B, S], labels i32 [B, S], puzzle ids i32 [B], and bool [B]: rows that begin.
    """
    batch = batches.batch_size
    ahead = step + np.arange(batch) * depth // batch
    turns = ahead // depth
    old, new = (batches.at_step(int(turn)) for turn in (turns[0], turns[0] + 1))
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
    """Runs the model on examples it never trained on, from the initial states.

    Compiled when it is first used.
    """

    def __init__(self, model: ArcModel, batch: int, depth: int) -> None:
        self._model = model
        self._initial = model.initial_state(batch)
        self._batch, self._depth = batch, depth

    @functools.cached_property
    def _step(self) -> Callable:
        cells = jpmhc.spec((self._batch, self._model.config.canvas**2), "i32")
        ids = jpmhc.spec((self._batch,), "i32")
        return jpmhc.compile(self._model.supervision_step, self._initial, cells, ids)

    def predict(self, examples: Examples) -> np.ndarray:
        """The most likely tokens, int64 [E, S]."""
        found = []
        for first in range(0, len(examples), self._batch):
            rows = slice(first, first + self._batch)
            tokens, ids = examples.inputs[rows], examples.puzzle_ids[rows]
            fill = self._batch - len(ids)
            tokens = np.pad(tokens, ((0, fill), (0, 0))).astype(np.int32)
            ids = np.pad(ids, (0, fill))
            state = self._initial
            for _ in range(self._depth):
                state, logits = self._step(state, tokens, ids)
            found.append(logits.argmax(-1)[: self._batch - fill])
        return np.concatenate(found)


def voted_exact(puzzles: ArcPuzzles, examples: Examples, predictions: np.ndarray) -> int:
    """Test grids that are right by a vote of the predictions under all augmentations.

    Each prediction is turned back before the vote; `examples` are those of
    `puzzles.evaluation.materialise(augmentations)`.
    """
    ballots: dict[tuple[int, int], Ballot] = {}
    for (task, pair, variant), tokens in zip(examples.origins, predictions, strict=True):
        augmentation = puzzles.augmentation(task, variant)
        back = augmentation.invert(decode_grid(tokens, puzzles.canvas))
        ballots.setdefault((task, pair), Ballot()).add(back, augmentation=augmentation)
    return sum(
        np.array_equal(ballot.ranking()[0].grid, puzzles.tasks[task].tests[pair].output)
        for (task, pair), ballot in ballots.items()
    )


def baselines(puzzles: ArcPuzzles, examples: Examples) -> dict[str, Scores]:
    """Scores of two predictions that know no rule, for comparison."""
    canvas = puzzles.canvas
    colour = commonest_colour(examples, puzzles.tasks, canvas)
    return {
        "copy the input": score(copy_input(examples, canvas), examples.labels, canvas),
        "commonest colour": score(colour, examples.labels, canvas),
    }


def samples(
    puzzles: ArcPuzzles, examples: Examples, predictions: np.ndarray, count: int = 8
) -> list[plotting.Sample]:
    """Every so many-th test pair, whether right or not."""
    chosen = np.linspace(0, len(examples) - 1, count).round().astype(int)
    found = []
    for row in chosen:
        task, pair, _ = examples.origins[row]
        truth = puzzles.tasks[task].tests[pair]
        prediction = decode_grid(predictions[row], puzzles.canvas)
        found.append(plotting.Sample(puzzles.tasks[task].id, truth.input, truth.output, prediction))
    return found


# ---- the run ----


def compiled_step(
    model: ArcModel, run: RunConfig, batch: tuple[np.ndarray, ...], target: str = "cpu"
) -> jpmhc.TrainStep:
    """The training step of a model for batches such as this one."""
    return jpmhc.TrainStep(
        model,
        model.loss,
        AdamAtan2(lr=run.lr, weight_decay=run.weight_decay),
        *batch,
        sparse_optimizer=SignSGD(lr=run.puzzle_lr, weight_decay=run.puzzle_decay),
        carry=model.initial_state(len(batch[0])),
        target=target,
    )


class Run:
    """A model in training with all that belongs to it.

    Args:
        tasks: such as `jpmhc.data.arc.load_tasks` gives.
        run: how to train.
        sizes: fields of `ModelConfig` to change.

    Attributes:
        compile_seconds: that tracing and compiling the training step took.
        started_at: steps that a checkpoint had done before.
    """

    def __init__(self, tasks: Sequence, run: RunConfig, **sizes: object) -> None:
        self.config = run
        self.puzzles = puzzles_of(tasks, run)
        self.batches = batches_of(self.puzzles, run.batch, run.seed)
        ids = self.puzzles.num_puzzle_ids
        self.model = ArcModel(ModelConfig(puzzles=ids, canvas=CANVAS, **sizes))
        self.model.init(run.seed)
        batch = self.batch(0)
        began = time.monotonic()
        self.step = compiled_step(self.model, run, batch)
        self.compile_seconds = time.monotonic() - began
        self.held_out = self.puzzles.evaluation.materialise()
        self.evaluator = Evaluator(self.model, len(self.held_out), run.depth)
        self.average = MovingAverage(self.model, run.average)
        self.schedule = Schedule(run.lr, warmup=run.warmup)
        self.puzzle_schedule = Schedule(run.puzzle_lr, warmup=run.warmup)
        self.started_at = 0

    def batch(self, step: int) -> tuple[np.ndarray, ...]:
        """The batch of a training step."""
        return staggered_batch(self.batches, step, self.config.depth)

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
        return score(self.predictions(self.held_out), self.held_out.labels, self.puzzles.canvas)

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
        self.started_at = self.step.step


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
            # Where a step's time goes, unless the user is tracing it all.
            look = (run.step.step + 1) % options.evaluate_every == 0 and not knobs.get("trace")
            with profile() if look else contextlib.nullcontext(Profile()) as times:
                loss = run.advance()
            done, elapsed = run.step.step, time.monotonic() - began
            metrics.write(done, loss=loss)
            progress.update(done, loss=loss)
            if not math.isfinite(loss):
                raise ConfigError(f"the loss is {loss} at step {done}", hint="lower the rate")
            finished = done >= options.steps or elapsed > options.seconds or interrupt.requested
            if finished or done % options.evaluate_every == 0:
                scores = run.evaluate()
                norms = run.step.gradient_norms()
                metrics.write(done, **scores.as_dict(), seconds=elapsed, gradient_norms=norms)
                if look:
                    metrics.write(done, kernel_seconds=times.seconds_by_kernel())
                progress.update(done, cells=scores.cell_accuracy)
                run.save(options.checkpoint)
    return time.monotonic() - began


# ---- what is left in the output folder ----


def write_ptx(run: Run, folder: Path) -> dict[str, object]:
    """Writes the step's kernels as PTX with a report; returns what the summary says of them.

    The bytes in the report are counted by the emulator, which takes a step of the trained model
    on one grid with the very same kernels; its loss is given beside the CPU's.
    """
    model = ArcModel(run.model.config).init()
    model.load_state_dict(run.model.state_dict())
    batch = staggered_batch(batches_of(run.puzzles, 1, run.config.seed), 0, run.config.depth)
    state = model.initial_state(1)
    loss, _ = jpmhc.compile(model.loss, state, *batch)(state, *batch)
    emulated = compiled_step(model, run.config, batch, target="emulator")
    losses = {"cpu_loss": float(loss), "emulated_loss": emulated(*batch)}
    return {"chip": CHIP, **losses, **run.step.write_ptx(folder, CHIP, measured=emulated)}


def finish(run: Run, options: Options, seconds: float) -> dict[str, object]:
    """Judges the trained model and writes report and summary; returns the summary."""
    records = read_metrics(options.out / "metrics.jsonl")
    losses = [record["loss"] for record in records if "loss" in record]
    examples = run.puzzles.evaluation.materialise(run.config.augmentations)
    predictions = run.predictions(examples)
    plain = examples.origins[:, 2] == 0
    scores = score(predictions[plain], run.held_out.labels, run.puzzles.canvas)
    others = baselines(run.puzzles, run.held_out)
    speed = run.tokens_per_step * (run.step.step - run.started_at) / max(seconds, 1e-9)
    summary = {
        **run.description(),
        "parameters": run.model.num_parameters,
        "tasks": len(run.puzzles.tasks),
        "steps": run.step.step,
        "train_seconds": round(seconds, 2),
        "tokens_per_second": round(speed),
        "compile_seconds": round(run.compile_seconds, 2),
        "planned_peak_bytes": run.step.planned_peak_bytes,
        "threads": jpmhc.get_num_threads(),
        "first_loss": losses[0] if losses else None,
        "last_loss": float(np.mean(losses[-20:])) if losses else None,
        "test": scores.as_dict(),
        "voted_exact_grids": voted_exact(run.puzzles, examples, predictions),
        "baselines": {name: value.as_dict() for name, value in others.items()},
        "ptx": write_ptx(run, options.out / "ptx"),
    }
    write_summary(options.out / "summary.json", **summary)
    draw(run, options.out / "report.png", records, others, predictions[plain])
    return summary


def draw(
    run: Run,
    path: Path,
    records: Sequence[Mapping],
    others: Mapping[str, Scores],
    predictions: np.ndarray,
) -> None:
    """Draws the report, if matplotlib is installed."""
    manifold, steps = run.model.config.manifold, run.step.step
    residual = "plain residuals" if manifold == PLAIN else f"{manifold} hyper-connections"
    try:
        plotting.report(
            path,
            records,
            baselines={name: value.cell_accuracy for name, value in others.items()},
            samples=samples(run.puzzles, run.held_out, predictions),
            title=f"ARC-AGI-1, grids up to 6×6: {residual}, {steps} steps",
        )
    except MissingDependencyError as error:
        print(f"no report.png: {error}", file=sys.stderr)


def describe(summary: Mapping) -> str:
    """The result in a few lines."""
    rows = [("model", summary["test"]), *summary["baselines"].items()]
    lines = ["", f"{'':18}cells   colours  exact grids"]
    for name, scores in rows:
        lines.append(
            f"{name:18}{scores['cell_accuracy']:.3f}   {scores['colour_accuracy']:.3f}    "
            f"{scores['exact_grids']} of {scores['grids']}"
        )
    lines.append(f"by a vote of the augmentations {summary['voted_exact_grids']} exact grids")
    lines.append(
        f"loss {summary['first_loss']:.3f} → {summary['last_loss']:.3f} in {summary['steps']} "
        f"steps, {summary['train_seconds']:.0f} s, {summary['tokens_per_second']} tokens/s"
    )
    ptx = summary["ptx"]
    lines.append(
        f"{ptx['kernels']} kernels for {ptx['chip']} ({ptx['assembler']}); loss of a grid on the "
        f"emulator {ptx['emulated_loss']:.6f}, on the CPU {ptx['cpu_loss']:.6f}"
    )
    return "\n".join(lines)


# ---- command line ----


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m jpmhc.experiments.arc", description=__doc__.splitlines()[0]
    )
    add = result.add_argument
    add("--out", type=Path, default=Path("out/demo"), help="output folder (%(default)s)")
    add("--quick", action="store_true", help="a short run of at most a minute")
    add("--manifold", default="stiefel", help="identity for plain residuals (%(default)s)")
    add("--steps", type=int, help="end after this many steps in all")
    add("--minutes", type=float, help="or after this time (5, with --quick 1)")
    add("--seed", type=int, default=0, help="of parameters, augmentation and order (%(default)s)")
    add("--resume", action="store_true", help="go on with the checkpoint in the output folder")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the demo; the exit code is 1 after an error, which is said in one line."""
    given = parser().parse_args(arguments)
    try:
        demo(given)
    except JpmhcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def demo(given: argparse.Namespace) -> dict[str, object]:
    """The demo with parsed arguments; returns the summary."""
    options = _options(given)
    if given.manifold != PLAIN:
        manifolds.get(given.manifold)  # raises for an unknown one, before the long way there
    _make_folder(options.out)
    tasks = load_tasks(CANVAS)
    print(f"{len(tasks)} tasks; compiling the training step ...", file=sys.stderr)
    run = Run(tasks, RunConfig(seed=given.seed), manifold=given.manifold)
    if options.resume:
        run.load(options.checkpoint)
    print(
        f"compiled in {run.compile_seconds:.1f} s: {run.model.num_parameters} parameters, "
        f"{run.step.planned_peak_bytes / 2**20:.0f} MiB of temporaries",
        file=sys.stderr,
    )
    summary = finish(run, options, train(run, options))
    print(describe(summary))
    return summary


def _options(given: argparse.Namespace) -> Options:
    steps, minutes = (QUICK_STEPS, 1.0) if given.quick else (STEPS, 5.0)
    steps = steps if given.steps is None else given.steps
    minutes = minutes if given.minutes is None else given.minutes
    if steps < 1:
        raise ConfigError("--steps", expected="at least 1", given=steps)
    if not minutes > 0:
        raise ConfigError("--minutes", expected="a number > 0", given=minutes)
    every = QUICK_EVALUATE_EVERY if given.quick else EVALUATE_EVERY
    return Options(given.out, steps, 60 * minutes, every, given.resume)


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot make the output folder", given=given, where=path) from error


if __name__ == "__main__":
    sys.exit(main())
