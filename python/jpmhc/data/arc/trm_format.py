# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The files that the scripts of TRM and HRM write and read.

    DIR/identifiers.json                     the name of each puzzle id, `<blank>` first
    DIR/test_puzzles.json                    the judged tasks in the official format
    DIR/{train,test}/dataset.json            sizes and special tokens
    DIR/{train,test}/SET__inputs.npy         uint8 [E, S], tokens (so also SET__labels.npy)
    DIR/{train,test}/SET__puzzle_identifiers.npy  int32 [P]
    DIR/{train,test}/SET__puzzle_indices.npy      int32 [P + 1]
    DIR/{train,test}/SET__group_indices.npy       int32 [G + 1]

A folder may have several sets, named in `dataset.json`; the scripts for ARC make one, `all`.
"""

from __future__ import annotations

import io
import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from jpmhc.data.arc.puzzles import BLANK_PUZZLE, ArcPuzzles, ExampleTable, PuzzleExamples
from jpmhc.data.arc.tasks import Task
from jpmhc.data.arc.tokens import IGNORE, PAD, VOCABULARY_SIZE
from jpmhc.data.output import OutputFolder
from jpmhc.data.reading import as_text, field, load_array, read_json
from jpmhc.errors import DataError

SPLITS = ("train", "test")
ROWS_AT_ONCE = 2048
_TOKEN_FIELDS = ("inputs", "labels")
_INDEX_FIELDS = ("puzzle_identifiers", "puzzle_indices", "group_indices")


# ---- writing ----


def write(
    output: OutputFolder,
    puzzles: ArcPuzzles,
    watch: Callable[[Iterable[int], int], Iterable[int]] = lambda steps, total: steps,
) -> None:
    """Writes puzzles into a folder of data; continues where an earlier writing stopped.

    Args:
        output: an open folder.
        puzzles: what to write.
        watch: passes on the steps, of which it is given the number, to show progress.

    Raises:
        OutputError: a file cannot be written.
    """
    tables = {
        split: table
        for split, table in zip(SPLITS, (puzzles.training, puzzles.evaluation), strict=True)
        if len(table)
    }
    jobs = [
        (split, table, first)
        for split, table in tables.items()
        for first in range(0, len(table), ROWS_AT_ONCE)
    ]
    for number in watch(range(output.done, len(jobs)), len(jobs) - output.done):
        _write_rows(output, *jobs[number])
        output.advance(number + 1)
    for split, table in tables.items():
        _write_indices(output, split, table)
        output.write_json(f"{split}/dataset.json", _metadata(puzzles, table))
    output.write_json("identifiers.json", puzzles.identifiers())
    tests = {task.id: _with_dummies(task) for task in puzzles.sets.evaluation}
    output.write_json("test_puzzles.json", tests)


def _write_rows(output: OutputFolder, split: str, table: PuzzleExamples, first: int) -> None:
    batch = table.batch(np.arange(first, min(first + ROWS_AT_ONCE, len(table))))
    labels = np.where(batch.labels == IGNORE, PAD, batch.labels)
    for name, rows in zip(_TOKEN_FIELDS, (batch.tokens, labels), strict=True):
        data = rows.astype(np.uint8).tobytes()
        if first == 0:
            data = _header((len(table), table.sequence_length)) + data
        output.append(f"{split}/all__{name}.npy", data)


def _header(shape: tuple[int, int]) -> bytes:
    """What a `.npy` file of uint8 begins with."""
    header = io.BytesIO()
    description = {"descr": "|u1", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(header, description)
    return header.getvalue()


def _write_indices(output: OutputFolder, split: str, table: ExampleTable) -> None:
    arrays = (table.puzzle_ids, table.puzzle_indices, table.group_indices)
    for name, array in zip(_INDEX_FIELDS, arrays, strict=True):
        output.write_array(f"{split}/all__{name}.npy", array.astype(np.int32))


def _metadata(puzzles: ArcPuzzles, table: ExampleTable) -> dict[str, object]:
    return {
        "pad_id": PAD,
        "ignore_label_id": PAD,
        "blank_identifier_id": BLANK_PUZZLE,
        "vocab_size": VOCABULARY_SIZE,
        "seq_len": table.sequence_length,
        "num_puzzle_identifiers": puzzles.num_puzzle_ids,
        "total_groups": table.num_groups,
        "mean_puzzle_examples": len(table) / max(table.num_puzzles, 1),
        "total_puzzles": table.num_puzzles,
        "sets": ["all"],
    }


def _with_dummies(task: Task) -> dict[str, list]:
    """The task in the official format; an unknown output is [[0]], as the scripts have it."""
    value = task.to_json()
    for pair in value["test"]:
        pair.setdefault("output", [[0]])
    return value


# ---- reading ----


class StoredExamples(ExampleTable):
    """Examples in files, read when they are asked for.

    Attributes:
        inputs, labels: uint8 [E, S] (or another integer type), mapped from the files.
        num_puzzle_ids: rows of a table of puzzle embeddings.
    """

    def __init__(self, folder: Path, set_name: str, metadata: Mapping) -> None:
        self._where, self._set = folder, set_name
        self.inputs, self.labels = (
            load_array(self._file(name), mapped=True) for name in _TOKEN_FIELDS
        )
        ids, puzzles, groups = (load_array(self._file(name)) for name in _INDEX_FIELDS)
        self._pad, self._ignored = metadata["pad_id"], metadata.get("ignore_label_id")
        self.num_puzzle_ids = metadata["num_puzzle_identifiers"]
        self._check(ids, puzzles, groups, metadata["seq_len"])
        super().__init__(groups, puzzles, ids, math.isqrt(metadata["seq_len"]))

    def _file(self, name: str) -> Path:
        return self._where / f"{self._set}__{name}.npy"

    def _check(self, ids: np.ndarray, puzzles: np.ndarray, groups: np.ndarray, length: int) -> None:
        def fail(name: str, expected: object, given: object) -> None:
            where = self._file(name)
            raise DataError("bad array", expected=expected, given=given, where=where)

        for name, array in zip(_TOKEN_FIELDS, (self.inputs, self.labels), strict=True):
            expected = [*self.inputs.shape[:1], length]
            if array.dtype.kind not in "iu" or list(array.shape) != expected:
                fail(name, f"integers {expected}", f"{array.dtype} {list(array.shape)}")
        for name, array, end in (
            ("puzzle_indices", puzzles, len(self.inputs)),
            ("group_indices", groups, puzzles.size - 1),
        ):
            if array.dtype.kind not in "iu" or array.ndim != 1 or not len(array):
                fail(name, "a list of integers", f"{array.dtype} {list(array.shape)}")
            if array[0] != 0 or array[-1] != end or (np.diff(array.astype(np.int64)) <= 0).any():
                fail(name, f"rising from 0 to {end}", f"{array[0]} to {array[-1]}")
        if ids.shape != (len(puzzles) - 1,) or ids.dtype.kind not in "iu":
            fail("puzzle_identifiers", [len(puzzles) - 1], list(ids.shape))
        if ids.size and not (ids.min() >= 0 and ids.max() < self.num_puzzle_ids):
            fail("puzzle_identifiers", f"0..{self.num_puzzle_ids - 1}", f"{ids.min()}..{ids.max()}")

    def _encode(self, rows: np.ndarray, puzzles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        inputs, labels = (self._tokens(name, rows) for name in _TOKEN_FIELDS)
        if self._ignored is not None:
            labels[labels == self._ignored] = IGNORE
        return inputs, labels

    def _tokens(self, name: str, rows: np.ndarray) -> np.ndarray:
        tokens = getattr(self, name)[rows].astype(np.int32)
        wrong = (tokens < 0) | (tokens >= VOCABULARY_SIZE)
        if wrong.any():
            row, place = np.argwhere(wrong)[0]
            expected = f"tokens 0..{VOCABULARY_SIZE - 1}"
            where = f"{self._file(name)}: row {rows[row]}"
            raise DataError("bad token", expected=expected, given=tokens[row, place], where=where)
        return tokens


class TrmFolder:
    """Data as TRM's or HRM's scripts write them.

    Attributes:
        identifiers: the name of each puzzle id.
        tests: the judged tasks; empty where the folder does not say.
        training, evaluation: the examples of `train` and `test`, None where there are none.

    Args:
        path: the folder.
        set_name: which of the sets named in `dataset.json`; the first if None.

    Raises:
        DataError: a file is missing or malformed; it names the file and the field.
    """

    def __init__(self, path: str | os.PathLike, set_name: str | None = None) -> None:
        path = Path(path)
        names = path / "identifiers.json"
        self.identifiers: list[str] = [
            as_text(name, f"identifier {k}", names)
            for k, name in enumerate(read_json(names, "the names", list))
        ]
        tests = path / "test_puzzles.json"
        puzzles = read_json(tests, "the tests", dict) if tests.exists() else {}
        self.tests = tuple(Task.from_json(name, task, tests) for name, task in puzzles.items())
        self.training, self.evaluation = (
            self._examples(path / split, set_name) if (path / split).is_dir() else None
            for split in SPLITS
        )
        if self.training is None and self.evaluation is None:
            raise DataError("no data", expected="a folder train or test", where=path)

    def _examples(self, folder: Path, set_name: str | None) -> StoredExamples:
        path = folder / "dataset.json"
        metadata = read_json(path, "the description", dict)
        _check_metadata(metadata, path)
        names: Sequence[str] = metadata["sets"]
        if set_name is not None and set_name not in names:
            raise DataError("no such set", expected=names, given=set_name, where=path)
        stored = StoredExamples(folder, set_name or names[0], metadata)
        if len(self.identifiers) < stored.num_puzzle_ids:
            expected = f"{stored.num_puzzle_ids} names"
            where = folder.parent / "identifiers.json"
            raise DataError(
                "bad names", expected=expected, given=len(self.identifiers), where=where
            )
        return stored


def _check_metadata(metadata: Mapping, path: Path) -> None:
    for name in ("pad_id", "vocab_size", "seq_len", "num_puzzle_identifiers"):
        value = field(metadata, name, int, path)
        if value < 0:
            raise DataError(f"bad field {name!r}", expected="at least 0", given=value, where=path)
    if math.isqrt(metadata["seq_len"]) ** 2 != metadata["seq_len"]:
        expected, given = "a square of the canvas", metadata["seq_len"]
        raise DataError("bad field 'seq_len'", expected=expected, given=given, where=path)
    if metadata["pad_id"] != PAD or metadata["vocab_size"] != VOCABULARY_SIZE:
        expected = f"pad_id {PAD} and vocab_size {VOCABULARY_SIZE}"
        given = f"{metadata['pad_id']} and {metadata['vocab_size']}"
        raise DataError("not of ARC", expected=expected, given=given, where=path)
    if metadata.get("ignore_label_id") is not None:
        field(metadata, "ignore_label_id", int, path)
    sets = field(metadata, "sets", list, path)
    if not sets:
        raise DataError("bad field 'sets'", expected="a name at least", given=sets, where=path)
    for name in sets:
        as_text(name, "sets", path)
