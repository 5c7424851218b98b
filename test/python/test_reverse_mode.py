# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reverse-mode rules against finite differences.

The truth is the same calculation in NumPy's float64, differentiated by central differences with
steps of 1e-6: their error, a few 1e-9 of the largest value, is far below that of f32.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, ops, shapes
from jpmhc.tracing import emit

STEP = 1e-6


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def central_differences(
    loss: Callable[..., float], arrays: list[np.ndarray], number: int
) -> np.ndarray:
    """d loss / d arrays[number], element by element; NaN next to a kink, which has two slopes."""
    wide = [a.astype(np.float64) for a in arrays]
    here = loss(*wide)
    gradient = np.zeros(arrays[number].shape)
    for index in np.ndindex(gradient.shape):
        ahead, behind = (
            loss(*(_moved(a, index, step) if i == number else a for i, a in enumerate(wide)))
            for step in (STEP, -STEP)
        )
        right, left = (ahead - here) / STEP, (here - behind) / STEP
        kink = abs(right - left) > 1e-2 * max(abs(right), abs(left), 1.0)
        gradient[index] = math.nan if kink else (right + left) / 2
    return gradient


def _moved(array: np.ndarray, index: tuple[int, ...], step: float) -> np.ndarray:
    moved = array.copy()
    moved[index] += step
    return moved


def close(got: np.ndarray, want: np.ndarray, tolerance: float) -> None:
    assert got.shape == want.shape
    known = np.isfinite(want)
    assert np.isfinite(got).all() and known.mean() >= 0.9
    scale = max(np.abs(want[known]).max(initial=0.0), 1.0)
    assert np.abs(got - want)[known].max(initial=0.0) <= tolerance * scale


# ---- every rule of a function of one value, on its own ----

UNARY = {
    "arith.negf": np.negative,
    "math.exp": np.exp,
    "math.exp2": np.exp2,
    "math.expm1": np.expm1,
    "math.tanh": np.tanh,
    "math.sin": np.sin,
    "math.cos": np.cos,
    "math.tan": np.tan,
    "math.atan": np.arctan,
    "math.sinh": np.sinh,
    "math.cosh": np.cosh,
    "math.absf": np.abs,
    "math.erf": np.vectorize(math.erf),
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.round": np.round,
    "math.roundeven": np.round,
    "math.trunc": np.trunc,
}
UNARY_OF_POSITIVE = {
    "math.log": np.log,
    "math.log2": np.log2,
    "math.log10": np.log10,
    "math.log1p": np.log1p,
    "math.sqrt": np.sqrt,
    "math.rsqrt": lambda x: 1 / np.sqrt(x),
}


def test_functions_of_one_value():
    """One program with all of them; the result of each has a cotangent of its own."""
    table = {**UNARY, **UNARY_OF_POSITIVE}
    rng = generator(1)
    inputs = [rng.uniform(-1.2, 1.2, 5).astype(np.float32) for _ in UNARY]
    inputs += [rng.uniform(0.3, 3.0, 5).astype(np.float32) for _ in UNARY_OF_POSITIVE]
    cotangents = [rng.standard_normal(5).astype(np.float32) for _ in table]

    def apply(*xs):
        return tuple(emit(op, [x], {}, [x.type])[0] for op, x in zip(table, xs, strict=True))

    pullback = jpmhc.vjp(apply, wrt=tuple(range(len(table))))
    _, gradients = pullback(tuple(cotangents), *inputs)
    for op, x, g, got in zip(table, inputs, cotangents, gradients, strict=True):
        function = table[op]
        want = central_differences(lambda v, f=function, g=g: (f(v) * g).sum(), [x], 0)
        # A few roundings; the polynomials of tanh, erf and atan err by up to 40 ulp.
        assert np.abs(got - want).max() <= 1e-5 * max(np.abs(want).max(), 1), op


