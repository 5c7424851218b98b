# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention and its gradients against NumPy in float64, compiled and run on the CPU."""

import ml_dtypes
import numpy as np
import pytest

import jpmhc
from jpmhc import errors, ops
from jpmhc._text import boolean, i64
from jpmhc.tracing import emit


def visible(tokens, causal, window, ids):
    """[B or 1, T, T]: whether query t sees key s."""
    t, s = np.arange(tokens)[:, None], np.arange(tokens)[None, :]
    keep = np.ones((1, tokens, tokens), bool)
    if causal:
        keep = keep & (s <= t)
    if window:
        keep = keep & (s > t - window)
    if ids is not None:
        keep = keep & (ids[:, :, None] == ids[:, None, :])
    return keep


def truth(q, k, v, dout, causal=False, window=0, ids=None):
    """out, lse, dq, dk, dv in float64 by the formulas, with the whole matrix of scores."""
    q, k, v, dout = (a.astype(np.float64) for a in (q, k, v, dout))
    batch, tokens, groups, size = k.shape
    ratio = q.shape[2] // groups
    k, v = (np.repeat(a, ratio, 2) for a in (k, v))
    keep = visible(tokens, causal, window, ids)[:, None]
    scores = np.where(keep, np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(size), -np.inf)
    lse = np.logaddexp.reduce(scores, -1)
    p = np.exp(scores - lse[..., None])
    out = np.einsum("bhts,bshd->bthd", p, v)
    dp = np.einsum("bthd,bshd->bhts", dout, v)
    ds = p * (dp - np.einsum("bthd,bthd->bht", dout, out)[..., None]) / np.sqrt(size)
    dq = np.einsum("bhts,bshd->bthd", ds, k)
    dk = np.einsum("bhts,bthd->bshd", ds, q)
    dv = np.einsum("bhts,bthd->bshd", p, dout)
    dk, dv = (a.reshape(batch, tokens, groups, ratio, size).sum(3) for a in (dk, dv))
    return out, lse, dq, dk, dv


COMPILED = {}  # programs by masks, shapes and types


def run(q, k, v, dout, causal=False, window=0, ids=None):
    """The same five by the compiler."""
    attributes = {"causal": boolean(causal), "window": i64(window)}

    def both(q, k, v, dout, ids=None):
        out, lse = emit("jpmhc.attention", [q, k, v, ids], attributes)
        gradients = emit("jpmhc.attention_vjp", [q, k, v, out, lse, dout, ids], attributes)
        return out, lse, *gradients

    arrays = (q, k, v, dout) if ids is None else (q, k, v, dout, ids)
    key = (causal, window, *((a.shape, a.dtype) for a in arrays))
    if key not in COMPILED:
        COMPILED[key] = jpmhc.compile(both, *arrays)
    return COMPILED[key](*arrays)


def draw(batch, tokens, heads, groups, size, *, spread=1.0, dtype=np.float32, seed=0):
    """q, k, v and the cotangent of out."""
    rng = np.random.Generator(np.random.Philox(seed))

    def normal(heads, std=1.0):
        return (std * rng.standard_normal((batch, tokens, heads, size))).astype(dtype)

    return normal(heads, spread), normal(groups), normal(groups), normal(heads)


NAMES = ("out", "lse", "dq", "dk", "dv")
# Twice the largest error seen over these shapes: a few roundings of sums of T or d terms.
TOLERANCE = 2e-6
# One rounding of the result to the storage type, relative to the largest element.
STORAGE = {ml_dtypes.bfloat16: 2.0**-8, np.float16: 2.0**-11}


def check(arrays, tolerance=TOLERANCE, **masks):
    for name, got, want in zip(NAMES, run(*arrays, **masks), truth(*arrays, **masks), strict=True):
        assert got.shape == want.shape
        scale = max(np.abs(want).max(initial=0.0), 1.0)
        assert np.abs(got.astype(np.float64) - want).max(initial=0.0) <= tolerance * scale, name


@pytest.mark.parametrize(
    ("shape", "masks"),
    [
        pytest.param((3, 1, 2, 1, 4), {}, id="single_token"),
        pytest.param((1, 9, 2, 2, 1), {"causal": True}, id="one_channel"),
        pytest.param((1, 16, 1, 1, 16), {"causal": True, "window": 5}, id="lanes"),
        pytest.param((2, 17, 3, 3, 17), {"causal": True, "window": 1}, id="sees_itself_alone"),
        pytest.param((2, 37, 4, 2, 24), {}, id="groups"),
        pytest.param((2, 37, 4, 2, 24), {"causal": True}, id="groups_causal"),
        pytest.param((2, 37, 4, 1, 24), {"window": 19}, id="window_and_the_future"),
        pytest.param((1, 37, 1, 1, 5), {"causal": True, "window": 2**40}, id="window_of_all"),
        pytest.param((1, 150, 2, 1, 20), {}, id="blocks"),
        pytest.param((1, 150, 2, 1, 20), {"causal": True}, id="blocks_causal"),
        pytest.param((1, 150, 2, 1, 20), {"causal": True, "window": 70}, id="blocks_window"),
        pytest.param((1, 150, 2, 1, 20), {"window": 33}, id="blocks_window_and_the_future"),
    ],
)
def test_masks_and_shapes(shape, masks):
    check(draw(*shape, seed=1), **masks)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_segments(dtype):
    arrays = draw(3, 70, 4, 2, 9, seed=2)
    ids = np.random.Generator(np.random.Philox(3)).integers(0, 4, (3, 70))
    ids[0].sort()
    ids[1] = 7  # one segment only
    # ids[2] are not sorted: equal ids far apart see each other.
    check(arrays, ids=ids.astype(dtype))
    check(arrays, ids=ids.astype(dtype), causal=True, window=6)


