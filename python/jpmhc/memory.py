# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of this process: what is available, and arrays or an error that says what was needed."""

from __future__ import annotations

import math
import os
import resource
from collections.abc import Callable

import numpy as np

from jpmhc import result_memory
from jpmhc._location import here
from jpmhc.errors import OutOfMemoryError


def available_bytes() -> int:
    """Bytes that this process may still get: by the machine, and by its limit (`ulimit -v`)."""
    with open("/proc/meminfo", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    available = int(fields["MemAvailable"].split()[0]) * 1024
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        with open("/proc/self/statm", encoding="ascii") as file:
            used = int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        available = min(available, max(limit - used, 0))
    return available


def _array(
    make: Callable[..., np.ndarray], shape: tuple[int, ...], dtype: np.dtype, what: str
) -> np.ndarray:
    try:
        return make(shape, dtype)
    except (MemoryError, ValueError):  # NumPy has the latter for more than can be addressed
        raise OutOfMemoryError(
            f"memory for {what} of shape {shape}",
            expected=f"{math.prod(shape) * dtype.itemsize} bytes",
            given=f"{available_bytes()} bytes available",
            where=here(),
        ) from None


def empty(shape: tuple[int, ...], dtype: np.dtype, what: str = "a result") -> np.ndarray:
    """An array whose values are yet to be written.

    Raises:
        OutOfMemoryError: there is no memory for it.
    """
    return _array(result_memory.empty, shape, dtype, what)


def zeros(shape: tuple[int, ...], dtype: np.dtype, what: str = "an array") -> np.ndarray:
    """An array of zeros.

    Raises:
        OutOfMemoryError: there is no memory for it.
    """
    return _array(np.zeros, shape, dtype, what)