def test_functions_of_several_values():
    """atan2, pow, fma, splat and the elements of tensors, which the front end has no name for."""

    def apply(a, b, c):
        def scalar(x):
            return emit("tensor.extract", [x[0].reshape(()), []], {}, ["f32"])[0]

        s, t = scalar(a), scalar(b)
        product = emit("arith.mulf", [s, t], {}, ["f32"])[0]
        pair = emit("tensor.from_elements", [[s, product]], {}, ["tensor<2xf32>"])[0]
        spread = emit("tensor.splat", [product, []], {}, ["tensor<5xf32>"])[0]
        return (
            emit("math.atan2", [a, b], {}, [a.type])[0],
            emit("math.powf", [b, c], {}, [a.type])[0],
            emit("math.fma", [a, b, c], {}, [a.type])[0],
            spread,
            pair,
        )

    def truth(a, b, c):
        product = a[0] * b[0]
        return (
            np.arctan2(a, b),
            b**c,
            a * b + c,
            np.full(5, product),
            np.array([a[0], product]),
        )

    rng = generator(2)
    a, b, c = (rng.uniform(0.4, 2.0, 5).astype(np.float32) for _ in range(3))
    seeds = tuple(rng.standard_normal(n).astype(np.float32) for n in (5, 5, 5, 5, 2))
    _, gradients = jpmhc.vjp(apply, wrt=(0, 1, 2))(seeds, a, b, c)

    def loss(*arrays):
        return sum((y * g).sum() for y, g in zip(truth(*arrays), seeds, strict=True))

    for i, got in enumerate(gradients):
        close(got, central_differences(loss, [a, b, c], i), 1e-5)


# ---- the choices where a function has no derivative ----


def gradient_of_sum(fn, *arrays, wrt=0):
    return jpmhc.value_and_grad(lambda *xs: fn(*xs).sum(), wrt=wrt)(*arrays)[1]


def test_equal_operands_share_the_cotangent_of_a_maximum():
    x, y = np.float32([1, 2, 3]), np.float32([2, 2, 2])
    for fn, mine in ((jpmhc.maximum, [0, 0.5, 1]), (jpmhc.minimum, [1, 0.5, 0])):
        dx, dy = gradient_of_sum(fn, x, y, wrt=(0, 1))
        assert dx.tolist() == mine
        assert dy.tolist() == [1 - v for v in mine]


def test_equal_elements_share_the_cotangent_of_a_largest_element():
    x = np.float32([[1, 3, 3], [2, 0, -1], [5, 5, 5]])
    got = gradient_of_sum(lambda v: v.max(axis=1), x)
    np.testing.assert_allclose(got, [[0, 0.5, 0.5], [1, 0, 0], [1 / 3] * 3], rtol=1e-6)


def test_points_without_a_derivative():
    zero = np.float32([0, -0.0])
    assert gradient_of_sum(jpmhc.abs, zero).tolist() == [0, 0]
    dx, de = gradient_of_sum(
        lambda v, e: emit("math.powf", [v, e], {}, [v.type])[0],
        np.float32([0, 0, 3]),
        np.float32([0, 2, 0]),
        wrt=(0, 1),
    )
    assert dx.tolist() == [0, 0, 0]
    np.testing.assert_allclose(de, [0, 0, math.log(3)], rtol=1e-5)


def test_a_nan_reaches_only_its_own_row():
    x = np.float32([[1, 2], [math.nan, 1], [3, 1]])
    got = gradient_of_sum(lambda v: jpmhc.softmax(v) * v, x)
    assert np.isfinite(got[[0, 2]]).all()
    assert np.isnan(got[1]).all()


# ---- structure ----


def test_integers_have_no_gradient():
    x, ids = np.float32([1.5, 2.5]), np.int32([2, 3])
    fn = jpmhc.value_and_grad(lambda x, i: (x * i.astype("f32")).sum(), wrt=0)
    assert fn(x, ids)[1].tolist() == [2, 3]
    with pytest.raises(errors.DTypeError):
        jpmhc.value_and_grad(lambda x, i: x.sum(), wrt=1)(x, ids)


