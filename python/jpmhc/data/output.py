# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of data that are written beside and renamed, and can be continued after a stop.

    request = {"command": "needle", "seed": 0, "count": 1000}
    with OutputFolder(path, request) as output:
        for k in range(output.done, 1000):
            with output.appending("test.jsonl") as lines:
                lines.write(...)
            output.advance(k + 1)
        output.write_card(Card(...))

The data are written to `NAME.partial` and get their name when the block has ended without an
exception. If it is stopped, by an error or Ctrl-C, the next block with an equal request goes on
behind the last `advance`: files are cut to the size they had then, and younger ones removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from jpmhc.errors import ConfigError, OutputError
from jpmhc.files import replacing

__all__ = ["Card", "OutputFolder", "progress", "sha256"]

_STATE = ".progress.json"
_BLOCK = 2**20
_CARD_JSON, _CARD_MARKDOWN = "card.json", "README.md"


@dataclass(frozen=True)
class Card:
    """What a data set is.

    Attributes:
        title: one line.
        command_line: that made it.
        source: where the raw data come from.
        licence: of the source.
        counts: by name, such as {"tasks": 400}.
        notes: sentences on how it was made.
    """

    title: str
    command_line: str
    source: str
    licence: str
    counts: Mapping[str, int | float]
    notes: tuple[str, ...] = ()
    hashes: Mapping[str, str] = field(default_factory=dict)

    def markdown(self) -> str:
        """The card as a page."""
        lines = [f"# {self.title}", "", f"    {self.command_line}", ""]
        lines += [f"- source: {self.source}", f"- licence: {self.licence}", "", "## Counts", ""]
        lines += [f"- {name}: {value}" for name, value in self.counts.items()]
        if self.notes:
            lines += ["", "## How it was made", "", *(f"- {note}" for note in self.notes)]
        lines += ["", "## Files (SHA-256)", ""]
        lines += [f"- `{name}`: {digest}" for name, digest in self.hashes.items()]
        return "\n".join(lines) + "\n"


def sha256(path: str | os.PathLike) -> str:
    """The SHA-256 of a file's bytes, in hexadecimal digits."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


class OutputFolder:
    """A folder that is there whole or not at all; see the module.

    Args:
        path: its name; it must not exist, or be empty.
        request: all that the contents depend on, as JSON can hold it.

    Attributes:
        done: how much was done before, as last given to `advance`; 0 at first.
        folder: where to write; it has another name in the end.

    Raises:
        OutputError: the folder exists, or cannot be written.
    """

    def __init__(self, path: str | os.PathLike, request: Mapping) -> None:
        self.path = Path(path)
        self.folder = self.path.with_name(self.path.name + ".partial")
        # Through JSON and back, so that it compares equal to the stored one.
        self._request = json.loads(json.dumps(request, sort_keys=True))
        self.done = 0

    def __enter__(self) -> OutputFolder:
        with _output_errors(self.path):
            if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
                raise OutputError("exists already", where=self.path, hint="remove it first")
            state = self._stored()
            if state is None:
                shutil.rmtree(self.folder, ignore_errors=True)
                self.folder.mkdir(parents=True)
            else:
                self._roll_back(state["sizes"])
                self.done = state["done"]
            self._store()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            with _output_errors(self.path):
                (self.folder / _STATE).unlink()
                if self.path.exists():
                    self.path.rmdir()
                os.replace(self.folder, self.path)

    def file(self, name: str) -> Path:
        """The path of a file, whose folder is made; `name` may have slashes."""
        path = self.folder / name
        with _output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def advance(self, done: int) -> None:
        """All files as they are now belong to the first `done` pieces. Flush them before."""
        self.done = done
        with _output_errors(self.folder):
            self._store()

    @contextlib.contextmanager
    def appending(self, name: str) -> Iterator[BinaryIO]:
        """A file to write at its end; all is handed to the system when the block ends."""
        with _output_errors(self.file(name)), open(self.file(name), "ab") as file:
            yield file

    def write_text(self, name: str, text: str) -> None:
        """Writes a whole file of UTF-8."""
        with _output_errors(self.file(name)), replacing(self.file(name)) as file:
            file.write(text.encode())

    def write_json(self, name: str, value: object) -> None:
        """Writes a whole file of JSON."""
        self.write_text(name, json.dumps(value, ensure_ascii=False) + "\n")

    def write_array(self, name: str, array: np.ndarray) -> None:
        """Writes a whole file of NumPy's format."""
        with _output_errors(self.file(name)), replacing(self.file(name)) as file:
            np.save(file, array, allow_pickle=False)

    def write_card(self, card: Card) -> Card:
        """Writes the card as JSON and as Markdown, with the hashes of all other files."""
        with _output_errors(self.folder):
            hashes = {
                name: sha256(self.folder / name)
                for name in sorted(self._sizes())
                if name not in (_CARD_JSON, _CARD_MARKDOWN)
            }
        card = Card(**{**asdict(card), "hashes": hashes})
        text = json.dumps(asdict(card), indent=2, ensure_ascii=False)
        self.write_text(_CARD_JSON, text + "\n")
        self.write_text(_CARD_MARKDOWN, card.markdown())
        return card

    # ---- what was done before ----

    def _stored(self) -> dict | None:
        """The state of an earlier block with an equal request."""
        try:
            state = json.loads((self.folder / _STATE).read_bytes())
            return state if state["request"] == self._request else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _store(self) -> None:
        state = {"request": self._request, "done": self.done, "sizes": self._sizes()}
        with replacing(self.folder / _STATE) as file:
            file.write(json.dumps(state).encode())

    def _sizes(self) -> dict[str, int]:
        return {
            path.relative_to(self.folder).as_posix(): path.stat().st_size
            for path in self.folder.rglob("*")
            if path.is_file() and not path.name.startswith(".")
        }

    def _roll_back(self, sizes: Mapping[str, int]) -> None:
        for name, size in self._sizes().items():
            if name not in sizes:
                (self.folder / name).unlink()
            elif size > sizes[name]:
                os.truncate(self.folder / name, sizes[name])


class _output_errors:
    """Turns the system's errors into `OutputError`."""

    def __init__(self, where: Path) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OSError):
            given = error.strerror or error
            raise OutputError("cannot write", given=given, where=self._where) from error


def progress(items: Iterable, total: int | None, label: str, *, quiet: bool = False) -> Iterator:
    """Passes items on and says on standard error how far it is, about once a second.

    On a terminal one line is rewritten; elsewhere only the end is said. A total that nobody knows
    is None.

    Raises:
        ConfigError: a negative total.
    """
    if total is not None and total < 0:
        raise ConfigError("bad total", expected="at least 0", given=total)
    of = "" if total is None else f" of {total}"
    terminal = sys.stderr.isatty() and not quiet
    began = said = time.monotonic()
    count = 0
    for item in items:
        yield item
        count += 1
        if terminal and time.monotonic() - said > 1:
            said = time.monotonic()
            print(f"\r{label}: {count}{of}", end="", file=sys.stderr, flush=True)
    if not quiet:
        seconds = time.monotonic() - began
        start = "\r" if terminal else ""
        print(f"{start}{label}: {count} in {seconds:.1f} s", file=sys.stderr)
