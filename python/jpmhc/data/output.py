# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Folders of data that are written beside and renamed, and can be continued after a stop.

    request = {"command": "needle", "seed": 0, "count": 1000}
    with OutputFolder(path, request) as output:
        for k in range(output.done, 1000):
            output.append("test.jsonl", ...)
            output.advance(k + 1)
        output.write_card(Card(...))

The data are written to `NAME.partial` and get their name when the block has ended without an
exception. If it is stopped, by an error or Ctrl-C, the next block with an equal request goes on
behind the last `advance`: files are cut to the size they had then, and younger ones removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
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

from jpmhc.errors import ConfigError, OutputError, shown
from jpmhc.files import replacing

__all__ = ["Card", "OutputFolder", "progress", "sha256"]

_STATE = ".progress.json"
_BLOCK = 2**20
_PAUSES = {True: 1, False: 30}  # seconds between reports, on a terminal and elsewhere
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
        OutputError: the folder has no name, exists, is being written by another process, or
            cannot be written.
    """

    def __init__(self, path: str | os.PathLike, request: Mapping) -> None:
        self.path = Path(path)
        if self.path.name in ("", "..") or "\0" in self.path.name:
            expected = "the name of a new folder"
            raise OutputError("cannot write", expected=expected, given=shown(os.fspath(path)))
        # A link to an empty folder is followed: the data take the place of that folder.
        self._target = Path(os.path.realpath(self.path))
        self.folder = self._target.with_name(self._target.name + ".partial")
        # Through JSON and back, so that it compares equal to the stored one.
        self._request = json.loads(json.dumps(request, sort_keys=True))
        self._open: dict[str, BinaryIO] = {}
        self._lock: int | None = None
        self.done = 0

    def __enter__(self) -> OutputFolder:
        with _output_errors(self.path):
            if _is_taken(self._target):
                raise OutputError("exists already", where=self.path, hint="remove it first")
            self.folder.mkdir(parents=True, exist_ok=True)
            self._lock = self._locked()
        try:
            with _output_errors(self.path):
                self._continue()
        except BaseException:
            os.close(self._lock)
            raise
        return self

    def _continue(self) -> None:
        """Takes up what is there of an equal request, or removes what is there of another."""
        names = [path.name for path in self.folder.iterdir()]
        # A process that was killed may have left a file unrenamed, the very first one too.
        kept = [name for name in names if not name.startswith(f".{_STATE}.")]
        if kept and _STATE not in kept:
            hint = "no data in the making: remove it first"
            raise OutputError("exists already", where=self.folder, hint=hint)
        state = self._stored()
        if state is None:
            for name in sorted(names, key=lambda name: name == _STATE):  # this one last
                _remove(self.folder / name)
        else:
            self._roll_back(state["sizes"])
            self.done = state["done"]
        self._store()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._flush()
            for file in self._open.values():
                with contextlib.suppress(OSError):  # flushed above if it matters
                    file.close()
            if kind is None:
                with _output_errors(self.path):
                    os.replace(self.folder, self._target)  # also onto an empty folder
                    (self._target / _STATE).unlink()
        finally:
            self._open.clear()
            os.close(self._lock)

    def file(self, name: str) -> Path:
        """The path of a file, whose folder is made; `name` may have slashes."""
        path = self.folder / name
        with _output_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def append(self, name: str, data: bytes) -> None:
        """Writes at the end of a file; `name` may have slashes."""
        with _output_errors(self.folder / name):
            if name not in self._open:
                self._open[name] = open(self.file(name), "ab")
            self._open[name].write(data)

    def size(self, name: str) -> int:
        """The bytes that a file has; 0 if there is none."""
        self._flush()
        path = self.folder / name
        with _output_errors(path):
            return path.stat().st_size if path.exists() else 0

    def advance(self, done: int) -> None:
        """All files as they are now belong to the first `done` pieces."""
        self.done = done
        self._flush()
        with _output_errors(self.folder):
            self._store()

    def _flush(self) -> None:
        """Waits until all that was appended is on disk."""
        for name, file in self._open.items():
            with _output_errors(self.folder / name):
                file.flush()
                os.fsync(file.fileno())

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
            buffer = (
                io.BytesIO()
            )  # written by NumPy itself, what a full disk cuts off is not noticed
            np.save(buffer, array, allow_pickle=False)
            file.write(buffer.getbuffer())

    def write_card(self, card: Card) -> Card:
        """Writes the card as JSON and as Markdown, with the hashes of all other files."""
        self._flush()
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

    def _locked(self) -> int:
        """A handle that keeps other processes away from the folder until it is closed."""
        handle = os.open(self.folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(handle)
            raise OutputError("another process is writing", where=self.folder) from error
        return handle

    def _stored(self) -> dict | None:
        """The state of an earlier block with an equal request, if all its files are there."""
        try:
            state = json.loads((self.folder / _STATE).read_bytes())
            found, sizes = self._sizes(), state["sizes"]
            whole = all(found.get(name, -1) >= size for name, size in sizes.items())
            return state if whole and state["request"] == self._request else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
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
        for path in [path for path in self.folder.rglob("*") if path.is_file()]:
            name = path.relative_to(self.folder).as_posix()
            if name in sizes:
                os.truncate(path, sizes[name])
            elif name != _STATE:  # hidden ones too, which a killed process has not renamed
                path.unlink()


def _is_taken(path: Path) -> bool:
    return path.exists() and not (path.is_dir() and not any(path.iterdir()))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


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
    """Passes items on and says on standard error how far it is.

    On a terminal one line is rewritten about once a second; elsewhere a line is written about
    every half minute and at the end. A total that nobody knows is None.

    Raises:
        ConfigError: a negative total.
    """
    if total is not None and total < 0:
        raise ConfigError("bad total", expected="at least 0", given=total)
    of = "" if total is None else f" of {total}"
    terminal = sys.stderr.isatty()
    pause = _PAUSES[terminal]
    began = said = time.monotonic()
    count, line_is_open = 0, False
    try:
        for item in items:
            yield item
            count += 1
            if not quiet and time.monotonic() - said > pause:
                said = time.monotonic()
                text = f"{label}: {count}{of}"
                if terminal:
                    print(f"\r{text}", end="", file=sys.stderr, flush=True)
                    line_is_open = True
                else:
                    print(text, file=sys.stderr, flush=True)
        if not quiet:
            start = "\r" if line_is_open else ""
            seconds = time.monotonic() - began
            print(f"{start}{label}: {count} in {seconds:.1f} s", file=sys.stderr)
            line_is_open = False
    finally:
        if line_is_open:
            print(file=sys.stderr)
