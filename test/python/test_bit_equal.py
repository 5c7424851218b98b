# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Equal inputs give bit-equal results, however many threads divide the rows.

Short rows of many sizes: where LLVM treats several rows at once, what is left over at the end of a
thread's share must not be summed in another order.
"""

import numpy as np
import pytest

import jpmhc
from jpmhc import ops

ROWS = 151


def draw(*shape, seed=0):
    return np.random.Generator(np.random.Philox(seed)).standard_normal(shape).astype(np.float32)


@pytest.fixture(autouse=True)
def threads():
    before = jpmhc.get_num_threads()
    yield
    jpmhc.set_num_threads(before)


def check(fn, *arrays):
    """Value and gradients for 1 to 4 threads."""
    floats = tuple(i for i, array in enumerate(arrays) if array.dtype == np.float32)
    cotangent = draw(*jpmhc.compile(fn, *arrays)(*arrays).shape, seed=9)
    compiled = jpmhc.compile(jpmhc.vjp(fn, wrt=floats), cotangent, *arrays)
    runs = []
    for count in (1, 2, 3, 4):
        jpmhc.set_num_threads(count)
        value, gradients = compiled(cotangent, *arrays)
        runs.append([value, *gradients])
    for run in runs[1:]:
        for first, other in zip(runs[0], run, strict=True):
            np.testing.assert_array_equal(first, other)


@pytest.mark.parametrize("width", [3, 8, 16, 17])
def test_rows(width):
    x, gain = draw(ROWS, width, seed=1), draw(width, seed=2)
    targets = (np.arange(ROWS) % width).astype(np.int32)

    def fn(x, gain, targets):
        total = ops.rms_norm(x, gain) + ops.layer_norm(x, gain, gain)
        total = total + jpmhc.softmax(x) * jpmhc.tanh(x).sum(1, keepdims=True)
        loss = ops.softmax_cross_entropy(x, targets)
        return total + ops.stablemax_cross_entropy(x, targets) + loss

    check(fn, x, gain, targets)


@pytest.mark.parametrize("manifold", ["stiefel", "birkhoff", "permutation", "identity"])
def test_streams(manifold):
    x = draw(ROWS, 4, 8, seed=3)
    maps = 8 if manifold in ("birkhoff", "permutation", "identity") else 32
    kind = "sigmoid" if maps == 8 else "softmax"
    entries = {"stiefel": 16, "birkhoff": 16, "permutation": 6, "identity": 0}[manifold]
    weight = draw(maps + entries, 32, seed=4)

    def fn(x, weight):
        return ops.hyper_connection(x, weight, jpmhc.tanh, manifold=manifold, read_write=kind)

    check(fn, x, weight)


def test_tokens():
    x, gate = draw(3, 37, 6, seed=5), draw(1, seed=6)

    def fn(x, gate):
        q = x.reshape(3, 37, 1, 6)
        mixed = ops.attention(ops.rope(q), q, q, causal=True).reshape(3, 37, 6)
        return ops.side_path(x, mixed, gate.reshape(()), 5)

    check(fn, x, gate)
