# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of options that are numbers."""

from __future__ import annotations

import operator
from collections.abc import Collection

from jpmhc.errors import ConfigError, shown, unknown_name

__all__ = ["MOST", "fraction", "one_of", "whole"]

MOST = 2**24  # tokens of a text and rows of a batch: more is a slip of the pen


def whole(name: str, value: object, least: int | None = None, most: int | None = None) -> int:
    """A whole number, Python's or NumPy's, as Python's.

    Args:
        name: of the option, for the error.
        value: what was given.
        least, most: its bounds; None: none.

    Raises:
        ConfigError: it is no whole number, or out of bounds.
    """
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError as error:
        raise ConfigError(f"bad {name}", expected="a whole number", given=shown(value)) from error
    if (least is not None and number < least) or (most is not None and number > most):
        if least is None or most is None:
            expected = f"at least {least}" if most is None else f"at most {most}"
        else:
            expected = f"{least}..{most}"
        raise ConfigError(f"bad {name}", expected=expected, given=number)
    return number


def fraction(name: str, value: object, *, ends: bool) -> float:
    """A number between 0 and 1.

    Args:
        name: of the option, for the error.
        value: what was given.
        ends: whether 0 and 1 are among what it may be.

    Raises:
        ConfigError: it is no such number.
    """
    expected = "0..1" if ends else "between 0 and 1"
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"bad {name}", expected=expected, given=shown(value)) from error
    if not (0 <= number <= 1 if ends else 0 < number < 1):
        raise ConfigError(f"bad {name}", expected=expected, given=value)
    return number


def one_of(kind: str, value: object, known: Collection[str]) -> str:
    """One of some names.

    Args:
        kind: what is named, for the error.
        value: what was given.
        known: the names that exist.

    Raises:
        ConfigError: it is none of them; it names the nearest.
    """
    if not isinstance(value, str) or value not in known:
        raise unknown_name(kind, value, known)
    return value
