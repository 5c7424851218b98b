# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files of records: what is wrong in one is said with its file, record and field."""

from __future__ import annotations

import json
import os
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc.errors import DataError

__all__ = [
    "as_text",
    "decoded",
    "field",
    "json_lines",
    "load_array",
    "parse_json",
    "read_bytes",
    "read_json",
    "read_records",
    "unreadable",
]

_KINDS = {
    bool: "true or false",
    dict: "an object",
    int: "a whole number",
    list: "a list",
    str: "a text",
}


def read_bytes(path: str | os.PathLike, what: str) -> bytes:
    """The content of a file.

    Args:
        path: the file.
        what: to call it in the error, such as "the questions".

    Raises:
        DataError: the file cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise unreadable(path, what, error) from error


def unreadable(path: object, what: str, error: Exception) -> DataError:
    """The error for a file that cannot be read, to be raised."""
    given = getattr(error, "strerror", None) or error
    return DataError(f"cannot read {what}", given=given, where=path)


def decoded(content: bytes, where: object) -> str:
    """A text of UTF-8, without the mark that some editors begin it with.

    Raises:
        DataError: it is not UTF-8; it names the byte.
    """
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"{where}: byte {error.start}"
        raise DataError("not UTF-8", given=error.reason, where=place) from error


def read_json(path: str | os.PathLike, what: str, kind: type | None = None) -> Any:
    """The value of a JSON file in UTF-8.

    Args:
        path, what: as for `read_bytes`.
        kind: what it must be, `dict` or `list`; None: anything.

    Raises:
        DataError: as `read_bytes` and `parse_json`, or it is of another kind.
    """
    value = parse_json(decoded(read_bytes(path, what), path), path)
    if kind is not None and not isinstance(value, kind):
        given = _KINDS.get(type(value), type(value).__name__)
        raise DataError("bad file", expected=_KINDS[kind], given=given, where=path)
    return value


def parse_json(text: str, where: object) -> Any:
    """The value of a JSON text in which no object has one name twice with other content.

    Raises:
        DataError: it is no JSON, is nested too deeply, or has a name twice.
    """

    def named(items: list[tuple[str, object]]) -> dict:
        result: dict[str, object] = {}
        for name, value in items:
            if result.setdefault(name, value) != value:
                raise DataError("one name twice with other content", given=name, where=where)
        return result

    try:
        return json.loads(text, object_pairs_hook=named)
    except DataError:
        raise
    except (ValueError, RecursionError) as error:
        raise DataError("no JSON", given=error, where=where) from error


def load_array(path: str | os.PathLike, *, mapped: bool = False) -> np.ndarray:
    """The array of numbers of a `.npy` file.

    Args:
        path: the file.
        mapped: whether to leave it on disk and read what is looked at.

    Raises:
        DataError: the file cannot be read, or is no such array.
    """
    try:
        array = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except OSError as error:
        raise unreadable(path, "the array", error) from error
    except (ValueError, EOFError, SyntaxError, tokenize.TokenError) as error:
        raise DataError("no NumPy array", given=error, where=path) from error
    if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
        given = getattr(array, "dtype", type(array).__name__)
        raise DataError("no NumPy array", expected="numbers", given=given, where=path)
    return array


def json_lines(path: str | os.PathLike, what: str) -> Iterator[tuple[str, Any]]:
    """The place, such as `a.jsonl: line 3`, and the value of each line of JSON that is not blank.

    The file is read as it goes on.

    Raises:
        DataError: the file cannot be read, or a line is no JSON in UTF-8.
    """
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, start=1):
                where = f"{path}: line {number}"
                if text := decoded(line, where).strip():
                    yield where, parse_json(text, where)
    except OSError as error:
        raise unreadable(path, what, error) from error


def read_records(path: str | os.PathLike) -> list[dict]:
    """All records of a `.jsonl` file, such as `jpmhc-data needle` and `ruler` write.

    Raises:
        DataError: as `json_lines`, or a line is no object.
    """
    found = []
    for where, record in json_lines(path, "the records"):
        if not isinstance(record, dict):
            given = _KINDS.get(type(record), type(record).__name__)
            raise DataError("bad record", expected=_KINDS[dict], given=given, where=where)
        found.append(record)
    return found


def field(record: object, name: str, kind: type, where: object) -> Any:
    """A field of a record.

    Args:
        record: should be an object.
        name: of the field.
        kind: `str`, `int`, `bool`, `list` or `dict`.
        where: the record's place.

    Raises:
        DataError: the record is no object, or the field is missing, of another kind, or a text
            that `as_text` rejects.
    """
    if not isinstance(record, dict):
        given = _KINDS.get(type(record), type(record).__name__)
        raise DataError("bad record", expected=_KINDS[dict], given=given, where=where)
    if name not in record:
        raise DataError(f"bad field {name!r}", expected=_KINDS[kind], given="nothing", where=where)
    value = record[name]
    if type(value) is not kind:  # so that true is no whole number
        given = _KINDS.get(type(value), type(value).__name__)
        raise DataError(f"bad field {name!r}", expected=_KINDS[kind], given=given, where=where)
    return as_text(value, name, where) if kind is str else value


def as_text(value: object, name: str, where: object) -> str:
    """A value that should be a text which can be written as UTF-8.

    JSON can hold half of a character (`"\\ud800"`), which no encoding has.

    Raises:
        DataError: it is no text, or has half a character.
    """
    if not isinstance(value, str):
        given = _KINDS.get(type(value), type(value).__name__)
        raise DataError(f"bad field {name!r}", expected=_KINDS[str], given=given, where=where)
    try:
        value.encode()
    except UnicodeEncodeError as error:
        expected, given = "whole characters", f"half of one at {error.start}"
        raise DataError(
            f"bad field {name!r}", expected=expected, given=given, where=where
        ) from error
    return value
