# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the subcommands for texts share: files of JSON lines, and texts with marked pieces."""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

from jpmhc.data.ahead import by_processes
from jpmhc.data.output import OutputFolder, progress

__all__ = ["DRAWN", "Lines", "add_text_options", "marked", "places", "show", "write_lines"]

DRAWN = 8  # instances of a picture, unless --preview says how many
_INSTANCES_PER_SAVE = 16
_SHOWN = 240  # characters of a stretch without marks
_COLOURS = {
    "needle": "\033[1;32m",
    "bridge": "\033[1;33m",
    "other": "\033[36m",
    "document": "\033[1;33m",
    "answer": "\033[1m",
}
_PLAIN = "\033[0m"


@dataclass(frozen=True)
class Lines:
    """A file of JSON lines in the making.

    Attributes:
        name: of the file.
        indices: of the instances.
        make: gives the record of an instance.
    """

    name: str
    indices: Sequence[int]
    make: Callable[[int], dict]


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """The options of all subcommands for texts."""
    add = parser.add_argument
    add("--tokenizer", default="byte", help="byte, a *.model or a *.json file (%(default)s)")
    add("--png", metavar="FILE", help="draw where things lie in the first --preview ones (8)")
    add("--licence", default="not stated", help="of the source, for the data card")


def write_lines(output: OutputFolder, files: Sequence[Lines], *, workers: int, quiet: bool) -> None:
    """Writes all instances, beginning behind those of an interrupted run.

    Raises:
        OutputError: as `OutputFolder` and `by_processes`.
    """
    global _files
    _files = files
    done = output.done
    jobs = ((k, index) for k, file in enumerate(files) for index in file.indices)
    rest = sum(len(file.indices) for file in files) - done
    with closing(by_processes(_text, islice(jobs, done, None), min(workers, rest))) as texts:
        for number, text in progress(texts, rest, "instances", quiet=quiet):
            output.append(files[number].name, text)
            done += 1
            if done % _INSTANCES_PER_SAVE == 0:
                output.advance(done)


_files: Sequence[Lines] = ()  # what a worker makes, inherited when its process is forked


def _text(job: tuple[int, int]) -> tuple[int, bytes]:
    number, index = job
    line = json.dumps(_files[number].make(index), ensure_ascii=False)
    return number, f"{line}\n".encode()


def show(title: str, text: str) -> None:
    """Prints a preview."""
    print(f"--- {title}")
    print(text, end="\n\n")


def marked(text: str, marks: Iterable[tuple[int, int, str]]) -> str:
    """A text with pieces (begin, end, kind) in colour on a terminal, else in brackets.

    Long stretches without marks are shortened.
    """
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    pieces, done = [], 0
    for begin, end, kind in sorted(marks):
        if begin < done:
            continue
        pieces.append(_shortened(text[done:begin]))
        piece = text[begin:end]
        pieces.append(f"{_COLOURS[kind]}{piece}{_PLAIN}" if coloured else f"[{kind}: {piece}]")
        done = end
    return "".join([*pieces, _shortened(text[done:])])


def _shortened(text: str) -> str:
    if len(text) <= _SHOWN:
        return text
    half = _SHOWN // 2
    return f"{text[:half]} ... {len(text) - 2 * half} characters ... {text[-half:]}"


def places(text: str, pieces: Iterable[str], kind: str) -> Iterator[tuple[int, int, str]]:
    """Where some pieces occur in a text."""
    for piece in pieces:
        for match in re.finditer(re.escape(piece), text):
            yield match.start(), match.end(), kind
