# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Documents of tokens as rows of equal length, with the boundaries between documents kept.

A row has pieces of documents one after the other. `segments` numbers them, `positions` starts
anew in each, and no label reaches from one document into the next:

    tokens      T h e   e n d .  |  A   n e w   o n e
    segments    0 0 0 0 0 0 0 0  1  1 1 1 1 1 1 1 1
    positions   0 1 2 3 4 5 6 7  0  1 2 3 4 5 6 7 8
    labels      h e   e n d . |  -  n ...

Row i of epoch e depends on the documents, the options, the seed, e and i alone, so that any
number of workers, shards and restarts sees the same rows.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np

from jpmhc.data import philox, reading
from jpmhc.data.ahead import by_threads, check_workers
from jpmhc.data.checks import MOST, one_of, whole
from jpmhc.data.output import OutputFolder
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import ConfigError, DataError, RangeError

__all__ = [
    "IGNORE",
    "MODES",
    "Batch",
    "Documents",
    "PackedDataset",
    "Position",
    "attention_mask",
    "encode_text",
    "read_documents",
    "write_documents",
]

IGNORE = -100
MODES = ("split", "whole", "single")
NO_SEGMENT = -1  # of what fills up the end of a row

_STREAM_DOCUMENTS, _STREAM_ROWS = 48, 49
_TOKENS, _SIZES, _ANSWERS = "tokens.bin", "sizes.bin", "answers.bin"
_MANIFEST = "manifest.json"
_NUMBER = np.dtype("<u4")
_FORMAT = "jpmhc-documents-1"
_DOCUMENTS_PER_SAVE = 512
_DTYPES = ("<u2", "<u4")  # of tokens on disk
_WHAT = "the documents"  # in errors

Item = TypeVar("Item")
Encoded = tuple[np.ndarray, int]  # tokens, and the index of the first to be predicted


@dataclass(frozen=True)
class Batch:
    """Rows for a step: int32 [B, T] each.

    Attributes:
        tokens: what the model sees.
        labels: the token that follows each, `IGNORE` where a document ends and in the filling.
        segments: numbers the documents of a row from 0; -1 in the filling.
        positions: how far each token is from the beginning of its segment.
    """

    tokens: np.ndarray
    labels: np.ndarray
    segments: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True)
class Position:
    """Where a run over the data is: `step` batches of `epoch` are done."""

    epoch: int = 0
    step: int = 0


def attention_mask(segments: np.ndarray) -> np.ndarray:
    """Which tokens may look at which, bool [B, T, T]: mask[b, i, j] is whether i sees j.

    A token sees itself and those before it of the same document; the filling sees itself.
    """
    size = segments.shape[-1]
    same = segments[:, :, None] == segments[:, None, :]
    return same & np.tri(size, dtype=bool)


class Documents:
    """Tokens of many documents in one array.

    Args:
        tokens: integers [all], the documents one after the other.
        sizes: integers [documents], the tokens of each, all positive.
        answers: integers [documents] or None: the first token of each document that is to be
            predicted; by default all but a document's first are.

    Raises:
        DataError: the sizes do not add up, a document is empty, or there are not as many answers.
    """

    def __init__(
        self, tokens: np.ndarray, sizes: np.ndarray, answers: Sequence[int] | None = None
    ) -> None:
        sizes = np.asarray(sizes, dtype=np.int64)
        if (sizes < 1).any():
            where = f"document {int(np.argmax(sizes < 1))}"
            raise DataError("empty document", expected="a token at least", given=0, where=where)
        if sizes.sum() != tokens.size:
            message = "sizes of documents do not add up"
            raise DataError(message, expected=tokens.size, given=sizes.sum())
        self.tokens, self.sizes = tokens, sizes
        self.begins = np.cumsum(sizes) - sizes
        self.answers = None if answers is None else np.asarray(answers, dtype=np.int64)
        if self.answers is not None and self.answers.shape != sizes.shape:
            given = list(self.answers.shape)
            raise DataError("bad answers", expected=list(sizes.shape), given=given)

    @classmethod
    def from_arrays(
        cls, documents: Iterable[Sequence[int] | np.ndarray], answers: Sequence[int] | None = None
    ) -> Documents:
        """Documents in memory.

        Raises:
            DataError: none, or an empty one.
        """
        arrays = [np.asarray(document, dtype=np.int32).reshape(-1) for document in documents]
        if not arrays:
            raise DataError("no documents")
        return cls(np.concatenate(arrays), np.array([array.size for array in arrays]), answers)

    @classmethod
    def open(cls, folder: str | os.PathLike) -> Documents:
        """What `write_documents` has written; the tokens stay on disk.

        Raises:
            DataError: a file is missing, damaged, or of another format.
        """
        where = Path(folder, _MANIFEST)
        manifest = reading.read_json(where, _WHAT, dict)
        if manifest.get("format") != _FORMAT:
            given = manifest.get("format")
            raise DataError("unknown format", expected=_FORMAT, given=given, where=where)
        dtype = reading.field(manifest, "dtype", str, where)
        if dtype not in _DTYPES:
            raise DataError("bad field 'dtype'", expected=_DTYPES, given=dtype, where=where)
        counts = tuple(
            reading.field(manifest, name, int, where) for name in ("documents", "tokens")
        )
        try:
            sizes, answers = (
                np.fromfile(Path(folder, name), dtype=_NUMBER) for name in (_SIZES, _ANSWERS)
            )
            tokens = np.memmap(Path(folder, _TOKENS), dtype=dtype, mode="r")
        except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
            raise reading.unreadable(folder, _WHAT, error) from error
        if (len(sizes), tokens.size) != counts or len(answers) != len(sizes):
            expected = "{} documents of {} tokens".format(*counts)
            given = f"{min(len(sizes), len(answers))} of {tokens.size}"
            raise DataError("damaged documents", expected=expected, given=given, where=folder)
        return cls(tokens, sizes, answers)

    def __len__(self) -> int:
        return len(self.sizes)

    def document(self, index: int) -> np.ndarray:
        """The tokens of a document, int32 [size]."""
        begin = self.begins[index]
        return self.tokens[begin : begin + self.sizes[index]].astype(np.int32)


