# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Memory of large results, used again once nobody holds them.

The system hands out memory page by page at first touch and clears each page: for a program that is
near the speed of memory that takes longer than the program. So what a result held, once the array
and all its views are gone, is kept for a later result of the same size.

    >>> from jpmhc import result_memory
    >>> result_memory.release()  # gives what is idle back to the system
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from jpmhc import knobs

__all__ = ["empty", "idle_bytes", "release"]

SMALLEST = 1 << 18
"""Bytes below which the heap serves as well."""

_HUGE_PAGE = 1 << 21
_LINE = 64
_PAGE = 1 << 12
_MEGABYTE = 1 << 20


class _Idle:
    """Blocks that nobody holds, the longest idle first, no more bytes than the knob allows.

    The lock may be taken again by its own thread: a loan can end at any allocation, here as well.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._blocks: OrderedDict[int, np.ndarray] = OrderedDict()
        self._bytes = 0

    def take(self, size: int) -> np.ndarray | None:
        """A block of this size, the last that came back."""
        with self._lock:
            for key in reversed(self._blocks):
                if self._blocks[key].nbytes == size:
                    self._bytes -= size
                    return self._blocks.pop(key)
        return None

    def keep(self, block: np.ndarray) -> None:
        """Keeps a block, in place of the longest idle ones where there are too many."""
        with self._lock:
            self._blocks[id(block)] = block
            self._bytes += block.nbytes
            self.shrink(_allowed())

    def shrink(self, allowed: int) -> None:
        """Gives blocks back to the system until no more bytes than these are idle."""
        with self._lock:
            while self._bytes > allowed:
                self._bytes -= self._blocks.popitem(last=False)[1].nbytes

    @property
    def bytes(self) -> int:
        """Of all idle blocks."""
        return self._bytes


_idle = _Idle()
os.register_at_fork(after_in_child=lambda: _idle.__init__())
_machine_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _allowed() -> int:
    megabytes = knobs.get("idle_memory")
    return _machine_bytes // 8 if not megabytes else int(megabytes) * _MEGABYTE


class _Loan:
    """What an array and its views hold on to; its end returns the block."""

    __slots__ = ("__array_interface__", "_block")

    def __init__(self, block: np.ndarray, size: int) -> None:
        self._block = block
        self.__array_interface__ = {
            "data": (_start(block), False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }

    def __del__(self, keep: Any = _idle.keep, at_end: Any = sys.is_finalizing) -> None:
        if not at_end():
            keep(self._block)


def _start(block: np.ndarray) -> int:
    """Where a result begins: on a line, so that no vector of it crosses two.

    Blocks that all began on a huge page would compete for the same sets of the caches.
    """
    address = block.ctypes.data
    first = -(-address // _LINE) * _LINE
    colour = (address // _HUGE_PAGE * 7 % 13) * 5 * _LINE
    return first + colour


_SLACK = _LINE + 13 * 5 * _LINE


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """An array of undefined values, as `numpy.empty`; it starts on a cache line if it is large.

    Args:
        shape: sizes.
        dtype: NumPy's, those of ml_dtypes included.

    Raises:
        MemoryError: the system has no more.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    whole = -(-(size + _SLACK) // _PAGE) * _PAGE
    block = _idle.take(whole)
    if block is None:
        block = np.empty(whole, np.uint8)
    return np.asarray(_Loan(block, size)).view(dtype).reshape(shape)


def idle_bytes() -> int:
    """Bytes that are kept for later results."""
    return _idle.bytes


def release() -> None:
    """Gives all idle memory back to the system."""
    _idle.shrink(0)
