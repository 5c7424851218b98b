# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers against NumPy in float64, and what hyper-connections start as."""

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, manifolds, nn

RNG = np.random.default_rng(0)


def draw(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def run(fn, *arrays):
    return jpmhc.compile(fn, *arrays)(*arrays)


def close(got, want, tolerance=3e-6):
    scale = max(np.abs(want).max(), 1.0)
    assert got.shape == want.shape
    assert np.abs(got - want).max() <= tolerance * scale


def test_norms():
    x = draw(5, 7)
    rms, layer = nn.RMSNorm(7).init(0), nn.LayerNorm(7).init(0)
    rms.gain.array = draw(7)
    layer.gain.array, layer.shift.array = draw(7), draw(7)
    x64 = x.astype(np.float64)
    close(run(rms, x), x64 / np.sqrt((x64**2).mean(1, keepdims=True) + 1e-5) * rms.gain.array)
    centred = x64 - x64.mean(1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-5)
    close(run(layer, x), want * layer.gain.array + layer.shift.array)


def test_swiglu_gate_comes_first():
    layer, x = nn.SwiGLU(6, 9).init(1), draw(4, 6)
    gate, up = layer.gate_up.array[:9].astype(np.float64), layer.gate_up.array[9:]
    z = x @ gate.T
    close(run(layer, x), (z / (1 + np.exp(-z)) * (x @ up.T)) @ layer.down.array.T)


def rotate(x, theta=1e4):
    half = x.shape[-1] // 2
    angle = np.arange(x.shape[1])[:, None] * theta ** (-2 * np.arange(half) / x.shape[-1])
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    a, b = x[..., :half], x[..., half:]
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attend(layer, x):
    batch, tokens, _ = x.shape
    h, g, d = layer.heads, layer.groups, layer.head_dim
    qkv = (x @ layer.qkv.array.T).reshape(batch, tokens, h + 2 * g, d)
    q, k, v = qkv[:, :, :h], qkv[:, :, h : h + g], qkv[:, :, h + g :]
    if layer.rope:
        q, k = rotate(q), rotate(k)
    k, v = (np.repeat(a, h // g, axis=2) for a in (k, v))
    scores = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(d)
    age = np.arange(tokens)[:, None] - np.arange(tokens)
    visible = np.ones((tokens, tokens), bool)
    if layer.causal:
        visible &= age >= 0
    if layer.window:
        visible &= age < layer.window
    scores = np.where(visible, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("bhts,bshd->bthd", weights, v).reshape(x.shape) @ layer.out.array.T


@pytest.mark.parametrize(
    "options",
    [
        {"causal": True},
        {"causal": False},
        {"causal": True, "groups": 2},
        {"causal": True, "window": 3},
        {"causal": False, "rope": False},
    ],
)
def test_attention(options):
    layer, x = nn.Attention(16, 4, **options).init(2), draw(2, 7, 16)
    close(run(layer, x), attend(layer, x.astype(np.float64)))


def test_attention_on_token_rows():
    layer, x = nn.Attention(8, 2, tokens=5).init(2), draw(15, 8)
    close(run(layer, x), attend(layer, x.reshape(3, 5, 8).astype(np.float64)).reshape(15, 8))


def test_embedding_checks_ids_before_the_run():
    layer = nn.Embedding(5, 3).init(0)
    compiled = jpmhc.compile(lambda ids: layer(ids.reshape(2, 2)), jpmhc.spec((4,), "i32"))
    ids = np.array([0, 4, 2, 4], np.int32)
    np.testing.assert_array_equal(compiled(ids), layer.weight.array[ids.reshape(2, 2)])
    for wrong in (5, -1):
        ids[2] = wrong
        with pytest.raises(errors.RangeError, match=rf"at \(2,\): expected 0 … 4, got {wrong}"):
            compiled(ids)


def test_ids_are_checked_through_functions_and_derivatives():
    layer = nn.Embedding(5, 3).init(0)

    @jpmhc.function
    def lookup(ids):
        return layer(ids)

    def loss(ids, target):
        logits = jpmhc.linear(lookup(ids), layer.weight)
        return jpmhc.ops.softmax_cross_entropy(logits, target)

    evaluate = jpmhc.value_and_grad(loss)
    right, high = np.zeros(4, np.int32), np.full(4, 5, np.int32)
    evaluate(right, np.full(4, -100, np.int32))
    for ids, target in ((high, right), (right, high)):
        with pytest.raises(errors.RangeError, match="0 … 4, got 5"):
            evaluate(ids, target)


def test_computed_ids_outside_the_table_reach_only_their_row():
    table = RNG.standard_normal((5, 3)).astype(np.float32)
    ids, ones = np.array([0, 3, 1], np.int32), np.ones((3, 3), np.float32)

    def lookup(table, ids):
        return jpmhc.ops.embedding(table, ids * 2)  # 0, 6, 2

    rows, gradient = jpmhc.vjp(lookup, wrt=0)(ones, table, ids)
    np.testing.assert_array_equal(rows[[0, 2]], table[[0, 2]])
    assert np.isnan(rows[1]).all()
    np.testing.assert_array_equal(gradient.sum(axis=1), [3, 0, 3, 0, 0])

    def loss(logits, targets):
        return jpmhc.ops.softmax_cross_entropy(logits, targets * 2)

    value, slope = jpmhc.value_and_grad(loss, wrt=0)(table.T.copy(), ids)
    assert np.isnan(value) and np.isnan(slope[1]).all() and np.isfinite(slope[[0, 2]]).all()


# ---- hyper-connections ----


class Stack(nn.Module):
    """Two sub-layers, plain or wrapped in hyper-connections."""

    def __init__(self, dim, n, **options):
        self.layers = [nn.SwiGLU(dim, 2 * dim) for _ in range(2)]
        self.blocks = [nn.HyperConnection(layer, dim, n, **options) for layer in self.layers]
        self.n = n

    def forward(self, x):
        streams = nn.copy_in(x, self.n)
        for block in self.blocks:
            streams = block(streams)
        return nn.mean_out(streams)

    def plain(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


@pytest.mark.parametrize("read_write", ["softmax", "sigmoid"])
@pytest.mark.parametrize("manifold", ["birkhoff", "stiefel", "permutation", "free", "identity"])
def test_one_stream_starts_as_the_plain_residual(manifold, read_write):
    model = Stack(8, 1, manifold=manifold, read_write=read_write).init(3)
    x = draw(6, 8)
    want = run(model.plain, x)
    # The dynamic part is there from the start, at a hundredth: maps move by about 1 %.
    assert np.abs(run(model, x) - want).max() < 0.05 * np.abs(want).max()
    for block in model.blocks:
        block.alpha.array[...] = 0
    # Without it the start is exact, up to the float32 of the maps and Sinkhorn's last round.
    close(run(model, x), want.astype(np.float64), 1e-5)


def test_grassmann_starts_as_the_projector_of_the_first_coordinates():
    model = nn.HyperConnection(lambda v: v * 0.0, 4, 4, manifold="grassmann").init(0)
    assert not manifolds.get("grassmann").starts_as_identity
    model.alpha.array[...] = 0
    x = draw(5, 4, 4)
    want = x.copy()
    want[:, 2:] = 0
    close(run(model, x), want, 1e-5)


@pytest.mark.parametrize(
    "options, text",
    [
        ({"manifold": "stiefell"}, "did you mean 'stiefel'"),
        ({"manifold": "birkhoff", "round": 5}, "did you mean 'rounds'"),
        ({"norm": "layr"}, "did you mean 'layer'"),
        ({"read_write": "softmx"}, "did you mean 'softmax'"),
        ({"manifold": "birkhoff", "rounds": 0}, "rounds"),
        ({"n": 17}, "17"),
        ({"manifold": "grassmann", "n": 1}, "1"),
    ],
)
def test_wrong_hyper_connections(options, text):
    with pytest.raises(errors.ConfigError) as caught:
        nn.HyperConnection(lambda v: v, 4, **options)
    assert text in str(caught.value)
    assert "test_nn_layers.py" in str(caught.value.where)


def test_every_mixer_trains():
    x, y = draw(6, 8), draw(6, 8)
    for manifold in manifolds.names():
        model = Stack(8, 4, manifold=manifold).init(0)

        def loss(x, y, model=model):
            return ((model(x) - y) ** 2).mean()

        step = jpmhc.TrainStep(model, loss, jpmhc.optim.AdamW(lr=0.01), x, y)
        first = step(x, y)
        for _ in range(20):
            last = step(x, y)
        assert last < 0.9 * first, manifold


def test_side_path_with_shared_gate():
    gate = nn.CoverageGate()

    class Layers(nn.Module):
        def __init__(self):
            self.layers = [nn.SidePath(level, gate) for level in range(3)]

        def forward(self, x, attn):
            for layer in self.layers:
                x = layer(x, attn)
            return x

    model = Layers().init(0)
    assert model.num_parameters == 50
    x, attn = draw(1, 9, 3), draw(1, 9, 3)

    def box(v, width):
        return np.stack([v[:, max(0, t - width + 1) : t + 1].mean(1) for t in range(9)], 1)

    want = x.astype(np.float64)
    g = {name: p.array.astype(np.float64) for name, p in gate.named_parameters()}
    for level in range(3):
        r = 2**level / 9
        logit = g["w2"] @ np.tanh(g["w1"] * np.log2(r) + g["b1"]) + g["b2"]
        value = 1 / (1 + np.exp(-logit)) * r ** np.log1p(np.exp(g["beta"]))
        want = want + attn + value * box(box(want, 2**level), 2**level)
    close(run(model, x, attn), want)
