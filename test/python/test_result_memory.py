# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results' memory: given back at once, used again, never while somebody looks at it."""

import gc
import weakref

import numpy as np
import pytest

import jpmhc
from jpmhc import knobs, result_memory
from jpmhc.dtypes import NUMPY

LARGE = (512, 1024)


@pytest.fixture(autouse=True)
def nothing_idle():
    result_memory.release()
    yield
    result_memory.release()


def _start(array):
    return array.ctypes.data


@pytest.mark.parametrize("dtype", [*NUMPY.values(), np.uint8])
def test_array_is_as_asked_and_starts_on_a_line(dtype):
    array = result_memory.empty(LARGE, dtype)
    assert array.shape == LARGE and array.dtype == np.dtype(dtype)
    assert array.flags.c_contiguous and array.flags.writeable
    assert _start(array) % 64 == 0
    array[...] = 1
    assert float(array.astype(np.float64).sum()) == array.size


def test_memory_is_used_again_once_no_view_is_left():
    first = result_memory.empty(LARGE, np.float32)
    first[...] = 7
    place, view = _start(first), first.reshape(-1)[5:]
    del first
    other = result_memory.empty(LARGE, np.float32)
    assert result_memory.idle_bytes() == 0 and _start(other) != place
    other[...] = 8
    assert (view == 7).all()
    del view
    assert result_memory.idle_bytes() >= 4 * 512 * 1024
    assert _start(result_memory.empty(LARGE, np.int32)) == place


def test_small_arrays_are_numpys_own():
    assert result_memory.empty((3,), np.float32).base is None
    assert result_memory.empty((0, 1 << 20), np.float32).size == 0
    assert result_memory.idle_bytes() == 0


def test_knob_bounds_what_is_idle():
    arrays = [result_memory.empty((1 << 20,), np.uint8) for _ in range(5)]
    with knobs.scope(idle_memory=3):
        del arrays
        assert 0 < result_memory.idle_bytes() <= 3 << 20
    array = result_memory.empty((1 << 22,), np.uint8)
    with knobs.scope(idle_memory=0):
        del array
        assert result_memory.idle_bytes() == 0


def test_results_end_without_a_garbage_collection():
    """A cycle that held them would keep every step's results until the collector comes by."""
    double = jpmhc.compile(lambda x: {"out": [x + x]}, jpmhc.spec(LARGE))
    x = np.ones(LARGE, np.float32)
    gc.disable()
    try:
        result = double(x)["out"][0]
        end, place = weakref.ref(result), _start(result)
        del result
        assert end() is None
        assert _start(double(x)["out"][0]) == place
    finally:
        gc.enable()
