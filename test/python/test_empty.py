# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Arrays without elements: any axis may be 0, forward and backward."""

import math

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, ops


def zeros(*shape, dtype=np.float32):
    return np.zeros(shape, dtype)


def run(fn, *arrays):
    """Values and gradients of a function of arrays, by every f32 one."""
    floats = tuple(i for i, a in enumerate(arrays) if a.dtype == np.float32)
    value = jpmhc.compile(fn, *arrays)(*arrays)
    again, gradients = jpmhc.vjp(fn, wrt=floats)(np.ones_like(value), *arrays)
    gradients = gradients if len(floats) > 1 else (gradients,)
    np.testing.assert_array_equal(again, value)
    for i, gradient in zip(floats, gradients, strict=True):
        assert gradient.shape == arrays[i].shape
    return value, gradients


ROW_WISE = {
    "arithmetic": lambda x: x * 2 + x / (x * x + 1),
    "softmax": jpmhc.softmax,
    "rms_norm": lambda x: ops.rms_norm(x),
    "layer_norm": lambda x: ops.layer_norm(x),
    "transpose": lambda x: x.transpose(2, 0, 1) + 1,
    "flat": lambda x: x.reshape(math.prod(x.shape)) * 3,
    "slice": lambda x: x[:, :, :1] + x[:, :, 0:1],
    "joined": lambda x: jpmhc.concatenate([x, x], 1),
    "sum": lambda x: x.sum(axis=1),
    "sum of all": lambda x: x.sum(),
    "broadcast": lambda x: jpmhc.broadcast_to(x.sum(axis=1, keepdims=True), x.shape),
    "tribox": lambda x: ops.tribox(x, 3),
    "side_path": lambda x: ops.side_path(x, x, 0.5, 3),
}


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)])
@pytest.mark.parametrize("name", ROW_WISE)
def test_rows(name, shape):
    if name == "slice" and shape[2] == 0:
        return  # no first column
    value, _ = run(ROW_WISE[name], zeros(*shape))
    assert np.isfinite(value).all()
    if name == "sum of all":
        assert value == 0


@pytest.mark.parametrize("m, k, n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_products(m, k, n):
    value, _ = run(lambda a, b: a @ b, zeros(m, k), zeros(k, n))
    assert value.shape == (m, n) and not value.any()
    value, _ = run(lambda a, b: a @ b, zeros(2, m, k), zeros(2, k, n))
    assert value.shape == (2, m, n) and not value.any()


@pytest.mark.parametrize("shape", [(0, 5, 2, 4), (2, 0, 2, 4)])
def test_attention(shape):
    def fn(q, k, v):
        return ops.attention(ops.rope(q), ops.rope(k), v, causal=True)

    run(fn, zeros(*shape), zeros(*shape), zeros(*shape))


@pytest.mark.parametrize("heads, channels, text", [(0, 4, "head"), (2, 0, "channel a head")])
def test_attention_needs_heads_and_channels(heads, channels, text):
    x = zeros(2, 5, heads, channels)
    with pytest.raises(errors.CompileError, match=f"expected at least one {text}"):
        jpmhc.compile(lambda q: ops.attention(q, q, q, causal=True), x)


@pytest.mark.parametrize("ids", [(0,), (2, 0), (0, 3)])
def test_embedding(ids):
    value, (gradient,) = run(ops.embedding, zeros(5, 4), zeros(*ids, dtype=np.int32))
    assert value.shape == (*ids, 4) and not gradient.any()


def test_embedding_without_columns():
    run(ops.embedding, zeros(5, 0), np.int32([0, 4]))


@pytest.mark.parametrize("loss", [ops.softmax_cross_entropy, ops.stablemax_cross_entropy])
@pytest.mark.parametrize("shape", [(0, 5), (2, 0, 5)])
def test_losses(loss, shape):
    value, _ = run(loss, zeros(*shape), zeros(*shape[:-1], dtype=np.int32))
    assert value == 0


@pytest.mark.parametrize("manifold", jpmhc.manifolds.names())
@pytest.mark.parametrize("rows, channels", [(0, 4)])
def test_streams(manifold, rows, channels):
    model = jpmhc.nn.HyperConnection(jpmhc.tanh, channels, 4, manifold).init(0)

    def loss(x):
        return (model(x) * model(x)).sum()

    value, gradients = jpmhc.value_and_grad(loss)(zeros(rows, 4, channels))
    assert value == 0
    assert all(not np.asarray(g).any() for g in gradients.values())


def test_random_numbers():
    drawn = jpmhc.compile(lambda: ops.random_normal((2, 0, 3), seed=1, step=0))()
    assert drawn.shape == (2, 0, 3)


def test_optimisers():
    table = np.ones((5, 4), np.float32)
    update = jpmhc.compile(
        lambda t, ids, rows: ops.sign_sgd_rows(t, ids, rows, lr=0.5),
        table, zeros(0, dtype=np.int32), zeros(0, 4),
    )  # fmt: skip
    np.testing.assert_array_equal(update(table, zeros(0, dtype=np.int32), zeros(0, 4)), table)
    assert jpmhc.compile(ops.global_norm, zeros(0))(zeros(0)) == 0
