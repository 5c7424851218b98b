# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Python values as MLIR attribute text."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jpmhc._location import here
from jpmhc.errors import ConfigError, shown

_LARGEST = float(np.finfo(np.float32).max)  # as Python's, which compares with any integer


def f32(value: float) -> str:
    """An f32 attribute.

    Raises:
        ConfigError: the value is no number, or not finite in f32.
    """
    is_number = isinstance(value, (int, float, np.integer, np.floating))
    if isinstance(value, bool) or not is_number or not abs(value) <= _LARGEST:
        raise _unfit("a finite f32 number", value)
    return f"{float(value):.17e} : f32"


def i64(value: int) -> str:
    """A 64-bit integer attribute.

    Raises:
        ConfigError: the value is no integer of 64 bits.
    """
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or not -(2**63) <= value < 2**63:
        raise _unfit("an integer of 64 bits", value)
    return f"{int(value)} : i64"


def boolean(value: bool) -> str:
    """A boolean attribute.

    Raises:
        ConfigError: the value is neither True nor False.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise _unfit("True or False", value)
    return "true" if value else "false"


def _unfit(expected: str, value: object) -> ConfigError:
    return ConfigError("attribute", expected=expected, given=shown(value), where=here())


def string(value: str) -> str:
    """A string attribute."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def i64_array(values: Iterable[int]) -> str:
    """A dense array of 64-bit integers, e.g. ``array<i64: 1, 2>``."""
    items = ", ".join(str(int(v)) for v in values)
    return f"array<i64: {items}>" if items else "array<i64>"


def generic(value: object, depth: int = 0) -> str:
    """The text of a bool, int, float, str or (nested) list, by its Python type.

    Integers become i64, floats f64. `depth` counts the lists around the value.

    Raises:
        ConfigError: the value has no text form, or lists nest deeper than 8.
    """
    if isinstance(value, (bool, np.bool_)):
        return boolean(bool(value))
    if isinstance(value, (int, np.integer)):
        return i64(int(value))
    if isinstance(value, (float, np.floating)):
        return f"{float(value):.17e} : f64"
    if isinstance(value, str):
        return string(value)
    if isinstance(value, (list, tuple, np.ndarray)) and depth < 8:
        return f"[{', '.join(generic(v, depth + 1) for v in value)}]"
    raise _unfit("a number, string or list of them", type(value).__name__)


def dictionary(values: dict[str, object]) -> str:
    """A dictionary attribute of generic values."""
    return "{" + ", ".join(f"{key} = {generic(v)}" for key, v in values.items()) + "}"
