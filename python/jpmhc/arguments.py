# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks of run-time arguments against the specs of a compiled program, before anything runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jpmhc.dtypes import INTEGERS, number
from jpmhc.errors import DTypeError, LayoutError, RangeError, ShapeError
from jpmhc.tracing import Spec


def check(value: Any, spec: Spec, name: str) -> np.ndarray:
    """`value` as an array that may be handed to compiled code without a copy.

    Args:
        value: an array, or a number for a scalar spec.
        spec: what the program was compiled for.
        name: what messages call the argument.

    Raises:
        DTypeError: no array, or of another element type.
        LayoutError: not contiguous, or not in this machine's byte order.
        ShapeError: of another shape.
        RangeError: an id is out of the range that the spec declares.
    """
    where = f"argument {spec.name or name}"
    if spec.scalar:
        return _scalar(value, spec, where)
    if not isinstance(value, np.ndarray):
        if not spec.shape and isinstance(value, (int, float, np.generic)):
            value = number(value, spec.dtype, where=where)
        else:
            raise DTypeError(
                "no array",
                expected=f"a NumPy array of {spec.dtype}",
                given=type(value).__name__,
                where=where,
            )
    if not value.dtype.isnative:
        raise LayoutError(
            "byte order",
            expected="that of this machine",
            given=value.dtype.str,
            where=where,
            hint="convert with array.astype(array.dtype.newbyteorder('='))",
        )
    if value.dtype != spec.numpy:
        raise DTypeError("element type", expected=spec.numpy, given=value.dtype, where=where)
    if value.shape != spec.shape:
        raise ShapeError("shape", expected=spec.shape, given=value.shape, where=where)
    if not value.flags.c_contiguous:
        raise LayoutError(
            "array is not contiguous",
            expected="row-major without gaps",
            given=f"strides {value.strides}",
            where=where,
            hint="copy with numpy.ascontiguousarray",
        )
    if not value.flags.aligned:
        raise LayoutError(
            "array is not aligned to its elements",
            expected=f"an address that {value.dtype.alignment} divides",
            given=hex(value.ctypes.data),
            where=where,
            hint="copy with array.copy()",
        )
    if spec.high is not None:
        check_range(value, spec.high, spec.allowed, spec.name or name)
    return value


def _scalar(value: Any, spec: Spec, where: str) -> np.ndarray:
    if isinstance(value, np.ndarray) and value.shape != ():
        raise ShapeError("scalar argument", expected=(), given=value.shape, where=where)
    is_fraction = isinstance(value, (float, np.floating))
    if isinstance(value, (bool, np.bool_)) or (is_fraction and spec.dtype in INTEGERS):
        given = type(value).__name__
        raise DTypeError("scalar argument", expected=spec.dtype, given=given, where=where)
    return number(value, spec.dtype, where=where)


def check_range(
    value: np.ndarray, high: int | None, allowed: int | None, name: str, *, low: int = 0
) -> None:
    """Checks that ids or counts lie in [low, high) or are the allowed other value.

    Raises:
        RangeError: names the first that does not, its place and the size of the table.
    """
    wrong = value < low if high is None else (value < low) | (value >= high)
    if allowed is not None:
        wrong &= value != allowed
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        raise RangeError(
            f"id out of range at {place}" if place else "number out of range",
            expected=f"at least {low}" if high is None else f"{low} … {high - 1}",
            given=int(value[place]),
            where=f"argument {name}",
        )
