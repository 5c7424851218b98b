# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results made ahead come in order, are few, and stop with the taker."""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time

import numpy as np
import pytest

from jpmhc.data.ahead import MOST_WORKERS, by_processes, by_threads, check_workers
from jpmhc.data.checks import whole
from jpmhc.errors import ConfigError, OutputError


def square(number: int) -> int:
    time.sleep(0.002 * (number % 3))
    return number * number


def dies(number: int) -> int:
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def fails(number: int) -> int:
    if number == 5:
        raise ConfigError("five")
    return number


@pytest.mark.parametrize("ahead", [by_threads, by_processes])
@pytest.mark.parametrize("workers", [0, 1, 2, 7, 64])
def test_results_come_in_order(ahead, workers):
    assert list(ahead(square, range(50), workers)) == [k * k for k in range(50)]
    assert list(ahead(square, [], workers)) == []


@pytest.mark.parametrize("workers", [1, 4])
def test_endless_items_are_made_a_few_at_a_time(workers):
    made, before = [], threading.active_count()
    results = by_threads(lambda k: made.append(k) or k, itertools.count(), workers)
    assert [next(results) for _ in range(20)] == list(range(20))
    time.sleep(0.05)
    assert len(made) <= 20 + 2 * workers + 1
    results.close()
    assert threading.active_count() == before


def test_processes_do_not_take_all_items_at_once():
    taken = []
    items = (taken.append(k) or k for k in itertools.count())
    results = by_processes(square, items, 2)
    assert [next(results) for _ in range(5)] == [0, 1, 4, 9, 16]
    assert len(taken) <= 5 + 2 * 8 + 1
    results.close()


@pytest.mark.parametrize("ahead", [by_threads, by_processes])
@pytest.mark.parametrize("workers", [0, 3])
def test_errors_come_in_the_place_of_the_result(ahead, workers):
    results = ahead(fails, range(9), workers)
    assert [next(results) for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ConfigError, match="five"):
        next(results)


def test_a_process_that_ends_is_a_typed_error():
    with pytest.raises(OutputError, match="a worker process has ended"):
        list(by_processes(dies, range(9), 2))


@pytest.mark.parametrize("workers", [-1, MOST_WORKERS + 1, 10**9, 1.5, "2", None, True])
def test_numbers_of_workers_are_checked(workers):
    with pytest.raises(ConfigError, match="bad workers"):
        check_workers(workers)


def test_whole_numbers():
    assert whole("x", np.int8(3)) == 3 and type(whole("x", np.int8(3))) is int
    for value, bounds, message in (
        (1.0, (), "bad x: expected a whole number, got 1.0"),
        ("1", (), "bad x: expected a whole number, got '1'"),
        (True, (), "bad x: expected a whole number, got True"),
        (None, (0,), "bad x: expected a whole number, got None"),
        (-1, (0,), "bad x: expected at least 0, got -1"),
        (4, (0, 3), r"bad x: expected 0\.\.3, got 4"),
        (4, (None, 3), "bad x: expected at most 3, got 4"),
    ):
        with pytest.raises(ConfigError, match=message):
            whole("x", value, *bounds)
