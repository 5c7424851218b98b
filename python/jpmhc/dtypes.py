# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types: their MLIR names, and the NumPy types that hold them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import ml_dtypes
import numpy as np

from jpmhc._location import here
from jpmhc.errors import DTypeError, ShapeError, shown, unknown_name

NUMPY = {
    "f32": np.dtype(np.float32),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f16": np.dtype(np.float16),
    "f64": np.dtype(np.float64),
    "i1": np.dtype(np.bool_),
    "i8": np.dtype(np.int8),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "index": np.dtype(np.int64),
}
FLOATS = ("f32", "bf16", "f16", "f64")
INTEGERS = ("i8", "i32", "i64", "index")
BITS = {
    "bf16": 16,
    "f16": 16,
    "f32": 32,
    "f64": 64,
    "i1": 1,
    "i8": 8,
    "i32": 32,
    "i64": 64,
    "index": 64,
}

_ALIASES = {
    "float32": "f32",
    "float": "f32",
    "bfloat16": "bf16",
    "float16": "f16",
    "half": "f16",
    "float64": "f64",
    "bool": "i1",
    "int8": "i8",
    "int32": "i32",
    "int": "i64",
    "int64": "i64",
}
_FROM_NUMPY = {dtype: name for name, dtype in NUMPY.items() if name != "index"}


def dtype_name(dtype: object) -> str:
    """The MLIR name of an element type given by name, alias, NumPy type or Python type.

    Raises:
        ConfigError: the type is unknown; the nearest known name is suggested.
    """
    if isinstance(dtype, str):
        name = _ALIASES.get(dtype, dtype)
        if name in NUMPY:
            return name
        raise unknown_name("dtype", dtype, NUMPY, where=here())
    if dtype is float:
        return "f32"
    try:
        name = _FROM_NUMPY.get(np.dtype(dtype))
    except (TypeError, ValueError):
        name = None
    if name is None:
        raise unknown_name("dtype", dtype, NUMPY, where=here())
    return name


def is_float(name: str) -> bool:
    """Whether the element type is a floating-point one."""
    return name in FLOATS


def number(value: object, dtype: str, *, where: str | None = None) -> np.ndarray:
    """A number as a 0-d array of an element type, without a silent change of what it means.

    Args:
        value: a Python or NumPy number; a bool counts as 0 or 1.
        dtype: MLIR name; floats are rounded to it.
        where: the place for the error; the user's line by default.

    Raises:
        DTypeError: no real number, a fraction or NaN for an integer type, or out of its range.
    """
    kinds = (bool, int, float, np.bool_, np.integer, np.floating)
    if not isinstance(value, kinds) and not _is_real_array(value):
        raise _no_number("a real number", value, dtype, where)
    value = value.item() if isinstance(value, (np.generic, np.ndarray)) else value
    if is_float(dtype):
        largest = float(ml_dtypes.finfo(NUMPY[dtype]).max)
        if abs(value) > largest and abs(value) != float("inf"):
            raise _no_number(f"a number of at most {largest:g}", value, dtype, where)
    elif isinstance(value, float) and not value.is_integer():
        raise _no_number("a whole number", value, dtype, where)
    elif dtype == "i1":
        value = bool(value)
    else:
        info = np.iinfo(NUMPY[dtype])
        value = int(value)
        if not info.min <= value <= info.max:
            raise _no_number(f"{info.min} … {info.max}", value, dtype, where)
    return np.asarray(value, NUMPY[dtype])


def _is_real_array(value: object) -> bool:
    """0-d arrays, and numbers such as bf16 that NumPy does not count as floating."""
    if not isinstance(value, (np.ndarray, np.generic)) or value.shape != ():
        return False
    return value.dtype in _FROM_NUMPY or value.dtype.kind in "fiu"


def _no_number(expected: str, value: object, dtype: str, where: str | None) -> DTypeError:
    message = f"number for element type {dtype}"
    return DTypeError(message, expected=expected, given=shown(value), where=where or here())


LARGEST = 2**62
"""Bytes that a tensor may have; more cannot be addressed."""


def sizes(shape: Any, what: str = "shape", *, least: int = 0) -> tuple[int, ...]:
    """A shape as a tuple of Python integers.

    Args:
        what: what the error calls it.
        least: the smallest size allowed.

    Raises:
        ShapeError: no sequence of integers that are large enough, or of more elements than memory
            has places.
    """
    if isinstance(shape, (str, bytes, dict, set)) or not isinstance(shape, Iterable):
        raise ShapeError(what, expected="a tuple of sizes", given=shown(shape), where=here())
    checked = []
    for size in shape:
        if isinstance(size, (bool, np.bool_)) or not isinstance(size, (int, np.integer)):
            raise ShapeError(
                f"size in {what}", expected="an integer", given=shown(size), where=here()
            )
        if size < least:
            raise ShapeError(
                f"size in {what}", expected=f"an integer ≥ {least}", given=size, where=here()
            )
        checked.append(int(size))
    if math.prod(abs(size) for size in checked) > LARGEST // 8:
        raise ShapeError(
            what, expected=f"at most {LARGEST // 8} elements", given=tuple(checked), where=here()
        )
    return tuple(checked)


def tensor_type(shape: Iterable[int], dtype: str) -> str:
    """The MLIR text of a ranked tensor type, e.g. ``tensor<4x8xf32>``.

    Raises:
        ShapeError: see `sizes`.
    """
    shape = sizes(shape)
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"