def test_an_unused_argument_has_gradient_zero():
    x = np.float32([1, 2])
    dx, dy = jpmhc.value_and_grad(lambda x, y: x.sum(), wrt=(0, 1))(x, x)[1]
    assert dx.tolist() == [1, 1]
    assert dy.tolist() == [0, 0]


def test_auxiliary_results_are_carried_through():
    def fn(x, state):
        new_state = ops.stop_gradient(state * 2 + x)
        return (x * new_state).sum(), {"state": new_state, "steps": jpmhc.full((), 3, "i32")}

    x, state = np.float32([1, 2]), np.float32([10, 20])
    (loss, aux), (dx, ds) = jpmhc.value_and_grad(fn, wrt=(0, 1))(x, state)
    assert aux["state"].tolist() == [21, 42] and aux["steps"] == 3
    assert loss == 21 + 84
    assert dx.tolist() == [21, 42]
    assert ds.tolist() == [0, 0]


def test_second_derivative():
    first = jpmhc.value_and_grad(lambda x: (x**3).sum(), wrt=0)
    second = jpmhc.value_and_grad(lambda x: first(x)[1].sum(), wrt=0)
    assert second(np.float32([1, 2]))[1].tolist() == [6, 12]


def test_no_rule_is_an_error_at_the_line():
    def fn(x):
        return emit("arith.remf", [x, x], {}, [x.type])[0].sum()  # this line

    with pytest.raises(
        errors.CompileError, match=r"expected a differentiable op, got 'arith.remf'"
    ):
        jpmhc.value_and_grad(fn, wrt=0)(np.float32([1, 2]))


def test_a_function_called_many_times_is_differentiated_once():
    @jpmhc.function
    def block(x, w):
        return jpmhc.tanh(jpmhc.linear(x, w)) + x

    def loss(x, w):
        for _ in range(5):
            x = block(x, w)
        return (x * x).mean()

    rng = generator(3)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((4, 6), (6, 6)))
    spec = (jpmhc.spec(x.shape), jpmhc.spec(w.shape))
    compiled = jpmhc.compile(jpmhc.value_and_grad(loss, wrt=(0, 1)), *spec)
    _, gradients = compiled(x, w)

    def truth(x, w):
        for _ in range(5):
            x = np.tanh(x @ w.T) + x
        return (x * x).mean()

    for i, got in enumerate(gradients):
        close(got, central_differences(truth, [x, w], i), 1e-5)
    kernels = compiled.print_ir("kernels")
    assert len(re.findall(r"call @\w+block_forward\(", kernels)) == 5
    assert len(re.findall(r"func.func private @\w+block_backward", kernels)) == 1


def test_cotangents_of_low_precision_values_are_summed_in_f32():
    """1 + 512 · 2⁻⁹ is 2, but stays 1 when each sum is rounded to bf16."""

    def fn(x):
        total = x
        for _ in range(512):
            total = total + x * 2.0**-9
        return total

    x = np.ones(3, jpmhc.dtypes.NUMPY["bf16"])
    _, got = jpmhc.vjp(fn, wrt=0)(np.ones_like(x), x)
    assert got.astype(np.float32).tolist() == [2, 2, 2]


# ---- random graphs ----
#
# Every value is [4, 6] and stays within ±4, so that f32 has its full precision and no function
# leaves its domain. An operation is written once, for NumPy and for traced tensors alike.

SHAPE = (4, 6)


