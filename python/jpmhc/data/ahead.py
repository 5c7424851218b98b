# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results made ahead by threads or processes, and taken in order."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from jpmhc.data.checks import whole
from jpmhc.errors import OutputError

__all__ = ["MOST_WORKERS", "by_processes", "by_threads", "check_workers"]

MOST_WORKERS = 256
_BY_THREADS, _BY_PROCESSES = 2, 8  # results that a worker makes before they are taken

Item = TypeVar("Item")
Result = TypeVar("Result")


def check_workers(workers: int, least: int = 0) -> int:
    """The number of workers.

    Raises:
        ConfigError: it is no whole number of least..256.
    """
    return whole("workers", workers, least, MOST_WORKERS)


def by_threads(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """The results of a function in the order of its items, at most 2 a thread made ahead.

    Args:
        function: what to do with an item; its exceptions come in the place of its result.
        items: there may be infinitely many.
        workers: threads; with 0 nothing is made ahead.
    """
    if not workers:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(workers) as pool:
        yield from _in_order(pool, function, items, _BY_THREADS * workers)


def by_processes(
    function: Callable[[Item], Result], items: Iterable[Item], workers: int
) -> Iterator[Result]:
    """As `by_threads`, for Python code that threads cannot do at once, at most 8 a process ahead.

    The processes are forked: the function may use what the caller has, but it must be one of a
    module, and items and results must be picklable. Ctrl-C is left to the caller.

    Raises:
        OutputError: a process has ended, such as for want of memory.
    """
    if workers <= 1:
        yield from map(function, items)
        return
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # its threads do not survive a fork
    context = multiprocessing.get_context("fork")
    try:
        with ProcessPoolExecutor(workers, context, _leave_interrupts) as pool:
            yield from _in_order(pool, function, items, _BY_PROCESSES * workers)
    except BrokenProcessPool as error:
        hint = "fewer workers need less memory"
        raise OutputError("a worker process has ended", given=error, hint=hint) from error


def _leave_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _in_order(
    pool: Executor, function: Callable[[Item], Result], items: Iterable[Item], most: int
) -> Iterator[Result]:
    running: deque[Future] = deque()
    try:
        for item in items:
            running.append(pool.submit(function, item))
            if len(running) > most:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        for future in running:
            future.cancel()
