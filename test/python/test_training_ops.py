# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokens, losses, optimiser steps and random numbers: edges that conformance cases leave out."""

import ml_dtypes
import numpy as np
import pytest

import jpmhc
from jpmhc import _text, ops
from jpmhc.dtypes import tensor_type
from jpmhc.threads import get_num_threads, set_num_threads
from jpmhc.tracing import as_tensor, emit

NAN, INF = np.nan, np.inf
EPS = 2.0**-24  # half an ulp of 1 in f32


def generator(seed=0):
    return np.random.Generator(np.random.Philox(seed))


def draw(*shape, seed=0, scale=1.0):
    return (generator(seed).standard_normal(shape) * scale).astype(np.float32)


def run(fn, *arrays):
    return jpmhc.compile(fn, *arrays)(*arrays)


def op(name, operands, attributes, *types):
    """The results of an op that has no function of its own."""
    values = [as_tensor(operand) for operand in operands]
    results = emit(f"jpmhc.{name}", values, attributes, list(types))
    return results[0] if len(results) == 1 else tuple(results)


# ---- random numbers ----

MASK = np.uint64(0xFFFFFFFF)


def philox(counter, key):
    """Philox 4x32-10 as Salmon et al. (SC 2011) give it, on arrays of counters."""
    c = [np.asarray(word, np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c[0], np.uint64(0xCD9E8D57) * c[2]
        high0, high1 = p0 >> np.uint64(32), p1 >> np.uint64(32)
        c = [high1 ^ c[1] ^ np.uint64(k0), p1 & MASK, high0 ^ c[3] ^ np.uint64(k1), p0 & MASK]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return [word.astype(np.uint32) for word in c]


# The known answers that the authors' library Random123 ships.
KNOWN_ANSWERS = [
    ((0,) * 4, (0,) * 2, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize("counter,key,words", KNOWN_ANSWERS)
def test_reference_generator_gives_the_known_answers(counter, key, words):
    assert [int(word) for word in philox(counter, key)] == list(words)


def expected_bits(n, seed, step, site):
    blocks = np.arange((n + 3) // 4, dtype=np.uint64)
    rest = [np.full_like(blocks, word & 0xFFFFFFFF) for word in (site, step, step >> 32)]
    words = philox([blocks, *rest], (seed & 0xFFFFFFFF, (seed >> 32) & 0xFFFFFFFF))
    return np.stack(words, axis=1).reshape(-1)[:n]


def random(function, shape, seed, step, site):
    def build(seed, step, site):
        return function(shape, seed, step, site=site)

    compiled = jpmhc.compile(build, *(jpmhc.scalar_spec("i64") for _ in range(3)))
    return np.asarray(compiled(seed, step, site)).reshape(-1)


KEYS = [(0, 0, 0), (-1, -1, -1), (0x299F31D0A4093822, 0x0370734413198A2E, 0x85A308D3)]
SHAPES = [(), (0, 3), (1,), (2, 3), (5, 7), (2048,), (2051,), (3, 700, 2)]


@pytest.mark.parametrize("seed,step,site", KEYS)
@pytest.mark.parametrize("shape", SHAPES)
def test_random_bits_are_philox_of_seed_step_site_and_element(shape, seed, step, site):
    n = int(np.prod(shape))
    bits = random(ops.random_bits, shape, seed, step, site)
    np.testing.assert_array_equal(bits.astype(np.uint32), expected_bits(n, seed, step, site))


def test_uniform_numbers_are_the_upper_bits():
    bits = expected_bits(2051, 5, 6, 7)
    got = random(ops.random_uniform, (2051,), 5, 6, 7)
    np.testing.assert_array_equal(got, (bits >> 8) * np.float32(2.0**-24))


def test_normal_numbers_are_box_and_mullers():
    bits = expected_bits(2052, 5, 6, 7).astype(np.float64)
    u = (np.floor(bits[::2] / 2**8) + 1) * 2.0**-24
    quarter = np.floor(bits[1::2] / 2**30)
    rest = np.floor(bits[1::2] % 2**30 / 2**6) * 2.0**-24 - 0.5
    angle, radius = (quarter + rest) * np.pi / 2, np.sqrt(-2 * np.log(u))
    want = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)
    got = random(ops.random_normal, (2051,), 5, 6, 7)
    # A radius up to 5.8 times the roundings of log, sqrt, cos and a product.
    assert np.abs(got - want[:2051]).max() < 5.8 * 4 * EPS


def test_normal_numbers_have_the_moments_of_a_normal_distribution():
    x = random(ops.random_normal, (1 << 18,), 11, 0, 0).astype(np.float64)
    n = x.size
    # Five standard deviations of each estimate.
    for power, moment, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs((x**power).mean() - moment) < 5 * np.sqrt(variance / n)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_dropout_keeps_what_the_uniform_numbers_say(dtype):
    numpy_type = jpmhc.dtypes.NUMPY[dtype]
    x = draw(3, 67).astype(numpy_type)
    x[0, :8] = NAN  # a dropped NaN is gone
    rate = np.float32(0.375)

    def build(x, seed, step, site):
        return ops.dropout(x, float(rate), seed, step, site=site)

    numbers = [jpmhc.scalar_spec("i64") for _ in range(3)]
    got = jpmhc.compile(build, x, *numbers)(x, 1, 2, 3)
    keep = (expected_bits(x.size, 1, 2, 3) >> 8).reshape(x.shape) * np.float32(2.0**-24) >= rate
    want = np.where(keep, x.astype(np.float32) * np.float32(1.6), np.float32(0))
    rounded = want.astype(numpy_type).astype(np.float32)
    np.testing.assert_array_equal(got.astype(np.float32), rounded)
    assert 0.5 < keep.mean() < 0.75


# ---- rotary positions and tables ----


def test_rotary_angles_stay_exact_at_far_positions():
    tokens, d = 70001, 6
    x = draw(1, tokens, 1, d)
    got = run(lambda x: ops.rope(x, theta=500.0), x)
    angle = np.arange(tokens)[:, None] * 500.0 ** (-np.arange(d // 2) * 2 / d)
    a, b = x[0, :, 0, : d // 2].astype(np.float64), x[0, :, 0, d // 2 :].astype(np.float64)
    cos, sin = np.cos(angle), np.sin(angle)
    want = np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=1)
    # Roundings of the cosine, two products and a sum, |x| up to 5.
    assert np.abs(got[0, :, 0] - want).max() < 5 * 6 * EPS


def test_ids_outside_the_table_give_rows_of_nan_and_no_gradient():
    table = draw(4, 5)
    ids = np.array([3, -1, 0, 4, 2**31 - 1, -(2**31)], np.int32)
    inside = (ids >= 0) & (ids < 4)
    got = run(lambda t, i: op("embedding", [t, i], {}, tensor_type((6, 5), "f32")), table, ids)
    np.testing.assert_array_equal(got[inside], table[ids[inside]])
    assert np.isnan(got[~inside]).all()
    dy = draw(6, 5, seed=1)
    grad = run(lambda dy, i: op("embedding_vjp", [dy, i], {}, tensor_type((4, 5), "f32")), dy, ids)
    want = np.zeros_like(table)
    want[[3, 0]] = dy[[0, 2]]
    np.testing.assert_array_equal(grad, want)


@pytest.mark.parametrize("vocabulary,width,tokens", [(1, 1, 9), (3, 130, 50), (5, 7, 0), (0, 4, 2)])
def test_gradient_of_a_table_sums_tokens_in_order(vocabulary, width, tokens):
    ids = generator(3).integers(0, max(vocabulary, 1), tokens)
    dy = draw(tokens, width, seed=4)
    grad = run(
        lambda dy, i: op("embedding_vjp", [dy, i], {}, tensor_type((vocabulary, width), "f32")),
        dy,
        ids,
    )
    want = np.zeros((vocabulary, width), np.float32)
    if vocabulary:
        for token, row in zip(ids, dy, strict=True):
            want[token] += row
    np.testing.assert_array_equal(grad, want)


def test_gradient_of_a_bfloat16_table_is_summed_in_float32():
    tokens = 300
    dy = np.ones((tokens, 2), ml_dtypes.bfloat16)
    ids = np.zeros(tokens, np.int32)
    grad = run(lambda dy, i: op("embedding_vjp", [dy, i], {}, tensor_type((1, 2), "bf16")), dy, ids)
    # Summed in bfloat16 it would stop at 256.
    assert (grad.astype(np.float64) == 300).all()


# ---- losses ----

LOSSES = ["softmax_cross_entropy", "stablemax_cross_entropy"]


def weights(name, x):
    x = x.astype(np.float64)
    if name.startswith("softmax"):
        return np.exp(x - x.max(-1, keepdims=True))
    return np.where(x >= 0, x + 1, 1 / (1 - np.minimum(x, 0)))


def loss(name, logits, target, ignore=-100):
    attributes = {"ignore_index": _text.i64(ignore)}
    return run(lambda x, t: op(name, [x, t], attributes, tensor_type((), "f32")), logits, target)


def loss_gradient(name, logits, target, dloss=1.0, ignore=-100):
    attributes = {"ignore_index": _text.i64(ignore)}
    return run(
        lambda x, t, d: op(f"{name}_vjp", [x, t, d], attributes, x.type),
        logits,
        target,
        np.asarray(dloss, np.float32),
    )


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("gap", [0.0, 1e-3, 3.0, 20.0, 60.0])
def test_small_losses_keep_their_digits(name, gap):
    logits = np.array([[gap, -gap / 3, -gap]], np.float32)
    w = weights(name, logits)[0]
    rest = (w[1] + w[2]) / w[0]
    got = loss(name, logits, np.array([0], np.int64))
    assert abs(got - np.log1p(rest)) <= 1e-6 * np.log1p(rest)
    grad = loss_gradient(name, logits, np.array([0], np.int64), dloss=-2.0)[0]
    slope = 1 if name.startswith("softmax") else 1 / (1 + np.abs(logits[0].astype(np.float64)))
    want = -2.0 * slope * np.array([-(w[1] + w[2]), w[1], w[2]]) / w.sum()
    # Relative, down to where float32 itself ends.
    assert (np.abs(grad - want) <= 1e-6 * np.abs(want) + 1e-38).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("bad", [NAN, INF])
def test_a_bad_row_makes_the_loss_bad_and_spoils_no_other_gradient(name, bad):
    logits, target = draw(4, 5), np.array([0, 2, -100, 4], np.int32)
    clean = loss_gradient(name, logits, target)
    logits[1, 2] = bad
    logits[2, 0] = bad  # ignored
    assert not np.isfinite(loss(name, logits, target))
    grad = loss_gradient(name, logits, target)
    assert not np.isfinite(grad[1]).all()
    np.testing.assert_array_equal(grad[[0, 3]], clean[[0, 3]])
    assert (grad[2] == 0).all()


@pytest.mark.parametrize("name", LOSSES)
def test_ignored_rows_do_not_count_even_if_bad(name):
    logits, target = draw(3, 5), np.array([1, 7, 2], np.int64)
    want = loss(name, np.delete(logits, 1, 0), np.delete(target, 1))
    logits[1] = NAN
    assert loss(name, logits, target, ignore=7) == want


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("outside", [5, -1, 2**31 - 1])
def test_a_target_that_is_no_class_gives_nan(name, outside):
    logits, target = draw(3, 5), np.array([1, outside, 2], np.int32)
    assert np.isnan(loss(name, logits, target))
    grad = loss_gradient(name, logits, target)
    assert np.isnan(grad[1]).all() and np.isfinite(grad[[0, 2]]).all()


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("rows", [0, 3])
def test_no_valid_target_gives_zero(name, rows):
    logits, target = np.full((rows, 5), NAN, np.float32), np.full(rows, -100, np.int32)
    assert loss(name, logits, target) == 0
    assert (loss_gradient(name, logits, target) == 0).all()


# ---- optimiser steps ----


def adam_atan2(p, g, m, v, *, lr=1e-2, step=1, **options):
    def build(p, g, m, v, lr, step):
        return ops.adam_atan2(p, g, m, v, lr=lr, step=step, **options)

    scalars = jpmhc.scalar_spec("f32"), jpmhc.scalar_spec("i64")
    return jpmhc.compile(build, p, g, m, v, *scalars)(p, g, m, v, lr, step)


def test_atan2_is_accurate_over_the_whole_range():
    rng, n = generator(1), 1 << 16
    g = (rng.standard_normal(n) * np.exp2(rng.integers(-60, 40, n))).astype(np.float32)
    v = (rng.random(n) * np.exp2(2.0 * rng.integers(-60, 40, n))).astype(np.float32)
    g[:8] = [0, -0.0, INF, -INF, NAN, 1, 1e-30, -1e-45]
    v[:8] = [0, 0, 0, 1, 1, INF, 0, 0]
    zero = np.zeros(n, np.float32)
    # With beta1 = 0 and 1 - beta2^t = 1 the step is atan2 of the moments that come back.
    p, m, v = adam_atan2(zero, g, zero, v, lr=1.0, step=10**6, betas=(0.0, 0.5))
    want = -np.arctan2(m.astype(np.float64), np.sqrt(v.astype(np.float64)))
    assert np.isnan(p[4]) and not np.isnan(np.delete(p, 4)).any()
    ulp = np.spacing(np.maximum(np.abs(want), 1e-38).astype(np.float32))
    # atan2 itself 3 ulp, the square root and its correction 1 more.
    assert np.nanmax(np.abs(p - want) / ulp) <= 4


@pytest.mark.parametrize("correction", ["outside", "inside"])
@pytest.mark.parametrize("step", [1, 2, 1000, 10**9])
def test_adam_atan2_corrects_the_bias_where_it_is_told_to(correction, step):
    shape, betas, lr, decay = (3, 50), (np.float32(0.9), np.float32(0.95)), np.float32(0.03), 0.25
    p, g, m = (draw(*shape, seed=i) for i in range(3))
    v = draw(*shape, seed=4) ** 2
    got = adam_atan2(
        p, g, m, v, lr=lr, step=step, betas=betas, weight_decay=decay, bias_correction=correction
    )
    p, g, m, v, lr = (np.float64(a) for a in (p, g, m, v, lr))
    b1, b2 = map(float, betas)
    m = b1 * m + (1 - b1) * g
    v = b2 * v + (1 - b2) * g * g
    c1, c2 = -np.expm1(step * np.log(b1)), -np.expm1(step * np.log(b2))
    update = (
        np.arctan2(m, np.sqrt(v / c2)) / c1
        if correction == "outside"
        else np.arctan2(m / c1, np.sqrt(v / c2))
    )
    p = p * (1 - lr * decay) - lr * update
    for result, want in zip(got, (p, m, v), strict=True):
        assert np.abs(result - want).max() <= 4 * EPS * np.abs(want).max()


@pytest.mark.parametrize("shape", [(), (0,), (1,), (1023,), (1025,), (2, 3, 400)])
def test_a_step_takes_any_shape(shape):
    p, g = draw(*shape, seed=1), draw(*shape, seed=2)
    zero = np.zeros(shape, np.float32)
    got, m, v = adam_atan2(p, g, zero, zero, lr=0.5)
    # After one step m̂ = g and √v̂ = |g|: atan2 gives ±π/4.
    want = p - 0.5 / 0.1 * np.arctan2(0.1 * np.sign(g), 1)
    assert got.shape == shape and np.abs(got - want).max(initial=0) < 1e-6


def test_a_step_keeps_float32_state_beside_bfloat16_gradients():
    p, m, v = draw(40), draw(40, seed=1), np.abs(draw(40, seed=2))
    g = draw(40, seed=3).astype(ml_dtypes.bfloat16)
    got = adam_atan2(p, g, m, v)
    want = adam_atan2(p, g.astype(np.float32), m, v)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_array_equal(a, b)


def sign_sgd(table, ids, grad, lr=0.5, decay=0.25):
    return run(
        lambda t, i, g: ops.sign_sgd_rows(t, i, g, lr=lr, weight_decay=decay), table, ids, grad
    )


def test_sign_sgd_sums_repeated_rows_first():
    table = draw(6, 3)
    ids = np.array([4, 1, 4, 4], np.int64)
    grad = np.array([[1, 2, -3], [NAN, 0, -1], [1, -2, 1], [-2, 0, 1]], np.float32)
    want = table.copy()
    want[4] = table[4] * np.float32(0.875) - np.float32(0.5) * np.array([0, 0, -1])
    want[1] = table[1] * np.float32(0.875) - np.float32(0.5) * np.array([NAN, 0, -1])
    got = sign_sgd(table, ids, grad)
    np.testing.assert_allclose(got, want, rtol=4 * EPS, atol=4 * EPS)
    np.testing.assert_array_equal(got[[0, 2, 3, 5]], table[[0, 2, 3, 5]])


def test_sign_sgd_without_ids_changes_nothing():
    table = draw(6, 3)
    got = sign_sgd(table, np.zeros(0, np.int64), np.zeros((0, 3), np.float32))
    np.testing.assert_array_equal(got, table)


@pytest.mark.parametrize("n", [0, 1, 4096, 4097, 100_003])
def test_global_norm(n):
    x = draw(n, scale=3.0)
    got = run(lambda x: ops.global_norm(x), x)
    want = np.sqrt((x.astype(np.float64) ** 2).sum())
    # Sixteen or more lanes of at most 256 sums each, then as many blocks.
    assert abs(got - want) <= 16 * EPS * want


def test_global_norm_of_a_nan_is_nan():
    x = draw(5000)
    x[4999] = NAN
    assert np.isnan(run(lambda x: ops.global_norm(x), x))


# ---- threads ----


def test_results_do_not_depend_on_threads():
    x, g = draw(700, 130), draw(700, 130, seed=1)
    ids = generator(2).integers(0, 40, 700)
    gain = draw(130, seed=3)

    def build(x, g, ids, gain):
        scalar = tensor_type((), "f32")
        total = op("softmax_cross_entropy", [x, ids], {}, scalar)
        return (
            ops.layer_norm(x, gain, gain),
            *op("rms_norm_vjp", [x, g, gain], {}, x.type, gain.type),
            op("embedding_vjp", [g, ids], {}, tensor_type((40, 130), "f32")),
            ops.global_norm(x),
            total,
            op("softmax_cross_entropy_vjp", [x, ids, total], {}, x.type),
            *ops.adam_atan2(x, g, g, g * g, lr=0.1, step=3),
        )

    compiled = jpmhc.compile(build, x, g, ids, gain)
    before, results = get_num_threads(), []
    try:
        for threads in (1, 2, 4):
            set_num_threads(threads)
            results.append(compiled(x, g, ids, gain))
    finally:
        set_num_threads(before)
    for other in results[1:]:
        for a, b in zip(results[0], other, strict=True):
            np.testing.assert_array_equal(a, b)