class Numeric:
    """The operations in float64."""

    exp, log, sqrt, tanh = map(staticmethod, (np.exp, np.log, np.sqrt, np.tanh))
    sin, cos, abs = map(staticmethod, (np.sin, np.cos, np.abs))
    maximum, minimum, where = map(staticmethod, (np.maximum, np.minimum, np.where))
    erf, concatenate = staticmethod(np.vectorize(math.erf)), staticmethod(np.concatenate)
    transpose, reshape = staticmethod(np.transpose), staticmethod(np.reshape)
    broadcast_to = staticmethod(np.broadcast_to)

    @staticmethod
    def greater(a, b):
        return a > b

    def __init__(self) -> None:
        self.constants: list[np.ndarray] = []
        self.replay: list[np.ndarray] | None = None

    def stop_gradient(self, x):
        """The value at the point where the gradient is taken, whatever moves."""
        if self.replay is not None:
            return self.replay.pop(0)
        self.constants.append(x)
        return x

    def sum(self, x, axis):
        return x.sum(axis=axis, keepdims=True)

    def max(self, x, axis):
        return x.max(axis=axis, keepdims=True)

    def rms_norm(self, x, gain):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gain

    def layer_norm(self, x, gain, shift):
        centred = x - x.mean(axis=-1, keepdims=True)
        return self.rms_norm(centred, gain) + shift

    def softmax(self, x, axis=-1):
        e = np.exp(x - x.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True)

    def truncated(self, x):
        return np.trunc(x)

    def embedding(self, table, ids):
        return table[ids]

    def _box(self, x, width):
        return np.stack([x[max(t - width + 1, 0) : t + 1].mean(0) for t in range(len(x))])

    def tribox(self, x, width):
        return self._box(self._box(x, width), width)

    def side_path(self, x, attn, gate, width):
        return x + attn + gate * self.tribox(x, width)

    def coverage_gate(self, width, context, w1, b1, w2, b2, beta):
        ratio = width / context
        hidden = np.tanh(w1 * np.log2(ratio) + b1) @ w2 + b2
        return ratio ** np.log1p(np.exp(beta)) / (1 + np.exp(-hidden))

    def attention(self, q, k, v):
        """Causal; q [1, T, H, d] and one head of k and v."""
        scores = np.einsum("bqhd,bkd->bhqk", q, k[:, :, 0]) / math.sqrt(q.shape[-1])
        scores = np.where(np.tri(scores.shape[-1], dtype=bool), scores, -np.inf)
        return np.einsum("bhqk,bkd->bqhd", self.softmax(scores), v[:, :, 0])

    def rope(self, x):
        """One head: x [1, T, 1, d]."""
        half = x.shape[-1] // 2
        angle = np.arange(x.shape[1])[:, None] * 1e4 ** (-np.arange(half) / half)
        c, s = np.cos(angle)[:, None], np.sin(angle)[:, None]
        first, second = x[..., :half], x[..., half:]
        return np.concatenate([first * c - second * s, second * c + first * s], -1)

    def project(self, raw, manifold, n, **parameters):
        h = raw.reshape(-1, n, n)
        if manifold == "birkhoff":
            h = np.exp(np.clip(h, -10, 10))
            for _ in range(parameters["rounds"]):
                h = h / h.sum(axis=-1, keepdims=True)
                h = h / h.sum(axis=-2, keepdims=True)
            return h
        w = h - h.transpose(0, 2, 1)
        y = np.eye(n) + 0.1 * w
        for _ in range(2):
            y = np.eye(n) + 0.05 * w @ (np.eye(n) + y)
        return y

    def hyper_connection(self, x, weight, sublayer):
        """Stiefel, layer norm, softmax maps."""
        rows, n, p = x.shape
        flat = x.reshape(rows, n * p)
        z = self.layer_norm(flat, 1.0, 0.0) @ weight.T
        pre, post, res = (z[:, i * n * n : (i + 1) * n * n] for i in range(3))
        read = self.softmax(pre.reshape(rows, n, n)).mean(axis=-2)
        write = self.softmax(post.reshape(rows, n, n), -2).sum(axis=-1)
        y = sublayer(np.einsum("tj,tjp->tp", read, x))
        mixed = self.project(res, "stiefel", n) @ x
        return mixed + write[:, :, None] * y[:, None, :]

    def softmax_cross_entropy(self, logits, target):
        valid = np.flatnonzero(target >= 0)
        return -np.log(self.softmax(logits)[valid, target[valid]]).mean()

    def stablemax_cross_entropy(self, logits, target):
        valid = np.flatnonzero(target >= 0)
        s = np.where(logits >= 0, logits + 1, 1 / (1 - np.minimum(logits, 0)))
        return -np.log((s / s.sum(axis=-1, keepdims=True))[valid, target[valid]]).mean()


