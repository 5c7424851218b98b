# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checkpoints: safetensors files that are written whole or not at all, and read likewise.

A checkpoint holds sections of named arrays, such as "model", "optimizer" and "carry", and
metadata: the step, the state of random numbers and the configuration. In the file an array is
called `section/name`; the metadata is one JSON text under the key "json" of the safetensors
metadata, next to a checksum of it, and contains a checksum of each array.

`save` writes a file beside the one of the given name and renames it, so that an interrupt, a
full disk or a crash leaves the old checkpoint. `load` copies into existing arrays, and touches
none before the whole file has been found right.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import ml_dtypes
import numpy as np
import safetensors

from jpmhc.errors import CheckpointError, nearest_name, shown, unknown_name
from jpmhc.files import replacing
from jpmhc.interrupts import postponed_interrupts

__all__ = ["FORMAT_VERSION", "Metadata", "load", "read", "read_metadata", "save"]

FORMAT = "jpmhc-checkpoint"
FORMAT_VERSION = 1

Sections = Mapping[str, Mapping[str, np.ndarray]]

_DTYPES = {
    "F64": np.dtype(np.float64),
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype(np.int64),
    "I32": np.dtype(np.int32),
    "I16": np.dtype(np.int16),
    "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64),
    "U32": np.dtype(np.uint32),
    "U16": np.dtype(np.uint16),
    "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_PROBLEMS_SHOWN = 8
_CONTENT = {"step": int, "rng_state": dict, "config": dict, "checksums": dict}
"""What the metadata of a checkpoint consists of."""


@dataclass(frozen=True)
class Metadata:
    """What a checkpoint says besides its arrays.

    Attributes:
        step: steps of the optimiser done so far.
        rng_state: the state of random numbers, as JSON values; seeds suffice where numbers are
            drawn by counter.
        config: what the model and the run were made from, as JSON values.
        format_version: of the file.
    """

    step: int = 0
    rng_state: dict = field(default_factory=dict)
    config: dict = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


def save(
    path: str | os.PathLike,
    sections: Sections,
    *,
    step: int = 0,
    rng_state: Mapping | None = None,
    config: Mapping | None = None,
) -> None:
    """Write a checkpoint, replacing an old one of that name only once the new one is on disk.

    Args:
        path: where; its folder must exist. A symbolic link is followed.
        sections: arrays of floats, integers or bools by section and name, in any layout and
            byte order. Section names are not empty and have no "/".
        step: steps done, at least 0.
        rng_state: a JSON object; NumPy numbers and arrays in it become numbers and lists.
        config: a JSON object, likewise.

    Raises:
        CheckpointError: an array or the metadata cannot be stored, or the disk is full or not
            writable. The old checkpoint, if any, is untouched then, and nothing is left behind.
    """
    _check_path(path)
    arrays = _flatten(sections, path)
    checksums = {section: {name: 0 for name in named} for section, named in sections.items()}
    for full_name, array in arrays.items():
        section, name = full_name.split("/", 1)
        checksums[section][name] = _checksum(
            _DTYPE_NAMES[array.dtype.newbyteorder("=")], array.shape, _bytes_of(array)
        )
    text = _metadata_text(step, rng_state, config, checksums, path)
    header = _header(arrays, text)
    try:
        with replacing(path) as file:
            file.write(header)
            for array in arrays.values():
                file.write(_bytes_of(array))
    except OSError as error:
        message = "cannot write the checkpoint"
        raise CheckpointError(message, given=error.strerror or error, where=path) from error


def load(path: str | os.PathLike, sections: Sections) -> Metadata:
    """Copy the arrays of some sections of a checkpoint into existing arrays.

    Args:
        path: the checkpoint.
        sections: the arrays to fill, by section and name. Each section must have exactly the
            names it has in the file; sections of the file that are not mentioned are skipped.

    Raises:
        CheckpointError: the file is missing, truncated, corrupt, foreign or of another format
            version, or does not fit the arrays in names, shapes or dtypes. No array has been
            changed then.
    """
    stored, metadata = read(path)
    problems = []
    for section, targets in sections.items():
        if section not in stored:
            known = stored
            raise unknown_name("section", section, known, where=path, error=CheckpointError)
        problems += _misfits(section, stored[section], targets)
    if problems:
        shown = "; ".join(problems[:_PROBLEMS_SHOWN])
        more = len(problems) - _PROBLEMS_SHOWN
        hint = f"and {more} more" if more > 0 else None
        raise CheckpointError(f"does not fit the arrays: {shown}", where=path, hint=hint)
    with postponed_interrupts():
        for section, targets in sections.items():
            for name, target in targets.items():
                np.copyto(target, stored[section][name])
    return metadata


def read(path: str | os.PathLike) -> tuple[dict[str, dict[str, np.ndarray]], Metadata]:
    """All arrays of a checkpoint, as new arrays by section and name, and its metadata.

    Raises:
        CheckpointError: the file is missing, truncated, corrupt, foreign or of another version.
    """
    with _opened(path) as file:
        data = _guarded_read(file, path)
    content = _metadata_content(_parse_header(data, path), path)
    try:
        tensors = dict(safetensors.deserialize(data))
    except safetensors.SafetensorError as error:
        message = "truncated or corrupt checkpoint"
        raise CheckpointError(message, given=error, where=path) from error
    return _unflatten(tensors, content["checksums"], path), _metadata(content)


def read_metadata(path: str | os.PathLike) -> Metadata:
    """The metadata of a checkpoint, without reading its arrays.

    Raises:
        CheckpointError: the file is missing, foreign, of another version, or its header is
            truncated or corrupt.
    """
    with _opened(path) as file:
        start = _guarded_read(file, path, 8)
        size = int.from_bytes(start, "little")
        if size <= os.fstat(file.fileno()).st_size:
            start += _guarded_read(file, path, size)
    return _metadata(_metadata_content(_parse_header(start, path), path))


def _check_path(path: object) -> None:
    """That `path` can name a file: a number would be taken for an open one."""
    if not isinstance(path, (str, os.PathLike)) or "\0" in os.fspath(path):
        raise CheckpointError("name of a checkpoint", expected="a path", given=shown(path))


# Writing.


def _flatten(sections: Sections, path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Contiguous little-endian arrays by full name, those of wider elements first: aligned."""
    arrays = {}
    _check_mapping("sections", sections, path)
    for section, named in sections.items():
        if not isinstance(section, str) or not section or "/" in section:
            raise CheckpointError(
                f"bad section name {section!r}",
                expected='text without "/"',
                given=shown(section),
                where=path,
            )
        _check_mapping(f"section {section}", named, path)
        for name, value in named.items():
            if not isinstance(name, str):
                message = f"name of an array in section {section}"
                raise CheckpointError(message, expected="text", given=shown(name), where=path)
            array = _as_array(f"{section}/{name}", value, path)
            native = array.dtype.newbyteorder("=")
            if native not in _DTYPE_NAMES:
                expected = f"one of {', '.join(str(dtype) for dtype in _DTYPE_NAMES)}"
                message = f"array {section}/{name} cannot be stored"
                raise CheckpointError(message, expected=expected, given=array.dtype, where=path)
            # asarray and not ascontiguousarray, which would make a scalar a vector.
            little = native.newbyteorder("<")
            arrays[f"{section}/{name}"] = np.asarray(array, dtype=little, order="C")
    return dict(sorted(arrays.items(), key=lambda item: (-item[1].itemsize, item[0])))


def _check_mapping(what: str, value: object, path: str | os.PathLike) -> None:
    if not isinstance(value, Mapping):
        given = type(value).__name__
        raise CheckpointError(what, expected="a mapping by name", given=given, where=path)


def _as_array(name: str, value: object, path: str | os.PathLike) -> np.ndarray:
    try:
        return np.asarray(value)
    except ValueError as error:  # rows of different lengths
        message = f"array {name} cannot be stored"
        raise CheckpointError(message, expected="an array", given=error, where=path) from None


def _bytes_of(array: np.ndarray) -> memoryview:
    """The memory of a contiguous array."""
    return array.reshape(-1).view(np.uint8).data


def _checksum(dtype: str, shape: Sequence[int], data: bytes | memoryview) -> int:
    """Of an array: of its dtype and shape too, which a flipped bit in the header can change."""
    return zlib.crc32(data, zlib.crc32(f"{dtype} {list(shape)}".encode()))


def _metadata_text(
    step: int,
    rng_state: Mapping | None,
    config: Mapping | None,
    checksums: dict,
    path: str | os.PathLike,
) -> str:
    if isinstance(step, bool) or not isinstance(step, (int, np.integer)) or step < 0:
        raise CheckpointError("bad step", expected="an integer ≥ 0", given=shown(step), where=path)
    for what, value in (("rng_state", rng_state), ("config", config)):
        _check_mapping(what, {} if value is None else value, path)
    content = {
        "step": int(step),
        "rng_state": dict(rng_state or {}),
        "config": dict(config or {}),
        "checksums": checksums,
    }
    try:
        return json.dumps(content, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        message = "metadata cannot be stored as JSON"
        raise CheckpointError(message, given=error, where=path) from error


def _plain(value: object) -> object:
    """NumPy's numbers and arrays as numbers and lists, for JSON."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _header(arrays: dict[str, np.ndarray], text: str) -> bytes:
    """The start of a safetensors file: size of the header, then the header, padded to 8 bytes."""
    header: dict[str, object] = {
        "__metadata__": {
            "format": FORMAT,
            "format_version": str(FORMAT_VERSION),
            "json": text,
            "json_crc32": str(zlib.crc32(text.encode())),
        }
    }
    offset = 0
    for name, array in arrays.items():
        header[name] = {
            "dtype": _DTYPE_NAMES[array.dtype.newbyteorder("=")],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    encoded = json.dumps(header).encode()
    encoded += b" " * (-len(encoded) % 8)
    return len(encoded).to_bytes(8, "little") + encoded


# Reading.


@contextlib.contextmanager
def _opened(path: str | os.PathLike) -> Iterator:
    _check_path(path)
    try:
        file = open(path, "rb")
    except OSError as error:
        message = "cannot read the checkpoint"
        raise CheckpointError(message, given=error.strerror or error, where=path) from error
    with file:
        yield file


def _guarded_read(file, path: str | os.PathLike, size: int = -1) -> bytes:
    try:
        return file.read(size)
    except OSError as error:
        message = "cannot read the checkpoint"
        raise CheckpointError(message, given=error.strerror or error, where=path) from error


def _parse_header(data: bytes, path: str | os.PathLike) -> dict:
    """The JSON object at the start of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > len(data) - 8:
        message = "truncated, or not a safetensors file"
        expected, given = f"at least {8 + size} bytes", f"{len(data)} bytes"
        raise CheckpointError(message, expected=expected, given=given, where=path)
    try:
        header = json.loads(data[8 : 8 + size])
    except (ValueError, RecursionError) as error:
        message = "not a safetensors file, or its header is corrupt"
        raise CheckpointError(message, given=error, where=path) from error
    if not isinstance(header, dict):
        raise CheckpointError("not a safetensors file", where=path)
    return header


def _metadata_content(header: dict, path: str | os.PathLike) -> dict:
    """The metadata of a checkpoint from the header of its file, checked."""
    entries = header.get("__metadata__")
    if not isinstance(entries, dict) or entries.get("format") != FORMAT:
        given = entries.get("format") if isinstance(entries, dict) else None
        message = "a safetensors file, but not a checkpoint of jpmhc"
        given = repr(given) if given else "none"
        raise CheckpointError(message, expected=f"format {FORMAT!r}", given=given, where=path)
    version = entries.get("format_version")
    if version != str(FORMAT_VERSION):
        message = "unknown format version"
        raise CheckpointError(message, expected=FORMAT_VERSION, given=version, where=path)
    text = entries.get("json")
    if not isinstance(text, str) or entries.get("json_crc32") != str(_checksum_of_text(text)):
        raise CheckpointError("corrupt metadata: its checksum is wrong", where=path)
    content = _json_object(text, path)
    missing = set(_CONTENT) - set(content)
    if missing:
        given = f"no {', '.join(sorted(missing))}"
        raise CheckpointError("incomplete metadata", given=given, where=path)
    for name, kind in _CONTENT.items():
        if not isinstance(content[name], kind):
            given = type(content[name]).__name__
            message = f"corrupt metadata: {name}"
            raise CheckpointError(message, expected=kind.__name__, given=given, where=path)
    for section, named in content["checksums"].items():
        _check_mapping(f"corrupt metadata: checksums of section {section}", named, path)
    return content


def _json_object(text: str, path: str | os.PathLike) -> dict:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CheckpointError("corrupt metadata", given=error, where=path) from error
    if not isinstance(content, dict):
        given = type(content).__name__
        raise CheckpointError("corrupt metadata", expected="object", given=given, where=path)
    return content


def _checksum_of_text(text: str) -> int:
    return zlib.crc32(text.encode(errors="surrogatepass"))


def _metadata(content: dict) -> Metadata:
    return Metadata(content["step"], content["rng_state"], content["config"])


def _unflatten(
    tensors: dict[str, dict], checksums: dict, path: str | os.PathLike
) -> dict[str, dict[str, np.ndarray]]:
    """Arrays by section and name, each with the checksum that the metadata gives it."""
    names = {f"{section}/{name}" for section, named in checksums.items() for name in named}
    if names != set(tensors):
        odd = ", ".join(sorted(names ^ set(tensors))[:_PROBLEMS_SHOWN])
        raise CheckpointError(f"corrupt: names differ from the metadata's: {odd}", where=path)
    return {
        section: {
            name: _array(f"{section}/{name}", tensors[f"{section}/{name}"], checksum, path)
            for name, checksum in named.items()
        }
        for section, named in checksums.items()
    }


def _array(name: str, tensor: dict, checksum: int, path: str | os.PathLike) -> np.ndarray:
    if tensor["dtype"] not in _DTYPES:
        expected = f"one of {', '.join(_DTYPES)}"
        message = f"array {name} has an unknown dtype"
        raise CheckpointError(message, expected=expected, given=tensor["dtype"], where=path)
    if _checksum(tensor["dtype"], tensor["shape"], tensor["data"]) != checksum:
        raise CheckpointError(f"corrupt: the checksum of array {name} is wrong", where=path)
    little = _DTYPES[tensor["dtype"]].newbyteorder("<")
    return np.frombuffer(tensor["data"], dtype=little).reshape(tensor["shape"])


def _misfits(
    section: str, stored: Mapping[str, np.ndarray], targets: Mapping[str, np.ndarray]
) -> list[str]:
    """Why the arrays of a section of the file cannot be copied into those given, if so."""
    problems = []
    unexpected = sorted(set(stored) - set(targets))
    for name, target in targets.items():
        if name not in stored:
            near = nearest_name(name, unexpected)
            also = f", did you mean {section}/{near}?" if near else ""
            problems.append(f"{section}/{name} is not in the file{also}")
        else:
            problems += _misfit(f"{section}/{name}", stored[name], target)
    return problems + [f"{section}/{name} is only in the file" for name in unexpected]


def _misfit(name: str, stored: np.ndarray, target: object) -> list[str]:
    if not isinstance(target, np.ndarray):
        return [f"{name}: expected an array to fill, got {type(target).__name__}"]
    if target.shape != stored.shape:
        return [f"{name}: expected shape {list(target.shape)}, got {list(stored.shape)}"]
    if target.dtype.newbyteorder("=") != stored.dtype.newbyteorder("="):
        return [f"{name}: expected dtype {target.dtype}, got {stored.dtype}"]
    if not target.flags.writeable:
        return [f"{name}: expected a writable array, got one that is read only"]
    return []
