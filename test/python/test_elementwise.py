# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Array functions against NumPy in float64, compiled and run on the CPU."""

import math

import numpy as np
import pytest

import jpmhc
from jpmhc import errors


def draw(*shape, seed=0, low=None):
    rng = np.random.Generator(np.random.Philox(seed))
    x = rng.standard_normal(shape).astype(np.float32)
    return x if low is None else np.abs(x) + np.float32(low)


def run(fn, *arrays):
    return jpmhc.compile(fn, *arrays)(*arrays)


# A few float32 roundings, or the polynomial approximation of a function (tanh: 5 ulp).
TOLERANCE = 1e-6


def close(got, want, tolerance=TOLERANCE):
    want = np.asarray(want, np.float64)
    assert got.shape == want.shape
    scale = np.abs(want).max() if want.size else 1.0
    assert np.abs(got - want).max(initial=0.0) <= tolerance * max(scale, 1.0)


X, Y = draw(4, 6, seed=1), draw(4, 6, seed=2)
P = draw(4, 6, seed=3, low=0.1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x + y,
        lambda x, y: x - 2 * y,
        lambda x, y: 1 - x,
        lambda x, y: -x * y / 3,
        lambda x, y: x + y[0],
        lambda x, y: x[:, :1] * y,
        lambda x, y: x[1:3, ::2] + y[1:3, ::2],
        lambda x, y: (x + y).reshape(3, 8),
        lambda x, y: x.reshape(2, 2, 6).transpose(1, 0, 2) + 1,
        lambda x, y: x.T + y.T,
        lambda x, y: x @ y.T,
        lambda x, y: x.sum(axis=0) + y.sum(axis=0),
        lambda x, y: x.sum(axis=1, keepdims=True) + y,
        lambda x, y: (x * y).mean(),
        lambda x, y: (x * y).max(axis=1),
        lambda x, y: x**3,
        lambda x, y: x[None, 2] + y,
        lambda x, y: x[..., -1] + y[..., 0],
    ],
)
def test_numpy_agrees(fn):
    close(run(fn, X, Y), fn(X.astype(np.float64), Y.astype(np.float64)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


@pytest.mark.parametrize(
    "name, truth, x",
    [
        ("exp", np.exp, X),
        ("log", np.log, P),
        ("sqrt", np.sqrt, P),
        ("rsqrt", lambda x: 1 / np.sqrt(x), P),
        ("tanh", np.tanh, X),
        ("sin", np.sin, X),
        ("cos", np.cos, X),
        ("abs", np.abs, X),
        ("erf", np.vectorize(math.erf), X),
        ("sigmoid", sigmoid, 10 * X),
        ("silu", lambda x: x * sigmoid(x), 10 * X),
        ("softplus", lambda x: np.logaddexp(0, x), 10 * X),
    ],
)
def test_functions(name, truth, x):
    close(run(getattr(jpmhc, name), x), truth(x.astype(np.float64)), 2e-6)


def test_where_and_comparison():
    got = run(lambda x, y: jpmhc.where(x > y, x, 0.0), X, Y)
    np.testing.assert_array_equal(got, np.where(X > Y, X, 0))
    got = run(lambda x: jpmhc.logical_and(x > 0, jpmhc.logical_not(x >= 1)), X)
    np.testing.assert_array_equal(got, (X > 0) & ~(X >= 1))


def test_concatenate_stack_split():
    got = run(lambda x, y: jpmhc.concatenate([x, y], axis=1), X, Y)
    np.testing.assert_array_equal(got, np.concatenate([X, Y], axis=1))
    got = run(lambda x, y: jpmhc.stack([x, y], axis=1), X, Y)
    np.testing.assert_array_equal(got, np.stack([X, Y], axis=1))
    got = run(lambda x: jpmhc.split(x, 3, axis=1)[1], X)
    np.testing.assert_array_equal(got, X[:, 2:4])


def test_batched_product():
    a, b = draw(2, 3, 4, 5, seed=4), draw(2, 3, 5, 6, seed=5)
    close(run(jpmhc.matmul, a, b), a.astype(np.float64) @ b)


def test_linear_with_leading_axes():
    x, w, b = draw(2, 3, 5, seed=6), draw(7, 5, seed=7), draw(7, seed=8)
    close(run(jpmhc.linear, x, w, b), x.astype(np.float64) @ w.T + b)


def test_reduction_of_integers_and_casts():
    ids = np.arange(6, dtype=np.int32)
    assert run(lambda i: i.sum(), ids) == 15
    np.testing.assert_array_equal(run(lambda i: i.astype("f32") * 0.5, ids), ids * 0.5)
    np.testing.assert_array_equal(run(lambda x: x.astype("i32"), 3 * X), (3 * X).astype(np.int32))


def test_nan_and_infinity_stay_in_their_rows():
    x = X.copy()
    x[1, 2], x[2, 0] = np.nan, np.inf
    got = run(lambda v: jpmhc.exp(v).sum(axis=1), x)
    assert np.isnan(got[1]) and np.isinf(got[2]) and np.isfinite(got[[0, 3]]).all()


@pytest.mark.parametrize("shape", [(0,), (0, 3)])
def test_empty(shape):
    x = np.zeros(shape, np.float32)
    assert run(lambda v: v * 2 + 1, x).shape == shape
    assert run(lambda v: v.sum(), x) == 0


@pytest.mark.parametrize(
    "fn, kind, text",
    [
        (lambda x: x + np.zeros((4, 6), np.int32), errors.DTypeError, "expected f32, got i32"),
        (lambda x: x + np.zeros((3, 6), np.float32), errors.ShapeError, "(4, 6) and (3, 6)"),
        (lambda x: x.reshape(5, 5), errors.ShapeError, "(5, 5)"),
        (lambda x: x[7], errors.ShapeError, "got 7"),
        (lambda x: x[::-1], errors.ShapeError, "positive step"),
        (lambda x: x @ x, errors.ShapeError, "(4, 6) @ (4, 6)"),
        (lambda x: x.transpose(0, 0), errors.ShapeError, "permutation"),
        (lambda x: x.sum(axis=2), errors.ShapeError, "got 2"),
        (lambda x: 1 if x else 2, errors.CompileError, "no truth value"),
        (lambda x: x + "one", errors.DTypeError, "got str"),
        (lambda x: jpmhc.concatenate([x, x[:, :2]]), errors.ShapeError, "(4, 2)"),
        (lambda x: jpmhc.exp(x > 0), errors.DTypeError, "got i1"),
        (lambda x: x.astype("floaty"), errors.ConfigError, "unknown dtype"),
    ],
)
def test_mistakes_are_typed_and_name_the_line(fn, kind, text):
    with pytest.raises(kind) as caught:
        jpmhc.compile(fn, jpmhc.spec((4, 6)))
    assert text in str(caught.value)
    assert f"test_elementwise.py:{fn.__code__.co_firstlineno}" in str(caught.value.where)


def test_sigmoid_and_silu_far_from_zero():
    """Values and gradients where e^-x is as large or as small as f32 can be, and beyond."""
    x = np.float32([-1e4, -103, -88.5, -88, -85, -60, -20, -1, 0, 1, 20, 60, 88, 104, 1e4])
    wide = x.astype(np.float64)
    with np.errstate(over="ignore"):
        s, rest = 1 / (1 + np.exp(-wide)), 1 / (1 + np.exp(wide))
    truths = {jpmhc.sigmoid: (s, s * rest), jpmhc.silu: (wide * s, s * (1 + wide * rest))}
    for fn, (value, slope) in truths.items():
        got = jpmhc.vjp(fn, wrt=0)(np.ones_like(x), x)
        for result, want in zip(got, (value, slope), strict=True):
            # Subnormal numbers count as 0.
            np.testing.assert_allclose(result, want, rtol=1e-5, atol=1.2e-36)


def test_arithmetic_is_done_as_written():
    """No other order of the operands: sums that cancel, products that would overflow."""

    def fn(a, b):
        return (a + b) - a, (a * b) * b, (a / b) * b * b

    a, b = np.float32([1e8, 1e30]), np.float32([1, 1e-30])
    difference, product, ratio = run(fn, a, b)
    with np.errstate(over="ignore"):
        wants = (a + b) - a, a * b * b, a / b * b * b
    for got, want in zip((difference, product, ratio), wants, strict=True):
        np.testing.assert_array_equal(got, want)