class Traced:
    """The operations of the front end."""

    exp, log, sqrt, tanh = map(staticmethod, (jpmhc.exp, jpmhc.log, jpmhc.sqrt, jpmhc.tanh))
    sin, cos, abs = map(staticmethod, (jpmhc.sin, jpmhc.cos, jpmhc.abs))
    maximum, minimum, where = map(staticmethod, (jpmhc.maximum, jpmhc.minimum, jpmhc.where))
    erf, concatenate = staticmethod(jpmhc.erf), staticmethod(jpmhc.concatenate)
    transpose, reshape = staticmethod(shapes.transpose), staticmethod(shapes.reshape)
    broadcast_to = staticmethod(jpmhc.broadcast_to)
    stop_gradient, softmax = staticmethod(ops.stop_gradient), staticmethod(jpmhc.softmax)
    rms_norm, layer_norm = staticmethod(ops.rms_norm), staticmethod(ops.layer_norm)
    embedding, tribox = staticmethod(ops.embedding), staticmethod(ops.tribox)
    side_path, coverage_gate = staticmethod(ops.side_path), staticmethod(ops.coverage_gate)
    rope, project = staticmethod(ops.rope), staticmethod(ops.project)
    hyper_connection = staticmethod(ops.hyper_connection)

    @staticmethod
    def attention(q, k, v):
        return ops.attention(q, k, v, causal=True)

    @staticmethod
    def softmax_cross_entropy(logits, target):
        return ops.softmax_cross_entropy(logits, target, ignore_index=-100)

    @staticmethod
    def stablemax_cross_entropy(logits, target):
        return ops.stablemax_cross_entropy(logits, target, ignore_index=-100)

    @staticmethod
    def greater(a, b):
        return a > b

    @staticmethod
    def sum(x, axis):
        return x.sum(axis=axis, keepdims=True)

    @staticmethod
    def max(x, axis):
        return x.max(axis=axis, keepdims=True)

    @staticmethod
    def truncated(x):
        return x.astype("i32").astype("f32")


IDS = np.int32([2, 0, 0, 3])
TARGET = np.int32([5, -100, 0, 2])


def _attention(m, a, b):
    q = m.reshape(a, (1, 4, 2, 3))
    k, v = (m.reshape(part, (1, 4, 1, 3)) for part in (b[:, :3], b[:, 3:]))
    return m.reshape(m.attention(q, k, v), SHAPE)


def _projection(manifold, **parameters):
    def run(m, a, b):
        mixers = m.project(a[:, 1:5], manifold, 2, **parameters)
        return m.concatenate([m.reshape(mixers, (4, 4)), b[:, ::3]], 1)

    return run


def _hyper_connection(m, a, b):
    weight = m.concatenate([b, a * 0.5, b * a], 0)
    out = m.hyper_connection(m.reshape(a, (4, 2, 3)), weight, lambda v: m.tanh(v + b[:, :3]))
    return m.reshape(out, SHAPE)


def _gate(m, a, b):
    flat = m.reshape(a, (24,))
    w1, b1, w2 = flat[:16], flat[8:], m.reshape(b, (24,))[4:20]
    return m.coverage_gate(3, 8, w1, b1, w2, b[0, 0], b[1, 1] * 0.2) * a


