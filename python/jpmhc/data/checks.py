# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of options that are numbers."""

from __future__ import annotations

import operator

from jpmhc.errors import ConfigError

__all__ = ["whole"]


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
        raise ConfigError(f"bad {name}", expected="a whole number", given=repr(value)) from error
    if (least is not None and number < least) or (most is not None and number > most):
        if least is None or most is None:
            expected = f"at least {least}" if most is None else f"at most {most}"
        else:
            expected = f"{least}..{most}"
        raise ConfigError(f"bad {name}", expected=expected, given=number)
    return number
