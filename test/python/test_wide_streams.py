# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The product of a token's streams is laid out by how wide they are: all layouts agree."""

import numpy as np
import pytest

import jpmhc
from jpmhc import ops

STREAMS, TOKENS = 4, 21


def _gradients(norm, p, used, x, weight, cotangent):
    """Output and gradients of a block whose channels past `used` are zero, on the others."""

    def widen(array, axis):
        pad = [(0, 0)] * array.ndim
        pad[axis] = (0, p - used)
        return np.pad(array, pad)

    def block(x, weight):
        return ops.hyper_connection(
            x, weight, jpmhc.tanh, manifold="birkhoff", norm=norm, read_write="sigmoid", eps=1e-20
        )

    wide_weight = widen(weight.reshape(-1, STREAMS, used), 2) * np.sqrt(used / p)
    pullback = jpmhc.vjp(block, wrt=(0, 1))
    arrays = [widen(cotangent, 2), widen(x, 2), wide_weight.reshape(-1, STREAMS * p)]
    arrays = [a.astype(np.float32) for a in arrays]
    out, (dx, dw) = jpmhc.compile(pullback, *arrays)(*arrays)
    dw = dw.reshape(-1, STREAMS, p)[..., :used] * np.sqrt(used / p)
    return out[..., :used], dx[..., :used], dw


@pytest.mark.parametrize("p", [9, 24, 500, 512, 2050])
def test_zero_channels_change_nothing(p):
    """The mean square shrinks with the zeros, which the weight makes up for. 2050 channels are too
    many for panels of 16 tokens; 9 and 500 do not fill the last panel."""
    used, generator = 8, np.random.default_rng(1)
    x = generator.standard_normal((TOKENS, STREAMS, used))
    weight = 0.2 * generator.standard_normal((24, STREAMS * used))
    cotangent = generator.standard_normal(x.shape)
    expected = _gradients("rms", used, used, x, weight, cotangent)
    given = _gradients("rms", p, used, x, weight, cotangent)
    for a, b in zip(given, expected, strict=True):
        # Sums of a few hundred f32 terms in another order.
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-6 * np.abs(b).max())


@pytest.mark.parametrize("p", [9, 31, 64])
def test_layer_norm_ignores_a_common_offset(p):
    """Rows far from zero: centred before they are squared."""
    generator = np.random.default_rng(2)
    x = generator.standard_normal((TOKENS, STREAMS, p)).astype(np.float32)
    weight = (0.1 * generator.standard_normal((8, STREAMS * p))).astype(np.float32)
    cotangent = generator.standard_normal(x.shape).astype(np.float32)
    moved = np.round(x * 64) / 64
    maps = []
    for offset in (0.0, 256.0):
        streams = (moved + offset).astype(np.float32)

        def block(x, weight):
            return ops.hyper_connection(
                x, weight, lambda y: y * 0.0 + 1.0, manifold="identity", read_write="sigmoid"
            )

        pullback = jpmhc.vjp(block, wrt=(1,))
        arrays = [cotangent, streams, weight]
        out = jpmhc.compile(pullback, *arrays)(*arrays)[0]
        maps.append(out - streams)  # what is written, by the logits
    # Numbers near 256 have roundings of 1.5e-5.
    np.testing.assert_allclose(maps[1], maps[0], rtol=0, atol=4e-5)