OPERATIONS: dict[str, Callable[..., Any]] = {
    "add": lambda m, a, b: a + b,
    "subtract": lambda m, a, b: a - b,
    "multiply": lambda m, a, b: a * b,
    "divide": lambda m, a, b: a / (b * b + 1.0),
    "negate": lambda m, a, b: -a,
    "constant": lambda m, a, b: 0.5 * a + 1.25,
    "power": lambda m, a, b: a**3 * 0.1,
    "exp": lambda m, a, b: m.exp(m.minimum(a, 1.0)),
    "log": lambda m, a, b: m.log(a * a + 0.5),
    "sqrt": lambda m, a, b: m.sqrt(a * a + 0.25),
    "tanh": lambda m, a, b: m.tanh(a),
    "sin": lambda m, a, b: m.sin(a) * m.cos(b),
    "erf": lambda m, a, b: m.erf(a),
    "abs": lambda m, a, b: m.abs(a),
    "maximum": lambda m, a, b: m.maximum(a, b),
    "minimum": lambda m, a, b: m.minimum(a, b),
    "where": lambda m, a, b: m.where(m.greater(a, b), a * 0.5, b),
    "truncate": lambda m, a, b: m.truncated(a) * b,
    "sum rows": lambda m, a, b: m.sum(a, 0) * 0.25 + b,
    "sum columns": lambda m, a, b: m.sum(a, 1) * 0.25 + b,
    "max columns": lambda m, a, b: b - m.max(a, 1),
    "max rows": lambda m, a, b: b * m.max(a, 0),
    "broadcast": lambda m, a, b: (
        m.broadcast_to(a[1:2, :], SHAPE) + m.broadcast_to(b[:, 3:4], SHAPE)
    ),
    "product": lambda m, a, b: ((a @ m.transpose(b, (1, 0))) @ a) * 0.1,
    "batched product": lambda m, a, b: (
        m.reshape(
            m.reshape(a, (2, 2, 6)) @ m.reshape(m.concatenate([b, b, b], 0), (2, 6, 6)), SHAPE
        )
        * 0.3
    ),
    "transpose": lambda m, a, b: m.reshape(m.transpose(a, (1, 0)), SHAPE) * b,
    "reshape": lambda m, a, b: m.reshape(m.reshape(a, (2, 12)) + m.reshape(b, (2, 12)), SHAPE),
    "slices": lambda m, a, b: m.concatenate([a[:, 4:], b[:, 1:5]], 1),
    "strided": lambda m, a, b: m.concatenate([a[:, ::2], b[:, ::2] * a[:, 1::2]], 1),
    "stop": lambda m, a, b: m.stop_gradient(a) * b,
    "softmax": lambda m, a, b: m.softmax(a) * b,
    "rms_norm": lambda m, a, b: m.rms_norm(a, b[0]),
    "layer_norm": lambda m, a, b: m.layer_norm(a, b[0], b[1]),
    "tribox": lambda m, a, b: m.tribox(a, 2),
    "side_path": lambda m, a, b: m.side_path(a, b, b[0, 0], 3) * 0.5,
    "coverage_gate": _gate,
    "attention": _attention,
    "rope": lambda m, a, b: m.reshape(m.rope(m.reshape(a, (1, 4, 1, 6))), SHAPE),
    "stiefel": _projection("stiefel"),
    "birkhoff": _projection("birkhoff", rounds=3),
    "hyper_connection": _hyper_connection,
    "embedding": lambda m, a, b: m.embedding(a, IDS) * b,
    "softmax loss": lambda m, a, b: m.softmax_cross_entropy(a, TARGET) * b,
    "stablemax loss": lambda m, a, b: m.stablemax_cross_entropy(a, TARGET) * b,
}


@dataclass
class Program:
    """Operations in order; an operand is a number of an earlier value, inputs first.

    A `block` is a program of two values that is called like an operation.
    """

    inputs: int
    steps: list[tuple[str, int, int, bool]] = field(default_factory=list)
    block: Program | None = None

    def run(self, m: Any, values: list[Any], call: Callable[..., Any]) -> Any:
        values = list(values)
        for name, i, j, squash in self.steps:
            a, b = values[i], values[j]
            out = call(a, b) if name == "call" else OPERATIONS[name](m, a, b)
            values.append(m.tanh(out) if squash else out)
        return values[-1] + values[-2] * values[-3]

    def traced(self, *xs: Any) -> Any:
        block = self.block
        called = jpmhc.function(lambda a, b: block.run(Traced, [a, b], None)) if block else None
        return self.run(Traced, list(xs), called)

    def numeric(self, m: Numeric, *xs: np.ndarray) -> np.ndarray:
        def called(a, b):
            return self.block.run(m, [a, b], None)

        return self.run(m, list(xs), called)


