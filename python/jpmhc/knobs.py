# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of a process: environment variables that a program may override.

    >>> from jpmhc import knobs
    >>> with knobs.scope(check="finite", trace="step.json"):
    ...     step(batch)

A knob holds for the whole process, as its variable does. `jpmhc knobs` prints this table.
"""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass

from jpmhc.errors import ConfigError, OutputError, shown, unknown_name

__all__ = ["KNOBS", "Knob", "get", "scope", "set"]


@dataclass(frozen=True)
class Knob:
    """A setting.

    Attributes:
        name: in Python.
        variable: in the environment.
        kind: "path", "word" or "count".
        default: what holds where nothing is said, in words.
        range: for a count, the least and the most.
        words: for a word, the known ones ("" is always one).
        cached: whether compiled code depends on it, so that it is part of a cache entry's key.
        at_start: read once, when the process first needs it; `scope` cannot change it.
        summary: what it does.
    """

    name: str
    variable: str
    kind: str
    default: str
    summary: str
    words: tuple[str, ...] = ()
    range: tuple[int, int] = (0, 2**31 - 1)
    cached: bool = False
    at_start: bool = False


KNOBS = {
    knob.name: knob
    for knob in (
        Knob(
            "blas",
            "JPMHC_BLAS",
            "path",
            "the BLAS found when jpmhc was built",
            "library with cblas_sgemm that serves large products",
            at_start=True,
        ),
        Knob(
            "cache_dir",
            "JPMHC_CACHE_DIR",
            "path",
            "jpmhc in the user's cache folder",
            "where compiled code is kept; empty keeps none",
        ),
        Knob(
            "check",
            "JPMHC_CHECK",
            "word",
            "no check",
            "finite: a run fails at the first kernel that writes a NaN or an infinity, by name",
            words=("finite",),
        ),
        Knob(
            "dump",
            "JPMHC_DUMP",
            "path",
            "nothing is written",
            "folder for the program after each stage of compilation; switches the cache off",
        ),
        Knob(
            "emulator_seed",
            "JPMHC_EMULATOR_SEED",
            "count",
            "0",
            "order in which the emulator runs threads of a block",
            at_start=True,
        ),
        Knob(
            "idle_memory",
            "JPMHC_IDLE_MEMORY",
            "count",
            "an eighth of the machine's memory",
            "megabytes of results no longer held that are kept for later results; 0 keeps none",
        ),
        Knob(
            "log",
            "JPMHC_LOG",
            "word",
            "warnings only",
            "explain: say why code is compiled that the cache could have held",
            words=("explain",),
        ),
        Knob(
            "num_threads",
            "JPMHC_NUM_THREADS",
            "count",
            "the processors this process may use",
            "threads that compiled programs run on; jpmhc.set_num_threads changes it later",
            range=(1, 128),
            at_start=True,
        ),
        Knob(
            "ptxas",
            "JPMHC_PTXAS",
            "path",
            "that of CUDA_HOME, else the first on PATH",
            "assembler for PTX",
        ),
        Knob(
            "sanitize_kernels",
            "JPMHC_SANITIZE_KERNELS",
            "word",
            "none",
            "address: instrument generated code; the process must hold the sanitizer's runtime",
            words=("address",),
            cached=True,
        ),
        Knob(
            "trace",
            "JPMHC_TRACE",
            "path",
            "nothing is recorded",
            "file for a Chrome or Perfetto trace of every kernel, written at the end",
        ),
    )
}


def _find(name: str) -> Knob:
    if name not in KNOBS:
        raise unknown_name("knob", name, KNOBS)
    return KNOBS[name]


def _text(knob: Knob, value: object, where: str | None = None) -> str:
    """The value as its variable would hold it.

    Raises:
        ConfigError: not a value of the knob.
    """
    if knob.kind == "path":
        if isinstance(value, (str, os.PathLike)):
            return os.fspath(value)
        raise ConfigError(f"knob {knob.name}", expected="a path", given=shown(value), where=where)
    if knob.kind == "count":
        return _count(knob, str(value), where)
    if not isinstance(value, str) or value not in ("", *knob.words):
        expected = f"one of {', '.join(repr(word) for word in ('', *knob.words))}"
        raise ConfigError(f"knob {knob.name}", expected=expected, given=shown(value), where=where)
    return value


def get(name: str) -> str | None:
    """The present value of a knob as text; None where nothing is said.

    Raises:
        ConfigError: there is no knob of this name.
    """
    from jpmhc import _core

    return _core.get_setting(_find(name).variable)


def set(name: str, value: str | os.PathLike | int | None) -> None:  # noqa: A001
    """Overrides a knob for the process; None lets the environment hold again.

    Raises:
        ConfigError: there is no knob of this name, it is read once at the start, or the value is
            none of its values.
    """
    from jpmhc import _core

    knob = _find(name)
    if knob.at_start:
        raise ConfigError(
            f"knob {name} is read once", expected=f"{knob.variable} in the environment"
        )
    _core.set_setting(knob.variable, None if value is None else _text(knob, value))


@contextlib.contextmanager
def scope(**values: str | os.PathLike | int | None) -> Iterator[None]:
    """Overrides knobs inside a block; a trace is written at its end.

    Raises:
        ConfigError: as `set`; nothing has been changed then.
        OutputError: the trace could not be written.
    """
    for name, value in values.items():
        knob = _find(name)
        if value is not None and not knob.at_start:
            _text(knob, value)
    before = {name: _overrides.get(name) for name in values}
    with contextlib.ExitStack() as undo:
        for name, value in values.items():
            undo.callback(_override, name, before[name])
            _override(name, value)
        try:
            yield
        finally:
            if values.get("trace"):
                write_trace(values["trace"])


_overrides: dict[str, str | os.PathLike | int | None] = {}


def _override(name: str, value: str | os.PathLike | int | None) -> None:
    set(name, value)
    _overrides[name] = value


def write_trace(path: str | os.PathLike) -> None:
    """Writes what was recorded since the last trace.

    Raises:
        OutputError: the file cannot be written.
    """
    from jpmhc import _core

    try:
        _core.write_trace(os.fspath(path))
    except ValueError as error:
        raise OutputError("cannot write the trace", given=error, where=path) from None


def start() -> None:
    """Called once when the compiler is loaded: checks the environment, and has JPMHC_TRACE written
    when the process ends.

    Raises:
        ConfigError: a variable has a value that its knob does not have.
    """
    for knob in KNOBS.values():
        value = os.environ.get(knob.variable)
        if value is not None:
            _text(knob, value, where=knob.variable)
    path = os.environ.get(KNOBS["trace"].variable)
    if path:
        atexit.register(write_trace, path)


def _count(knob: Knob, text: str, where: str | None) -> str:
    least, most = knob.range
    if not (text.isascii() and text.isdigit() and least <= int(text) <= most):
        expected = f"an integer {least}..{most}"
        raise ConfigError(f"knob {knob.name}", expected=expected, given=shown(text), where=where)
    return text
