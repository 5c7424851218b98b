# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels whose operands are slices: rows that are not evenly spaced in memory."""

import numpy as np

import jpmhc


def test_gradient_of_an_embedding_behind_other_tokens():
    rng = np.random.default_rng(0)
    first = rng.standard_normal((3, 2, 5)).astype(np.float32)
    table = rng.standard_normal((7, 5)).astype(np.float32)
    weights = rng.standard_normal((3, 6, 5)).astype(np.float32)
    ids = np.array([[0, 6, 2, 2], [1, 1, 1, 1], [5, 4, 3, 0]], np.int32)

    def loss(table):
        tokens = jpmhc.concatenate([first, jpmhc.ops.embedding(table, ids)], 1)
        return (tokens * weights).sum()

    value, gradient = jpmhc.value_and_grad(loss, 0)(table)
    want = np.zeros_like(table)
    np.add.at(want, ids, weights[:, 2:])
    # At most five terms of size 1 are summed: rounding stays far below 1e-5.
    np.testing.assert_allclose(gradient, want, atol=1e-5)
    joined = np.concatenate([first, table[ids]], 1)
    assert abs(value - (joined * weights).sum()) < 1e-4


def test_norm_of_the_middle_of_a_tensor():
    x = np.random.default_rng(1).standard_normal((3, 6, 8)).astype(np.float32)
    normed = jpmhc.compile(lambda x: jpmhc.ops.rms_norm(x[:, 1:4] * 2.0), x)(x)
    part = 2 * x[:, 1:4].astype(np.float64)
    want = part / np.sqrt((part**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(normed, want, atol=1e-5)
    plain = jpmhc.compile(lambda x: jpmhc.ops.rms_norm(x[:, 1:4]), x)(x)
    part = x[:, 1:4].astype(np.float64)
    want = part / np.sqrt((part**2).mean(-1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(plain, want, atol=1e-5)