def draw_program(rng: np.random.Generator, arrays: list[np.ndarray], length: int) -> Program:
    """A program whose values stay within ±4 on these inputs."""
    program = Program(len(arrays))
    if length > 4:
        program.block = draw_program(rng, arrays[:2], 3)
    names = [*OPERATIONS, *(["call"] * 8 if program.block else [])]
    values = [a.astype(np.float64) for a in arrays]
    m = Numeric()
    for _ in range(length):
        name = names[rng.integers(len(names))]
        # Later values are preferred, so that most of what is drawn matters.
        i, j = (len(values) - 1 - min(int(rng.exponential(2)), len(values) - 1) for _ in range(2))
        a, b = values[i], values[j]
        out = program.block.run(m, [a, b], None) if name == "call" else OPERATIONS[name](m, a, b)
        squash = bool(np.abs(out).max() > 4)
        values.append(np.tanh(out) if squash else out)
        program.steps.append((name, i, j, squash))
    return program


def gradients_in_float64(
    program: Program, arrays: list[np.ndarray], cotangent: np.ndarray
) -> list[np.ndarray]:
    base = Numeric()
    program.numeric(base, *(a.astype(np.float64) for a in arrays))

    def loss(*moved):
        m = Numeric()
        m.replay = list(base.constants)
        return (program.numeric(m, *moved) * cotangent).sum()

    return [central_differences(loss, arrays, i) for i in range(len(arrays))]


# Values and derivatives are of order 1 and errors of f32 (1e-7) grow with the product of the
# derivatives along a path; 64 graphs of this kind erred by up to 2e-5 of the largest gradient.
GRAPH_TOLERANCE = 2e-4


@pytest.mark.parametrize("seed", range(10))
def test_random_graphs(seed):
    rng = generator(100 + seed)
    arrays = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(3)]
    program = draw_program(rng, arrays, length=14)
    cotangent = rng.standard_normal(SHAPE).astype(np.float32)
    value, gradients = jpmhc.vjp(program.traced, wrt=(0, 1, 2))(cotangent, *arrays)
    want = program.numeric(Numeric(), *(a.astype(np.float64) for a in arrays))
    close(value, want, GRAPH_TOLERANCE)
    truth = gradients_in_float64(program, arrays, cotangent)
    for got, expected in zip(gradients, truth, strict=True):
        close(got, expected, GRAPH_TOLERANCE)


def test_every_operation_alone():
    """One program with each operation on arrays of its own."""
    rng = generator(7)
    arrays = [rng.standard_normal(SHAPE).astype(np.float32) for _ in range(2 * len(OPERATIONS))]
    cotangents = [rng.standard_normal(SHAPE).astype(np.float32) for _ in OPERATIONS]

    def apply(*xs):
        pairs = zip(OPERATIONS.values(), xs[::2], xs[1::2], strict=True)
        return tuple(operation(Traced, a, b) for operation, a, b in pairs)

    pullback = jpmhc.vjp(apply, wrt=tuple(range(len(arrays))))
    values, gradients = pullback(tuple(cotangents), *arrays)
    for i, (name, operation) in enumerate(OPERATIONS.items()):
        base, pair, cotangent = Numeric(), arrays[2 * i : 2 * i + 2], cotangents[i]
        want = operation(base, *(x.astype(np.float64) for x in pair))

        def loss(a, b, f=operation, g=cotangent, constants=base.constants):
            m = Numeric()
            m.replay = list(constants)
            return (f(m, a, b) * g).sum()

        errors_seen = [values[i] - want]
        for k in range(2):
            errors_seen.append(gradients[2 * i + k] - central_differences(loss, pair, k))
        # A single operation errs by a few roundings of numbers of order 1 to 10.
        assert max(np.nanmax(np.abs(e)) for e in errors_seen) <= 5e-5, name


def test_a_wrong_gradient_would_be_seen():
    """The comparison above can fail."""
    with pytest.raises(AssertionError):
        close(np.ones(3), np.array([1, 1, 1 + 3 * GRAPH_TOLERANCE]), GRAPH_TOLERANCE)
