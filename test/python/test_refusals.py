# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is refused at the latest possible moment: before a run, at a missing byte, at Ctrl-C."""

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, nn, ops, optim

X = jpmhc.spec((4, 3))
ARRAY = np.ones((4, 3), np.float32)
ROW = np.ones(3, np.float32)


def _filtered(x, width):
    return ops.tribox(x, width)


def _stepped(p, step):
    return ops.adamw(p, p, p, p, lr=0.1, step=step)[0]


def _corrected(p, step):
    return ops.adam_atan2(p, p, p, p, lr=0.1, step=step)[0]


def _called(x, width):
    return jpmhc.function(_filtered)(x, width)


def _differentiated(x, width):
    return jpmhc.value_and_grad(lambda v: ops.tribox(v, width).sum(), 0)(x)


@pytest.mark.parametrize(
    ("fn", "dtype", "array"),
    [
        (_filtered, "index", ARRAY),
        (_called, "index", ARRAY),
        (_differentiated, "index", ARRAY),
        (_stepped, "i64", ROW),
        (_corrected, "i64", ROW),
    ],
)
def test_counts_are_checked_before_each_run(fn, dtype, array):
    compiled = jpmhc.compile(fn, jpmhc.spec(array.shape), jpmhc.scalar_spec(dtype))
    compiled(array, 1)
    for wrong in (0, -3):
        with pytest.raises(errors.RangeError, match=f"expected at least 1, got {wrong}"):
            compiled(array, wrong)


def test_rows_of_a_sparse_step_are_checked_before_each_run():
    compiled = jpmhc.compile(
        lambda t, i, g: ops.sign_sgd_rows(t, i, g, lr=0.1),
        X,
        jpmhc.spec((2,), "i32"),
        jpmhc.spec((2, 3)),
    )
    with pytest.raises(errors.RangeError, match="expected 0 … 3, got 4"):
        compiled(ARRAY, np.int32([1, 4]), ARRAY[:2])


@pytest.mark.parametrize("loss", [lambda a: [a.sum()], lambda a: None, lambda a: a, lambda a: 1.0])
def test_a_loss_is_one_traced_number(loss):
    with pytest.raises(errors.ShapeError, match="expected a traced loss"):
        jpmhc.TrainStep(nn.Linear(3, 2), loss, optim.AdamW(), X)


