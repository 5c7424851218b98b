# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The exceptions of jpmhc.

Each error says what was expected, what was given and where, both in its message and as
attributes. Each class also derives from the built-in exception a Python programmer would
expect, so that ``except ValueError`` and ``except IndexError`` keep working.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable

__all__ = [
    "CheckpointError",
    "CompileError",
    "ConfigError",
    "DTypeError",
    "DataError",
    "InternalError",
    "JpmhcError",
    "LayoutError",
    "MissingDependencyError",
    "NotFiniteError",
    "OutOfMemoryError",
    "OutputError",
    "RangeError",
    "ShapeError",
    "UnsupportedError",
    "is_known",
    "nearest_name",
    "shown",
    "unknown_name",
]


_LONGEST = 1000  # characters of what was given that an error shows


class JpmhcError(Exception):
    """Base of every error that jpmhc raises on purpose.

    Args:
        message: what went wrong, lower case, without a full stop.
        expected: what would have been right; any object, shown with ``str``.
        given: what was there instead; any object, shown with ``str``.
        where: the place of the mistake: ``file:line``, an argument, a file, a task.
        hint: what to do about it.

    The text of the error is ``where: message: expected X, got Y (hint)``, of which each part
    that was not given is left out.
    """

    def __init__(
        self,
        message: str,
        *,
        expected: object = None,
        given: object = None,
        where: object = None,
        hint: str | None = None,
    ) -> None:
        self.message = message
        self.expected = expected
        self.given = given
        self.where = where
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        difference = []
        if self.expected is not None:
            difference.append(f"expected {_text(self.expected, str)}")
        if self.given is not None:
            difference.append(f"got {_text(self.given, str)}")
        parts = [self.where, self.message, ", ".join(difference)]
        text = ": ".join(str(part) for part in parts if part)
        return f"{text} ({self.hint})" if self.hint else text


def shown(value: object) -> str:
    """`repr(value)` for a message: of any value, shortened where it is long."""
    return _text(value, repr)


def _text(value: object, write: Callable[[object], str]) -> str:
    """What `write` makes of a value that was given, which may be anything."""
    try:
        text = write(value)
    except Exception:  # noqa: BLE001 - a message must not fail; Python refuses long integers
        if isinstance(value, int):
            return f"an integer of {value.bit_length()} bits"
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


class ShapeError(JpmhcError, ValueError):
    """An array or a traced value has the wrong rank or size."""


class DTypeError(JpmhcError, TypeError):
    """An array or a traced value has the wrong element type."""


class LayoutError(JpmhcError, ValueError):
    """An array is not contiguous, not writable, or not in the byte order of this machine."""


class RangeError(JpmhcError, IndexError):
    """An index lies outside its table, such as a token id outside the vocabulary."""


class NotFiniteError(JpmhcError, ArithmeticError):
    """A compiled program made a NaN or an infinity while the knob `check` was "finite"."""


class ConfigError(JpmhcError, ValueError):
    """An option has an unknown name or a value it may not have."""


class DataError(JpmhcError, ValueError):
    """A data set is missing, malformed or too small."""


class CheckpointError(JpmhcError, RuntimeError):
    """A checkpoint could not be written, read, or does not fit the arrays it is to fill."""


class OutputError(JpmhcError, RuntimeError):
    """A result, such as metrics or a picture, could not be written."""


class CompileError(JpmhcError, RuntimeError):
    """The compiler rejected a program; `where` is the line of the user's file."""


class UnsupportedError(CompileError):
    """A program is right but needs something this version does not serve; it says what by name."""


class OutOfMemoryError(JpmhcError, MemoryError):
    """A program needs more memory than there is; says how much of each, in bytes."""


class MissingDependencyError(JpmhcError, ImportError):
    """An optional Python package is not installed; the hint names the extra that brings it."""


class InternalError(JpmhcError, RuntimeError):
    """A failure that is jpmhc's own fault, not the user's.

    Args:
        message: as for `JpmhcError`.
        reproducer: path of the file that reproduces the failure, where one could be written.
        **details: as for `JpmhcError`.
    """

    def __init__(self, message: str, *, reproducer: object = None, **details) -> None:
        self.reproducer = reproducer
        super().__init__(message, **details)

    def __str__(self) -> str:
        text = f"internal failure of jpmhc: {super().__str__()}"
        return f"{text}; reproducer written to {self.reproducer}" if self.reproducer else text


def nearest_name(name: object, known: Iterable[str]) -> str | None:
    """The name of `known` that `name` was most likely meant to be, or None if none is near."""
    if not isinstance(name, str):
        return None
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def is_known(name: object, known: Iterable[str]) -> bool:
    """Whether `name`, which may be anything, is one of the known names."""
    return isinstance(name, str) and name in known


def unknown_name(
    kind: str,
    name: object,
    known: Iterable[str],
    *,
    where: object = None,
    error: type[JpmhcError] = ConfigError,
) -> JpmhcError:
    """The error for a misspelt name: it lists the known names and suggests the nearest.

    Args:
        kind: what is named, such as "manifold" or "parameter of birkhoff".
        name: the name as given, a string or not.
        known: the names that exist.
        where: as for `JpmhcError`.
        error: the class of the error that is returned (not raised).
    """
    known = sorted(known)
    near = nearest_name(name, known)
    return error(
        f"unknown {kind}",
        expected=f"one of {', '.join(known)}" if known else "none",
        given=shown(name),
        where=where,
        hint=f"did you mean {near!r}?" if near else None,
    )