@dataclass(frozen=True, eq=False)
class _Plan:
    """The rows of an epoch: row r has the spans first[r] .. first[r + 1] - 1 of documents."""

    document: np.ndarray
    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray


class PackedDataset:
    """Rows of documents in random order.

    Args:
        documents: what to pack.
        length: T, tokens of a row.
        mode: "split" puts all documents into one stream and cuts it every T tokens: no filling,
            and what is left at the end of an epoch is not used. "whole" puts each document into
            the row with the least room that is enough (best fit); only those longer than T are
            cut. "single" gives every document rows of its own.
        seed: 0 <= seed < 2**64.
        padding: the token that fills up rows.
        shuffle: whether documents and rows are in a random order, another one each epoch.

    Raises:
        ConfigError: an unknown mode, or a length below 1.
        DataError: the documents do not fill one row.
    """

    def __init__(
        self,
        documents: Documents,
        *,
        length: int,
        mode: str = "split",
        seed: int = 0,
        padding: int = 0,
        shuffle: bool = True,
    ) -> None:
        one_of("mode", mode, MODES)
        self.documents, self.length, self.mode = documents, whole("length", length, 1, MOST), mode
        self.seed, self.shuffle = philox.check_seed(seed), shuffle
        self.padding = whole("padding", padding, -(2**31), 2**31 - 1)
        self._plan = lru_cache(maxsize=2)(self._make_plan)  # this epoch's and the next one's
        if not self.rows(0):
            expected = f"at least {length} tokens"
            raise DataError("too few documents", expected=expected, given=documents.tokens.size)

    def rows(self, epoch: int) -> int:
        """How many rows an epoch has.

        Raises:
            ConfigError: a negative epoch.
        """
        return len(self._plan(whole("epoch", epoch, 0))[0].first) - 1

    def steps(self, epoch: int, batch_size: int, *, shards: int = 1) -> int:
        """How many batches each shard gets in an epoch; what does not fill one is left out.

        Raises:
            ConfigError: a batch size or number of shards below 1.
        """
        rows_a_step = whole("batch_size", batch_size, 1, MOST) * whole("shards", shards, 1)
        return self.rows(epoch) // rows_a_step

    def row(self, epoch: int, index: int) -> Batch:
        """One row as a batch of one.

        Raises:
            RangeError: the epoch has no such row.
            ConfigError: a negative epoch.
        """
        return self._gather(epoch, np.array([whole("row", index)]))

    def batch(
        self, position: Position, batch_size: int, *, shard: int = 0, shards: int = 1
    ) -> Batch:
        """The batch at a position, for one of several processes that train together.

        Raises:
            RangeError: the epoch has no such step.
            ConfigError: a batch size or shard out of range.
        """
        shard = whole("shard", shard, 0, whole("shards", shards, 1) - 1)
        steps = self.steps(position.epoch, batch_size, shards=shards)
        if not 0 <= whole("step", position.step) < steps:
            raise RangeError("no such step", expected=f"0..{steps - 1}", given=position.step)
        begin = (position.step * shards + shard) * batch_size
        return self._gather(position.epoch, np.arange(begin, begin + batch_size))

    def batches(
        self,
        batch_size: int,
        *,
        start: Position | None = None,
        epochs: int | None = None,
        shard: int = 0,
        shards: int = 1,
        workers: int = 0,
    ) -> Iterator[tuple[Position, Batch]]:
        """Batches from a position on, each with the position to go on from after it.

        Args:
            start: by default the beginning.
            epochs: the epoch to stop before; None: never.
            workers: threads that make batches ahead; the batches are the same for any number.

        Raises:
            ConfigError: as `batch`, or an epoch has fewer rows than a batch.
        """
        places = self._places(batch_size, start or Position(), epochs, shards)

        def make(place: tuple[Position, Position]) -> tuple[Position, Batch]:
            return place[1], self.batch(place[0], batch_size, shard=shard, shards=shards)

        yield from by_threads(make, places, check_workers(workers))

    def _places(
        self, batch_size: int, start: Position, epochs: int | None, shards: int
    ) -> Iterator[tuple[Position, Position]]:
        """Every position and the one after it."""
        epoch, step = start.epoch, start.step
        while epochs is None or epoch < epochs:
            steps = self.steps(epoch, batch_size, shards=shards)
            if not steps:
                expected = f"at most {self.rows(epoch)} rows a step"
                given = batch_size * shards
                raise ConfigError("batch larger than the data", expected=expected, given=given)
            for k in range(step, steps):
                after = Position(epoch, k + 1) if k + 1 < steps else Position(epoch + 1)
                yield Position(epoch, k), after
            epoch, step = epoch + 1, 0

    # How documents are laid out.

    def _make_plan(self, epoch: int) -> tuple[_Plan, np.ndarray]:
        """The rows of an epoch as they are filled, and the order in which they come."""
        count = len(self.documents)
        order = np.arange(count)
        if self.shuffle:
            order = philox.permutation(self.seed, _STREAM_DOCUMENTS, (epoch,), count)
        plan = self._split(order) if self.mode == "split" else self._whole(order)
        rows = len(plan.first) - 1
        if not self.shuffle:
            return plan, np.arange(rows)
        return plan, philox.permutation(self.seed, _STREAM_ROWS, (epoch,), rows)

    def _split(self, order: np.ndarray) -> _Plan:
        ends = np.cumsum(self.documents.sizes[order])
        rows = int(ends[-1]) // self.length if ends.size else 0
        cuts = np.arange(rows + 1, dtype=np.int64) * self.length
        edges = np.union1d(cuts, ends[ends < cuts[-1]])
        at = np.searchsorted(ends, edges[:-1], side="right")
        document = order[at]
        start = ends[at] - self.documents.sizes[document]
        return _Plan(document, edges[:-1] - start, edges[1:] - start, np.searchsorted(edges, cuts))

    def _whole(self, order: np.ndarray) -> _Plan:
        sizes = self.documents.sizes[order]
        pieces = -(-sizes // self.length)
        document = np.repeat(order, pieces)
        number = np.arange(document.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
        begin = number * self.length
        end = np.minimum(begin + self.length, np.repeat(sizes, pieces))
        if self.mode == "single":
            return _Plan(document, begin, end, np.arange(document.size + 1))
        row = self._best_fit((end - begin).tolist())
        by_row = np.argsort(row, kind="stable")
        first = np.searchsorted(row[by_row], np.arange(row.max(initial=-1) + 2))
        return _Plan(document[by_row], begin[by_row], end[by_row], first)

    def _best_fit(self, sizes: list[int]) -> np.ndarray:
        """The row of each piece: of those that have room for it, one with the least room."""
        rows: list[int] = []
        open_rows: list[list[int]] = [[] for _ in range(self.length)]  # by the room they have
        rooms: list[int] = []  # that some open row has, sorted
        count = 0
        for size in sizes:
            at = bisect.bisect_left(rooms, size)
            if at == len(rooms):
                row, room = count, self.length
                count += 1
            else:
                room = rooms[at]
                row = open_rows[room].pop()
                if not open_rows[room]:
                    del rooms[at]
            room -= size
            if room:
                if not open_rows[room]:
                    bisect.insort(rooms, room)
                open_rows[room].append(row)
            rows.append(row)
        return np.array(rows, dtype=np.int64)

    def _gather(self, epoch: int, indices: np.ndarray) -> Batch:
        plan, order = self._plan(whole("epoch", epoch, 0))
        wrong = indices[(indices < 0) | (indices >= order.size)]
        if wrong.size:
            raise RangeError("no such row", expected=f"0..{order.size - 1}", given=wrong[0])
        shape = (len(indices), self.length)
        tokens = np.full(shape, self.padding, dtype=np.int32)
        labels = np.full(shape, IGNORE, dtype=np.int32)
        segments = np.full(shape, NO_SEGMENT, dtype=np.int32)
        positions = np.zeros(shape, dtype=np.int32)
        for row, index in enumerate(order[indices]):
            at = 0
            for segment, span in enumerate(range(plan.first[index], plan.first[index + 1])):
                size = int(plan.end[span] - plan.begin[span])
                place = (row, slice(at, at + size))
                tokens[place], labels[place] = self._span(plan, span)
                segments[place] = segment
                positions[place] = np.arange(size)
                at += size
        return Batch(tokens, labels, segments, positions)

    def _span(self, plan: _Plan, span: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and labels of a piece of a document."""
        document, begin, end = plan.document[span], plan.begin[span], plan.end[span]
        size = int(self.documents.sizes[document])
        start = int(self.documents.begins[document])
        after = min(end + 1, size)
        text = self.documents.tokens[start + begin : start + after].astype(np.int32)
        labels = np.full(end - begin, IGNORE, dtype=np.int32)
        labels[: after - begin - 1] = text[1:]
        if self.documents.answers is not None:
            answer = int(self.documents.answers[document])
            labels[: max(answer - begin - 1, 0)] = IGNORE
        return text[: end - begin], labels


def read_documents(
    path: str | os.PathLike, *, field: str = "text", separator: str | None = None
) -> Iterator[str]:
    """The documents of a file, one after the other.

    Args:
        path: `*.jsonl` with an object on each line; anything else is text.
        field: of those objects, the text.
        separator: of a text file, the line between documents; by default it is one document.

    Raises:
        DataError: the file cannot be read, is not UTF-8, or a line is malformed; it names line
            and field.
    """
    if Path(path).suffix == ".jsonl":
        for where, record in reading.json_lines(path, _WHAT):
            yield reading.field(record, field, str, where)
        return
    try:
        with open(path, encoding="utf-8-sig") as file:
            yield from _parts(file, separator)
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            raise DataError("not UTF-8", given=error.reason, where=path) from error
        raise reading.unreadable(path, _WHAT, error) from error


def _parts(lines: Iterable[str], separator: str | None) -> Iterator[str]:
    part: list[str] = []
    for line in lines:
        if separator is not None and line.rstrip("\n") == separator:
            yield "".join(part)
            part = []
        else:
            part.append(line)
    yield "".join(part)


def encode_text(text: str, tokenizer: Tokenizer) -> Encoded:
    """A document of which every token counts, with the end token if it has any other."""
    document = tokenizer.encode(text)
    if document.size and tokenizer.end is not None:
        document = np.append(document, np.int32(tokenizer.end))
    return document, 0


def write_documents(
    output: OutputFolder,
    items: Iterable[Item],
    encode: Callable[[Item], Encoded],
    tokenizer: Tokenizer,
    *,
    sources: Sequence[dict],
) -> dict:
    """Tokenize documents into a folder for `Documents.open`, in constant memory.

    Documents without tokens are left out. What an earlier run of an equal request has done is
    not tokenized again.

    Args:
        output: an open folder.
        items: the documents, such as texts.
        encode: gives the tokens of an item, and the first of them that is to be predicted.
        tokenizer: what `encode` uses, for the manifest.
        sources: what to say of the files in the manifest.

    Returns:
        The manifest.

    Raises:
        OutputError: the folder cannot be written.
        DataError: no document has a token, or `items` cannot be read or encoded.
    """
    dtype = np.dtype(_DTYPES[tokenizer.vocabulary_size > 2**16])
    types = {_TOKENS: dtype, _SIZES: _NUMBER, _ANSWERS: _NUMBER}
    number = -1
    for number, item in enumerate(items):
        if number < output.done:
            continue
        document, answer = encode(item)
        if document.size:
            values = (document, [document.size], [answer])
            for (name, kind), value in zip(types.items(), values, strict=True):
                output.append(name, np.asarray(value).astype(kind).tobytes())
        if (number + 1) % _DOCUMENTS_PER_SAVE == 0:
            output.advance(number + 1)
    tokens, documents, _ = (output.size(name) // kind.itemsize for name, kind in types.items())
    if not tokens:
        raise DataError("no document has a token", given=f"{number + 1} documents")
    manifest = {
        "format": _FORMAT,
        "dtype": dtype.str,
        "documents": documents,
        "tokens": tokens,
        "tokenizer": _described(tokenizer),
        "sources": list(sources),
    }
    output.write_json(_MANIFEST, manifest)
    return manifest


def _described(tokenizer: Tokenizer) -> dict:
    return {
        "name": tokenizer.name,
        "sha256": tokenizer.fingerprint,
        "vocabulary_size": tokenizer.vocabulary_size,
        "end": tokenizer.end,
    }
