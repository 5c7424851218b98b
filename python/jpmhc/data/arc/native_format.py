# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Puzzles in a few small files: the tasks and the list of their variants.

    FOLDER/dataset.json    format, canvas, seed, whether translated, training and evaluation tasks
    FOLDER/variants.npy    uint8 [P, 11]: of each puzzle the symmetry and the ten colours
    FOLDER/variants_of.npy int64 [tasks]: how many variants a task has, training set first

The examples themselves are made from these when they are asked for. The variants are stored, not
only their seed, so that the data stay the same if the way of drawing ever changes.
"""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from jpmhc.data.arc.augment import Variants
from jpmhc.data.arc.puzzles import ArcPuzzles
from jpmhc.data.arc.tasks import Task, TaskSets
from jpmhc.data.arc.tokens import NUM_COLOURS
from jpmhc.data.output import OutputFolder
from jpmhc.data.reading import field, load_array, read_json
from jpmhc.errors import ConfigError, DataError

FORMAT, VERSION = "jpmhc-arc", 1
_FIELDS = {
    "format": str,
    "version": int,
    "canvas": int,
    "seed": int,
    "translate": bool,
    "origin": str,
    "training": dict,
    "evaluation": dict,
}


def write(output: OutputFolder, puzzles: ArcPuzzles) -> None:
    """Writes puzzles into an open folder.

    Raises:
        OutputError: a file cannot be written.
    """
    rows = [np.column_stack([v.dihedral, v.colours]) for v in puzzles.variants]
    output.write_array("variants.npy", np.concatenate(rows))
    output.write_array("variants_of.npy", np.array([len(v) for v in puzzles.variants], np.int64))
    description = {
        "format": FORMAT,
        "version": VERSION,
        "canvas": puzzles.canvas,
        "seed": puzzles.seed,
        "translate": puzzles.translate,
        "origin": puzzles.sets.origin,
        "training": {task.id: task.to_json() for task in puzzles.sets.training},
        "evaluation": {task.id: task.to_json() for task in puzzles.sets.evaluation},
    }
    output.write_json("dataset.json", description)


def read(path: str | os.PathLike) -> ArcPuzzles:
    """The puzzles of a folder.

    Raises:
        DataError: a file is missing or malformed; it names the file and the field.
    """
    path = Path(path)
    where = path / "dataset.json"
    description = read_json(where, "the description", dict)
    values = {name: field(description, name, kind, where) for name, kind in _FIELDS.items()}
    given = (values["format"], values["version"])
    if given != (FORMAT, VERSION):
        raise DataError("other format", expected=(FORMAT, VERSION), given=given, where=where)
    training, evaluation = (
        tuple(Task.from_json(name, task, where) for name, task in values[part].items())
        for part in ("training", "evaluation")
    )
    sets = TaskSets(training, evaluation, values["origin"])
    variants = _split(path, len(sets))
    options = {name: values[name] for name in ("canvas", "seed", "translate")}
    try:
        return ArcPuzzles.restored(sets, variants, **options)
    except (ConfigError, DataError) as error:
        place = f"{where}: {error.where}" if error.where else where
        raise DataError(
            error.message, expected=error.expected, given=error.given, where=place
        ) from error


def _split(path: Path, tasks: int) -> list[Variants]:
    """The variants of each task."""
    where = path / "variants_of.npy"
    counts = load_array(where)
    if counts.shape != (tasks,) or counts.dtype.kind not in "iu" or (counts < 1).any():
        expected = f"{tasks} positive integers"
        given = f"{counts.dtype} {list(counts.shape)}"
        raise DataError("bad numbers of variants", expected=expected, given=given, where=where)
    where = path / "variants.npy"
    rows = load_array(where)
    if rows.dtype != np.uint8 or rows.shape != (counts.sum(), 1 + NUM_COLOURS):
        expected = f"uint8 {[int(counts.sum()), 1 + NUM_COLOURS]}"
        given = f"{rows.dtype} {list(rows.shape)}"
        raise DataError("bad variants", expected=expected, given=given, where=where)
    names = np.sort(rows[:, 1:], axis=1) == np.arange(NUM_COLOURS)
    wrong = np.flatnonzero((rows[:, 0] > 7) | (rows[:, 1] != 0) | ~names.all(axis=1))
    if wrong.size:
        expected = "a symmetry 0..7 and a permutation of 0..9 that keeps 0"
        given = f"{rows[wrong[0]].tolist()} in row {wrong[0]}"
        raise DataError("bad variants", expected=expected, given=given, where=where)
    parts = np.split(rows, np.cumsum(counts)[:-1])
    return [Variants(part[:, 0], part[:, 1:]) for part in parts]
