# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The number of threads of NumPy's BLAS.

Samples are spread over threads of our own, each of which wants a BLAS of one thread: more would
compete for the same cores, and sums would be taken in an order that depends on their number.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import pathlib
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

_guard = threading.Lock()
_users = 0
_former = 1


@functools.cache
def _library() -> Any:
    """The OpenBLAS that NumPy's wheel brings, or None where NumPy has another one."""
    folder = pathlib.Path(np.__file__).parent.parent / "numpy.libs"
    for path in sorted(folder.glob("libscipy_openblas*")):
        library = ctypes.CDLL(str(path))
        if hasattr(library, "scipy_openblas_set_num_threads64_"):
            return library
    return None


@contextlib.contextmanager
def single_threaded() -> Iterator[None]:
    """Within the block NumPy's products and decompositions use one thread each."""
    global _users, _former
    library = _library()
    if library is None:
        yield
        return
    with _guard:
        if _users == 0:
            _former = library.scipy_openblas_get_num_threads64_()
            library.scipy_openblas_set_num_threads64_(1)
        _users += 1
    try:
        yield
    finally:
        with _guard:
            _users -= 1
            if _users == 0:
                library.scipy_openblas_set_num_threads64_(_former)
