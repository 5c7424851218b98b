# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Projections in bf16 and f16 at sizes that fill no vector."""

import ml_dtypes
import numpy as np
import pytest

import jpmhc
from jpmhc import manifolds, ops

TYPES = {"bf16": ml_dtypes.bfloat16, "f16": np.float16}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("manifold", "n"), [("birkhoff", 3), ("stiefel", 3), ("free", 5)])
def test_projections_of_odd_sizes(manifold, n, dtype):
    size = manifolds.get(manifold).raw_size(n)
    rng = np.random.default_rng(n)
    raw = rng.normal(size=(37, size)).astype(TYPES[dtype])
    cotangent = rng.normal(size=(37, n, n)).astype(TYPES[dtype])
    pullback = jpmhc.vjp(lambda raw: ops.project(raw, manifold, n), wrt=0)
    narrow = jpmhc.compile(pullback, cotangent, raw)(cotangent, raw)
    wide = [cotangent.astype(np.float32), raw.astype(np.float32)]
    exact = jpmhc.compile(pullback, *wide)(*wide)
    epsilon = float(ml_dtypes.finfo(TYPES[dtype]).eps)
    for got, want in zip(narrow, exact, strict=True):
        # Inputs are the same numbers: one rounding of the result.
        bound = epsilon * np.abs(want).max()
        assert np.abs(got.astype(np.float32) - want).max() <= bound