def test_large_logits():
    """A softmax that is all but one-hot; the error grows with the size of the scores."""
    check(draw(1, 90, 2, 2, 16, spread=30.0, seed=4), tolerance=6e-5)


@pytest.mark.parametrize("dtype", STORAGE)
def test_storage_types(dtype):
    """The arithmetic is f32: what is lost is the rounding of the result.

    `out` is rounded before Δ is taken from it, hence twice that for gradients.
    """
    check(draw(2, 40, 4, 2, 24, dtype=dtype, seed=5), 2 * STORAGE[dtype], causal=True)


@pytest.mark.parametrize("shape", [(0, 5, 2, 1, 4)])
def test_empty(shape):
    for got, want in zip(run(*draw(*shape)), truth(*draw(*shape)), strict=True):
        assert got.shape == want.shape


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("masks", [{"causal": True}, {"causal": True, "window": 7}, {"ids": True}])
def test_nonfinite_stays_where_it_reaches(bad, masks):
    tokens, at, head, channel = 50, 20, 1, 3
    if "ids" in masks:
        masks = {"ids": np.arange(tokens, dtype=np.int32)[None] // 12}
    seen = visible(tokens, masks.get("causal", False), masks.get("window", 0), masks.get("ids"))[0]
    reached = seen[:, at]
    apart = ~seen[reached].any(0)  # keys that no query that was reached sees
    assert reached.any() and not reached.all()
    q, k, v, dout = draw(1, tokens, 2, 2, 10, seed=6)
    before = run(q, k, v, dout, **masks)

    def check_others(got, rows):
        out, _, dq, dk, dv = got
        for i, array in ((0, out), (2, dq)):
            assert np.array_equal(array[0, ~rows, head], before[i][0, ~rows, head])
            assert np.array_equal(array[:, :, 0], before[i][:, :, 0])
        for i, array in ((3, dk), (4, dv)):
            assert np.array_equal(array[0, apart, head], before[i][0, apart, head])

    bad_value = v.copy()
    bad_value[0, at, head, channel] = bad
    got = run(q, k, bad_value, dout, **masks)
    assert not np.isfinite(got[0][0, reached, head, channel]).any()
    check_others(got, reached)

    bad_key = k.copy()
    bad_key[0, at, head, channel] = bad
    got = run(q, bad_key, v, dout, **masks)
    # A score of -inf is a key of no weight; +inf has no softmax.
    rows = reached if np.isnan(bad) else reached & (q[0, :, head, channel] > 0)
    assert np.isnan(got[0][0, rows, head]).all()
    check_others(got, reached)


def test_query_that_is_nan():
    clean = draw(1, 20, 1, 1, 4, seed=7)
    q = clean[0].copy()
    q[0, 5, 0, 0] = np.nan
    before, after = run(*clean), run(q, *clean[1:])
    rows = np.arange(20) != 5
    assert np.isnan(after[0][0, 5]).all()
    assert np.array_equal(after[0][:, rows], before[0][:, rows])
    assert np.array_equal(after[2][:, rows], before[2][:, rows])


def test_bit_equal_for_any_number_of_threads():
    arrays = draw(4, 45, 4, 2, 24, seed=8)
    before = jpmhc.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 4):
            jpmhc.set_num_threads(threads)
            results.append(run(*arrays, causal=True))
    finally:
        jpmhc.set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            assert np.array_equal(a, b)


def test_differentiates():
    """The rule is found, with grouped heads and without a gradient for the segment ids."""
    q, k, v, dout = draw(2, 9, 4, 2, 6, seed=9)
    ids = np.repeat(np.arange(2, dtype=np.int32), [4, 5])[None].repeat(2, 0)

    def attend(q, k, v, ids):
        return ops.attention(q, k, v, causal=True, segment_ids=ids)

    out, gradients = jpmhc.vjp(attend, wrt=(0, 1, 2))(dout, q, k, v, ids)
    want = truth(q, k, v, dout, causal=True, ids=ids)
    for got, expected in zip((out, *gradients), (want[0], *want[2:]), strict=True):
        assert np.abs(got - expected).max() <= TOLERANCE * max(np.abs(expected).max(), 1.0)


def test_errors_name_what_is_wrong():
    q, k, v, _ = draw(2, 5, 4, 3, 8)
    with pytest.raises(errors.JpmhcError, match="multiple of the key heads, got 4 and 3"):
        jpmhc.compile(lambda q, k, v: ops.attention(q, k, v), q, k, v)
    with pytest.raises(errors.JpmhcError, match="window of 1 or more, or 0 for none, got -2"):
        jpmhc.compile(lambda q: ops.attention(q, q, q, window=-2), q)
    with pytest.raises(errors.JpmhcError, match=r"expected q of shape \[B, T, H, d\]"):
        jpmhc.compile(lambda q: ops.attention(q, q, q), q[0])
