# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Documents or instructions, tokenized for packed training."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jpmhc.data import packing, strips, tokenizers
from jpmhc.data.commands import _instances
from jpmhc.data.instructions import Example, encode_example, read_alpaca
from jpmhc.data.output import Card, OutputFolder, progress, sha256
from jpmhc.data.packing import (
    Documents,
    PackedDataset,
    encode_text,
    read_documents,
    write_documents,
)
from jpmhc.data.reading import unreadable
from jpmhc.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    add = parser.add_argument
    add("files", type=Path, nargs="+", metavar="FILE", help="*.jsonl, or text")
    add("--alpaca", action="store_true", help="files are Alpaca's JSON; the loss is on answers")
    add("--field", default="text", help="of JSON lines, the text (%(default)s)")
    add("--separator", metavar="LINE", help="between documents of a text (a file is one)")
    add("--length", type=int, default=1024, help="of rows, for --preview, --stats and --png, and "
        "of instructions (%(default)s)")  # fmt: skip
    add("--mode", choices=packing.MODES, help="of rows (split; with --alpaca single)")
    add("--seed", type=int, default=0, help="of rows (%(default)s)")
    _instances.add_text_options(parser)


def run(options: argparse.Namespace) -> None:
    """Tokenizes the documents and shows, counts and writes them as asked for."""
    if options.length < 1:
        raise ConfigError("--length", expected="at least 1", given=options.length)
    tokenizer = tokenizers.load(options.tokenizer)
    if options.output is not None:
        _write(options, tokenizer)
    if options.preview or options.stats or options.png or options.output is None:
        dataset = PackedDataset(
            _documents(options, tokenizer),
            length=options.length,
            mode=options.mode or ("single" if options.alpaca else "split"),
            seed=options.seed,
        )
        for index in range(min(options.preview, dataset.rows(0))):
            show(dataset, tokenizer, index)
        if options.png:
            draw(options.png, dataset, options.preview or _instances.DRAWN)
        if options.stats or not (options.preview or options.output or options.png):
            print("\n".join(f"{name}: {value}" for name, value in count(dataset).items()))


def _documents(options: argparse.Namespace, tokenizer: tokenizers.Tokenizer) -> Documents:
    """What was written, or the files' documents in memory."""
    if options.output is not None:
        return Documents.open(options.output)
    encoded = map(_encoder(options, tokenizer), _items(options))
    kept = [(tokens, answer) for tokens, answer in encoded if tokens.size]
    return Documents.from_arrays([tokens for tokens, _ in kept], [answer for _, answer in kept])


def _items(options: argparse.Namespace) -> Iterator[str | Example]:
    for path in options.files:
        if options.alpaca:
            yield from read_alpaca(path)
        else:
            yield from read_documents(path, field=options.field, separator=options.separator)


def _encoder(options: argparse.Namespace, tokenizer: tokenizers.Tokenizer):
    if options.alpaca:
        return lambda example: encode_example(example, tokenizer, length=options.length)
    return lambda text: encode_text(text, tokenizer)


def count(dataset: PackedDataset) -> dict[str, int | float]:
    """What a packed data set is, in numbers."""
    sizes = dataset.documents.sizes
    rows = dataset.rows(0)
    first = dataset.batch(packing.Position(), min(rows, 64))
    return {
        "documents": len(sizes),
        "tokens": int(sizes.sum()),
        "tokens of the shortest document": int(sizes.min()),
        "tokens of the longest document": int(sizes.max()),
        f"rows of {dataset.length} tokens": rows,
        "filling of the first rows": round(float((first.segments < 0).mean()), 4),
        "tokens to be predicted in the first rows, of all": round(
            float((first.labels != packing.IGNORE).mean()), 4
        ),
        "documents in the first rows, on average": float((first.segments.max(axis=1) + 1).mean()),
    }


def show(dataset: PackedDataset, tokenizer: tokenizers.Tokenizer, index: int) -> None:
    """Prints a row with the beginning of each document marked."""
    batch = dataset.row(0, index)
    tokens, segments = batch.tokens[0], batch.segments[0]
    pieces = [tokenizer.decode(tokens[segments == k]) for k in range(segments.max() + 1)]
    text, marks = "", []
    for number, piece in enumerate(pieces):
        label = f"{number}:"
        marks.append((len(text), len(text) + len(label), "document"))
        text += f"{label}\n{piece}\n"
    title = f"row {index}, {dataset.length} tokens, {int((segments < 0).sum())} of them filling"
    _instances.show(title, _instances.marked(text, marks))


def draw(path: str, dataset: PackedDataset, number: int) -> None:
    """Draws the documents of the first rows."""
    kinds = [f"{place} document" for place in ("first", "second", "third", "fourth", "fifth")]
    rows = []
    for index in range(min(number, dataset.rows(0))):
        segments = dataset.row(0, index).segments[0]
        sizes = np.bincount(segments[segments >= 0])
        begins = np.cumsum(sizes) - sizes
        pieces = [
            (int(begin), int(begin + size), kinds[k % len(kinds)])
            for k, (begin, size) in enumerate(zip(begins, sizes, strict=True))
        ]
        note = f"{len(sizes)} documents"
        rows.append(strips.Strip(f"row {index}", dataset.length, tuple(pieces), note))
    title = f"documents packed into rows of {dataset.length} tokens, mode {dataset.mode}"
    strips.draw(path, rows, kinds, title=title, unit="tokens (grey: filling)")


def _digest(path: Path) -> str:
    try:
        return sha256(path)
    except OSError as error:
        raise unreadable(path, "the documents", error) from error


def _write(options: argparse.Namespace, tokenizer: tokenizers.Tokenizer) -> None:
    sources = [{"name": path.name, "sha256": _digest(path)} for path in options.files]
    request = {
        "command": "pack",
        "sources": sources,
        "field": options.field,
        "separator": options.separator,
        "alpaca": options.length if options.alpaca else None,
        "tokenizer": tokenizer.fingerprint,
    }
    with OutputFolder(options.output, request) as output:
        items = progress(_items(options), None, "documents", quiet=options.quiet)
        encode = _encoder(options, tokenizer)
        manifest = write_documents(output, items, encode, tokenizer, sources=sources)
        named = ", ".join(f"{source['name']} (SHA-256 {source['sha256']})" for source in sources)
        output.write_card(
            Card(
                title="Tokenized documents",
                command_line=options.command_line,
                source=named,
                licence=options.licence,
                counts={name: manifest[name] for name in ("documents", "tokens")},
                notes=(
                    f"tokenizer: {tokenizer.name} (SHA-256 {tokenizer.fingerprint}), "
                    f"{tokenizer.vocabulary_size} tokens, end token {tokenizer.end}",
                    "read them with jpmhc.data.packing.Documents.open",
                ),
            )
        )
