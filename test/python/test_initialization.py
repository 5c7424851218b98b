# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""At step 0 a network of hyper-connections is the plain residual network on every stream."""

import numpy as np
import pytest

import jpmhc
from jpmhc import manifolds, nn
from jpmhc.experiments.arc_model import ArcModel, ModelConfig

ROWS, DIM, DEPTH = 12, 16, 4
# A projector of rank n / 2 is no identity: the plain residual network is out of its reach.
CANNOT_HOLD = {"grassmann"}


class Plain(nn.Module):
    """x + F(x) for each sub-layer in turn."""

    def __init__(self):
        self.layers = [nn.SwiGLU(DIM, 24) for _ in range(DEPTH)]

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Streams(nn.Module):
    """The same sub-layers, under the same names, in hyper-connections."""

    def __init__(self, manifold, n, **options):
        self.layers = [nn.SwiGLU(DIM, 24) for _ in range(DEPTH)]
        self.connections = [
            nn.HyperConnection(layer, DIM, n, manifold, **options) for layer in self.layers
        ]
        self.n = n

    def forward(self, x):
        x = nn.copy_in(x, self.n)
        for connection in self.connections:
            x = connection(x)
        return x


def outputs(manifold, n, dynamic, **options):
    """The plain network's output [N, d] and the streams' [N, n, d], for equal sub-layers."""
    plain, streams = Plain().init(3), Streams(manifold, n, **options).init(3)
    for name, parameter in plain.named_parameters():
        np.testing.assert_array_equal(parameter.array, streams.state_dict()[name])
    if not dynamic:
        for connection in streams.connections:
            connection.alpha.array[...] = 0
    x = np.random.default_rng(4).standard_normal((ROWS, DIM)).astype(np.float32)
    return jpmhc.compile(plain, x)(x), jpmhc.compile(streams, x)(x)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("manifold", [m for m in manifolds.names() if m not in CANNOT_HOLD])
def test_every_stream_is_the_plain_residual_network(manifold, n):
    want, got = outputs(manifold, n, dynamic=False)
    # Rounding of four layers; 20 rounds of Sinkhorn on a bias of 4 I leave rows off by 1e-6.
    bound = 1e-5 * np.abs(want).max()
    np.testing.assert_allclose(got, np.broadcast_to(want[:, None], got.shape), atol=bound)


@pytest.mark.parametrize("manifold", [m for m in manifolds.names() if m not in CANNOT_HOLD])
@pytest.mark.parametrize("norm, read_write", [("rms", "softmax"), ("layer", "sigmoid")])
def test_the_kinds_of_norm_and_map_do_not_matter(manifold, norm, read_write):
    want, got = outputs(manifold, 4, dynamic=False, norm=norm, read_write=read_write)
    bound = 1e-5 * np.abs(want).max()
    np.testing.assert_allclose(got, np.broadcast_to(want[:, None], got.shape), atol=bound)


@pytest.mark.parametrize("manifold", [m for m in manifolds.names() if m not in CANNOT_HOLD])
def test_the_dynamic_part_is_a_small_disturbance(manifold):
    want, got = outputs(manifold, 4, dynamic=True)
    # Its factor is 0.01 on raw numbers of about unit size: a percent a layer.
    error = np.abs(got.mean(1) - want).max() / np.abs(want).max()
    assert error < 0.01 * DEPTH
    # And the streams part: the write differs from stream to stream.
    assert np.abs(got - got.mean(1, keepdims=True)).max() > 0


@pytest.mark.parametrize("manifold", sorted(CANNOT_HOLD))
def test_a_projector_is_another_network(manifold):
    want, got = outputs(manifold, 4, dynamic=False)
    assert np.abs(got.mean(1) - want).max() > 0.05 * np.abs(want).max()


def test_the_recursive_model_equals_its_baseline():
    sizes = {"puzzles": 3, "dim": 16, "heads": 2, "hidden": 24, "puzzle_tokens": 1, "canvas": 3}
    plain = ArcModel(ModelConfig(manifold="identity", **sizes)).init(5)
    streams = ArcModel(ModelConfig(manifold="stiefel", **sizes)).init(5)
    for block in streams.blocks:
        block.attention.alpha.array[...] = block.mlp.alpha.array[...] = 0
    state = plain.initial_state(2)
    tokens = np.random.default_rng(6).integers(0, 12, (2, 9)).astype(np.int32)
    ids = np.array([1, 2], np.int32)
    results = []
    for model in (plain, streams):
        step = jpmhc.compile(model.supervision_step, state, tokens, ids)
        results.append(step(state, tokens, ids)[1])
    # Twelve applications of a block, each with the rounding of a different order of sums.
    np.testing.assert_allclose(results[0], results[1], atol=1e-4 * np.abs(results[0]).max())
