# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Element types: their MLIR names, and the NumPy types that hold them."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from jpmhc._location import here
from jpmhc.errors import unknown_name

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
    except TypeError:
        name = None
    if name is None:
        raise unknown_name("dtype", str(dtype), NUMPY, where=here())
    return name


def is_float(name: str) -> bool:
    """Whether the element type is a floating-point one."""
    return name in FLOATS


def tensor_type(shape: tuple[int, ...], dtype: str) -> str:
    """The MLIR text of a ranked tensor type, e.g. ``tensor<4x8xf32>``."""
    return f"tensor<{''.join(f'{size}x' for size in shape)}{dtype}>"
