# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What Ctrl-C does while something must not be left half done."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType

__all__ = ["GracefulInterrupt", "postponed_interrupts"]


def _in_main_thread() -> bool:
    """Python runs signal handlers in the main thread, and only there can they be changed."""
    return threading.current_thread() is threading.main_thread()


@contextlib.contextmanager
def postponed_interrupts() -> Iterator[None]:
    """Run the block to its end, and only then act upon a Ctrl-C that came meanwhile.

    For short blocks. Outside the main thread, which no Ctrl-C interrupts, it changes nothing.
    """
    if not _in_main_thread():
        yield
        return
    arrived: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, frame: arrived.append(number))
    try:
        yield
    finally:
        _restore(previous)
        if arrived:
            signal.raise_signal(signal.SIGINT)


def _restore(previous: object) -> None:
    """Put a handler back; None stands for one that was not set from Python and cannot be."""
    signal.signal(signal.SIGINT, signal.default_int_handler if previous is None else previous)


class GracefulInterrupt:
    """Let the first Ctrl-C finish the step, and only the second one raise.

    Use it around a training loop that looks at `requested` after each step::

        with GracefulInterrupt() as interrupt:
            for step in range(steps):
                train(step)
                if interrupt.requested:
                    break
        save(...)

    The first Ctrl-C sets `requested`, the second raises KeyboardInterrupt. When the block ends
    the former handler is back. Outside the main thread it never asks for anything.

    Args:
        notice: called at the first Ctrl-C, within the signal handler, such as to tell the user.
    """

    def __init__(self, notice: Callable[[], None] | None = None) -> None:
        self.requested = False
        self._notice = notice
        self._previous: object = None
        self._installed = False

    def __enter__(self) -> GracefulInterrupt:
        if _in_main_thread():
            self._previous = signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._installed:
            _restore(self._previous)
            self._installed = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
        if self._notice is not None:
            self._notice()