@pytest.mark.parametrize(
    ("fn", "hint"),
    [
        (lambda a: a % 2, None),
        (lambda a: a // 2, None),
        (lambda a: divmod(a, 2), None),
        (lambda a: 2 % a, None),
        (lambda a: a ^ a, None),
        (float, None),
        (int, None),
        (round, None),
        (lambda a: range(a), None),
        (lambda a: 3 in a, None),
        (lambda a: a.__setitem__(0, 1.0), "use jpmhc.where"),
        (np.floor, None),
        (np.asarray, None),
        (lambda a: np.array([a, a]), None),
        (np.sum, "use the method sum"),
        (lambda a: np.concatenate([a, a]), "use jpmhc.concatenate"),
        (lambda a: np.ones((4, 3), np.float32).__iadd__(a), "use jpmhc.add"),
    ],
)
def test_what_a_traced_value_cannot_do(fn, hint):
    with pytest.raises(errors.UnsupportedError) as caught:
        jpmhc.compile(fn, X)
    assert caught.value.where is not None
    if hint is not None and "add" not in hint:
        assert caught.value.hint == hint


@pytest.mark.parametrize(
    ("traced", "wanted"),
    [
        (abs, np.abs),
        (np.sin, np.sin),
        (np.abs, np.abs),
        (lambda a: np.add(a, 1.0), lambda a: a + 1),
        (lambda a: ARRAY + a, lambda a: ARRAY + a),
        (lambda a: np.float32(2) * a, lambda a: 2 * a),
        (lambda a: np.less(a, 0.0), lambda a: a < 0),
        (lambda a: (a > 0) & (a < 1), lambda a: (a > 0) & (a < 1)),
        (lambda a: (a > 0) | (a < -1), lambda a: (a > 0) | (a < -1)),
        (lambda a: ~(a > 0), lambda a: ~(a > 0)),
    ],
)
def test_what_a_traced_value_can_do_as_an_array_can(traced, wanted):
    values = np.linspace(-2, 2, 12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(jpmhc.compile(traced, X)(values), wanted(values), rtol=1e-6)


def test_values_of_another_trace_or_thread():
    kept = []
    jpmhc.compile(lambda a: (kept.append(a), a)[1], X)
    with pytest.raises(errors.CompileError, match="a call outside"):
        kept[0] + 1
    with pytest.raises(errors.CompileError, match="outside the function that made it"):
        jpmhc.compile(lambda a: a + kept[0], X)
    found = []

    def use(value):
        try:
            value + 1
        except errors.CompileError as error:
            found.append(error)

    def traced(a):
        thread = threading.Thread(target=use, args=(a,))
        thread.start()
        thread.join()
        return a

    jpmhc.compile(traced, X)
    assert len(found) == 1


def test_containers_that_hold_themselves():
    loop = []
    loop.append(loop)
    with pytest.raises(errors.ConfigError, match="none within itself"):
        jpmhc.compile(lambda a: loop, X)
    model = nn.Linear(3, 2)
    model.parts = loop
    assert len(model.parameters()) == 2


@pytest.mark.parametrize("value", [{1}, object(), (i for i in range(2))])
def test_results_that_are_no_tensors(value):
    with pytest.raises(errors.DTypeError, match="result of a traced function"):
        jpmhc.compile(lambda a: value, X)


@pytest.mark.parametrize(
    "init",
    [
        lambda rng, shape: None,
        lambda rng, shape: [[1.0] * 3] * 2,
        lambda rng, shape: np.zeros(shape[::-1], np.float32),
        lambda rng, shape: np.zeros(shape, object),
    ],
)
def test_an_initializer_that_does_not_fit_changes_nothing(init):
    model = nn.Linear(3, 2)
    model.init(1)
    before = model.weight.array.copy()
    model.weight.init = init
    with pytest.raises((errors.ShapeError, errors.DTypeError), match="weight"):
        model.init(2)
    np.testing.assert_array_equal(model.weight.array, before)


def test_more_memory_than_there_is():
    with pytest.raises(errors.OutOfMemoryError, match="expected 4000000000000000 bytes, got"):
        jpmhc.compile(lambda a: a + jpmhc.full((10**8, 10**7), 1.0), jpmhc.spec(()))(np.float32(1))
    with pytest.raises(errors.OutOfMemoryError, match="bytes available"):
        nn.Linear(10**8, 10**7).init()
    side = jpmhc.spec((10**7, 10**7))
    with pytest.raises(errors.OutOfMemoryError, match="allocate [0-9]+ bytes.*bytes available"):
        jpmhc.compile(lambda a: jpmhc.exp(jpmhc.exp(a) @ a) @ a, side)


def test_less_memory_than_a_limit_leaves():
    code = """
import resource, numpy as np, jpmhc
from jpmhc import errors
double = jpmhc.compile(lambda a: jpmhc.broadcast_to(a, (2**28,)), jpmhc.spec(()))
used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
try:
    double(np.float32(1))
except errors.OutOfMemoryError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert f"expected {2**30} bytes, got" in run.stdout
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY


LONG = """
import sys, numpy as np, jpmhc
def fn(a):
    for i in range(40):
        a = jpmhc.exp(a @ a.T) @ a + a.sum(0) + float(i)
    return a
try:
    print('begun', flush=True)
    compiled = jpmhc.compile(jpmhc.value_and_grad(lambda a: fn(a).sum(), 0), jpmhc.spec((65, 33)))
except KeyboardInterrupt:
    print('interrupted', flush=True)
print(jpmhc.compile(lambda a: a + 1, jpmhc.spec((3,)))(np.zeros(3, np.float32)))
"""


def test_ctrl_c_ends_a_compilation_and_leaves_the_cache_sound(tmp_path):
    environment = {**os.environ, "JPMHC_CACHE_DIR": str(tmp_path / "cache")}
    prefix = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    command = [sys.executable, "-c", prefix + LONG]
    start = time.monotonic()
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    whole = time.monotonic() - start
    environment["JPMHC_CACHE_DIR"] = str(tmp_path / "second")
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "begun\n"
    time.sleep(whole / 3)
    process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    rest, _ = process.communicate(timeout=300)
    assert rest == "interrupted\n[1. 1. 1.]\n"
    assert time.monotonic() - sent < max(whole / 2, 10)
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert again.stdout == "begun\n[1. 1. 1.]\n", again.stderr
