# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ops of the `jpmhc` dialect, one function each, and the compositions around them.

All work on traced values. B is the batch, T tokens, D channels, N token rows, n streams, p channels
a stream. Shapes, sizes and element types are checked by the ops themselves; what they report is
raised as a typed error at the user's line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jpmhc import _text, manifolds, shapes
from jpmhc._location import here
from jpmhc.dtypes import tensor_type
from jpmhc.elementwise import scalar, sigmoid, silu
from jpmhc.errors import ConfigError, ShapeError, is_known, shown, unknown_name
from jpmhc.reductions import linear, softmax
from jpmhc.tracing import (
    Operators,
    Tensor,
    as_tensor,
    current_trace,
    emit,
    full,
    region,
    require_ids,
)

# ---- side path ----


def tribox(x: Any, width: Any, *, passes: int = 2, segments: Any = None) -> Tensor:
    """The triBox low-pass filter along tokens: box filter of `width`, applied twice.

    ``Box_b(x)_t = (1/w_t) Σ_{i<w_t} x_{t-i}``, ``w_t = min(b, t+1)`` (TRSP).

    Args:
        x: [..., T, D].
        width: b ≥ 1, a number or a traced scalar; b > T is the same as b = T.
        passes: 2, or 1 for the single box.
        segments: ids [..., T]; windows restart where they change.
    """
    x = as_tensor(x)
    return emit(
        "jpmhc.tribox",
        [x, _width(width), segments],
        {"passes": _text.i64(passes)},
        [x.type],
    )[0]


def _width(width: Any) -> Tensor:
    if isinstance(width, (bool, int, float, np.number)) and (
        isinstance(width, bool) or width != width // 1 or width < 1
    ):
        raise ConfigError("width of a filter", expected="an integer ≥ 1", given=width, where=here())
    return _at_least_one(width, "index")


def _at_least_one(value: Any, dtype: str) -> Tensor:
    """A scalar operand that is checked before each run where it comes from an argument."""
    if isinstance(value, Operators):
        require_ids(value.to_tensor(), None, low=1)
    return scalar(value, dtype)


def dense_tribox(x: Any, coefficients: Any) -> Tensor:
    """Σ_j a_j triBox_{min(2^j, T)}(x): all dyadic widths at once.

    Args:
        x: [..., T, D].
        coefficients: a [K].
    """
    x, a = as_tensor(x), as_tensor(coefficients)
    shapes.check_rank(x, 2, "input of dense_tribox", "[..., T, D]")
    shapes.check_rank(a, 1, "coefficients of dense_tribox", "[K]")
    tokens = max(x.shape[-2], 1)
    total = None
    for j in range(a.shape[0]):
        term = a[j] * tribox(x, min(2**j, tokens))
        total = term if total is None else total + term
    return full(x.shape, 0.0, x.dtype) if total is None else total


def coverage_gate(
    width: Any, context: Any, w1: Any, b1: Any, w2: Any, b2: Any, beta: Any
) -> Tensor:
    """The gate of the side path: ``r = b/T``, ``sigmoid(MLP(log2 r)) · r^softplus(β)`` (TRSP).

    Args:
        width, context: b and T, numbers or traced scalars.
        w1, b1, w2: [16], the 1→16→1 tanh network; b2, beta: [].

    Returns:
        a tensor [] in (0, 1).
    """
    operands = [_width(width), _width(context), *(as_tensor(v) for v in (w1, b1, w2, b2, beta))]
    return emit("jpmhc.coverage_gate", operands, {}, [tensor_type((), "f32")])[0]


def side_path(
    x: Any, attn: Any, gate: Any, width: Any, *, passes: int = 2, segments: Any = None
) -> Tensor:
    """The fused layer update ``x + attn + g · triBox_b(x)`` (TRSP).

    Args:
        x, attn: [..., T, D].
        gate: g, [].
        width, passes, segments: as for `tribox`.
    """
    x, attn, gate = as_tensor(x), as_tensor(attn), as_tensor(gate)
    return emit(
        "jpmhc.side_path",
        [x, attn, gate, _width(width), segments],
        {"passes": _text.i64(passes)},
        [x.type],
    )[0]


# ---- hyper-connections ----


def project(raw: Any, manifold: str, n: int, **parameters: Any) -> Tensor:
    """Raw numbers of each token onto an n×n mixer of a manifold.

    Args:
        raw: [N, K], K as the manifold asks for.
        manifold: a name of the registry (`jpmhc.manifolds`).
        n: the number of streams.
        parameters: the manifold's own, such as ``rounds=20`` (birkhoff).

    Returns:
        [N, n, n] of the element type of raw.
    """
    raw = as_tensor(raw)
    streams = _text.i64(n)
    shapes.check_rank(raw, 2, "raw numbers of project", "[N, K]")
    attribute = manifolds.attribute(manifold, parameters)
    return emit(
        "jpmhc.project",
        [raw],
        {"manifold": attribute, "streams": streams},
        [tensor_type((raw.shape[0], n, n), raw.dtype)],
    )[0]


def hyper_connection(
    x: Any,
    weight: Any,
    sublayer: Callable[[Tensor], Any],
    *,
    manifold: str = "stiefel",
    norm: str = "layer",
    read_write: str = "softmax",
    alpha: Any = None,
    bias: Any = None,
    gain: Any = None,
    shift: Any = None,
    eps: float = 1e-5,
    tau: float = 1.0,
    post_scale: float = 1.0,
    scale: float = 1.0,
    **parameters: Any,
) -> Tensor:
    """A hyper-connection block around a sub-layer F (JPmHC).

    ``z = norm(x_flat) Wᵀ``, per group pre, post, res ``z ← α z + b``; read ``x_in = Σ_j r_j x_j``,
    ``y = F(x_in)``, write ``out_i = Σ_j H_ij x_j + scale · q_i · y``.

    Args:
        x: streams [N, n, p].
        weight: [m, n p], rows pre | post | res.
        sublayer: F, [N, p] → [N, p]; may use values from outside.
        manifold: how H is made of z_res; `parameters` are the manifold's own.
        norm: "layer" or "rms"; gain, shift [n p] are optional.
        read_write: "softmax" (n×n maps at temperature tau) or "sigmoid" (n-vectors, the write
            multiplied by post_scale).
        alpha: [3], one factor a group; bias: [m].
        eps: added to the variance or mean square.
        scale: s of the write.
    """
    x = as_tensor(x)
    if not callable(sublayer):
        given = type(sublayer).__name__
        raise ConfigError("sub-layer", expected="a function", given=given, where=here())
    if x.ndim != 3:
        raise ShapeError("streams", expected="[N, n, p]", given=x.shape, where=here())
    rows, _, channels = x.shape
    operands = [x, as_tensor(weight), *(_optional(v) for v in (alpha, bias, gain, shift))]
    inner = tensor_type((rows, channels), x.dtype)
    with region([inner], "jpmhc.yield") as body:
        body.results = [as_tensor(sublayer(body.arguments[0]))]
    attributes = {
        "manifold": manifolds.attribute(manifold, parameters),
        "norm": _enumerated("norm", norm, ("layer", "rms")),
        "read_write": _enumerated("read_write", read_write, ("softmax", "sigmoid")),
        "eps": _text.f32(eps),
        "tau": _text.f32(tau),
        "post_scale": _text.f32(post_scale),
        "scale": _text.f32(scale),
    }
    return emit("jpmhc.hyper_connection", operands, attributes, [x.type], [body.handle])[0]


def _enumerated(attribute: str, value: str, known: tuple[str, ...]) -> str:
    if not is_known(value, known):
        raise unknown_name(attribute, value, known, where=here())
    return f"#jpmhc.{attribute}<{value}>"


def _optional(value: Any) -> Tensor | None:
    return None if value is None else as_tensor(value)


# ---- transformer parts ----


def rms_norm(x: Any, gain: Any = None, *, eps: float = 1e-5) -> Tensor:
    """``x / sqrt(mean(x²) + eps) · gain`` along the last axis; x [..., D], gain [D]."""
    x = as_tensor(x)
    return emit("jpmhc.rms_norm", [x, gain], {"eps": _text.f32(eps)}, [x.type])[0]


def layer_norm(x: Any, gain: Any = None, shift: Any = None, *, eps: float = 1e-5) -> Tensor:
    """``(x - mean) / sqrt(var + eps) · gain + shift`` along the last axis; gain, shift [D]."""
    x = as_tensor(x)
    return emit("jpmhc.layer_norm", [x, gain, shift], {"eps": _text.f32(eps)}, [x.type])[0]


def rope(x: Any, *, theta: float = 10000.0) -> Tensor:
    """Rotary positions: halves of each head rotated by ``t · θ^(-2i/d)``, position 0 first.

    Shapes: x [B, T, H, d], d even.
    """
    x = as_tensor(x)
    return emit("jpmhc.rope", [x], {"theta": _text.f32(theta)}, [x.type])[0]


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    window: int = 0,
    segment_ids: Any = None,
) -> Tensor:
    """``softmax(q kᵀ / sqrt(d) + mask) v`` for each head, in O(T) memory.

    Args:
        q: [B, T, H, d].
        k, v: [B, T, G, d], H a multiple of G (grouped queries).
        causal: key positions after the query are masked.
        window: keys older than `window` - 1 positions are masked; 0 for no limit.
        segment_ids: [B, T]; keys of other segments are masked.

    Returns:
        [B, T, H, d].
    """
    attributes = {"causal": _text.boolean(causal), "window": _text.i64(window)}
    out, _log_sum_exp = emit("jpmhc.attention", [q, k, v, segment_ids], attributes)
    return out


def swiglu(x: Any, gate: Any, up: Any, down: Any) -> Tensor:
    """``(silu(x W_gᵀ) ⊙ x W_uᵀ) W_dᵀ``; x [..., D], gate and up [M, D], down [D, M]."""
    return linear(silu(linear(x, gate)) * linear(x, up), down)


def embedding(table: Any, ids: Any) -> Tensor:
    """Rows of a table.

    Ids that come from an argument, by reshapes, slices and calls too, are checked before each
    run. Ids that the program computes are not: one outside of the table gives a row of NaN and
    adds nothing to the gradient of the table.

    Shapes: table [V, D], ids [...] of i32 or i64 → [..., D].

    Raises:
        RangeError: on a run, naming the first id outside of the table and the table's size.
    """
    table, ids = as_tensor(table), as_tensor(ids)
    if table.ndim:
        require_ids(ids, table.shape[0])
    shape = (*ids.shape, *table.shape[1:])
    return emit("jpmhc.embedding", [table, ids], {}, [tensor_type(shape, table.dtype)])[0]


def stop_gradient(x: Any) -> Tensor:
    """x itself; no gradient flows back through it."""
    x = as_tensor(x)
    return emit("jpmhc.stop_gradient", [x], {}, [x.type])[0]


# ---- losses ----


def _cross_entropy(name: str, logits: Any, target: Any, ignore_index: int) -> Tensor:
    logits, target = as_tensor(logits), as_tensor(target)
    if logits.ndim:
        require_ids(target, logits.shape[-1], ignore_index)
    if logits.ndim > 2:
        logits = shapes.reshape(logits, (math.prod(logits.shape[:-1]), logits.shape[-1]))
        target = shapes.reshape(target, (target.size,))
    return emit(
        name, [logits, target], {"ignore_index": _text.i64(ignore_index)}, [tensor_type((), "f32")]
    )[0]


def softmax_cross_entropy(logits: Any, target: Any, *, ignore_index: int = -100) -> Tensor:
    """Mean of ``-log softmax(logits)[target]`` over targets that are not ignored; 0 without any.

    Targets are checked like the ids of `embedding`; one that the program computes and that is no
    class makes the loss, and the gradient of its row, NaN.

    Shapes: logits [..., V], target [...] of i32 or i64 → [].
    """
    return _cross_entropy("jpmhc.softmax_cross_entropy", logits, target, ignore_index)


def stablemax_cross_entropy(logits: Any, target: Any, *, ignore_index: int = -100) -> Tensor:
    """The same with ``s(x) = x + 1 (x ≥ 0), 1/(1 - x) (x < 0)`` in place of the exponential."""
    return _cross_entropy("jpmhc.stablemax_cross_entropy", logits, target, ignore_index)


# ---- random numbers ----


def _random(name: str, shape: Sequence[int], dtype: str, seed: Any, step: Any, site: Any) -> Tensor:
    if site is None:
        site = current_trace().next_site()
    operands = [scalar(value, "i64") for value in (seed, step, site)]
    return emit(name, operands, {}, [tensor_type(shape, dtype)])[0]


def random_bits(shape: Sequence[int], seed: Any, step: Any = 0, *, site: Any = None) -> Tensor:
    """32 random bits an element (i32), by Philox 4×32-10.

    Args:
        seed, step: numbers or traced i64 scalars; equal ones give equal numbers.
        site: tells the uses in a program apart; numbered in the order of tracing by default.
    """
    return _random("jpmhc.random_bits", shape, "i32", seed, step, site)


def random_uniform(shape: Sequence[int], seed: Any, step: Any = 0, *, site: Any = None) -> Tensor:
    """Random f32 numbers uniform in [0, 1); arguments as for `random_bits`."""
    return _random("jpmhc.random_uniform", shape, "f32", seed, step, site)


def random_normal(shape: Sequence[int], seed: Any, step: Any = 0, *, site: Any = None) -> Tensor:
    """Random f32 numbers from the standard normal; arguments as for `random_bits`."""
    return _random("jpmhc.random_normal", shape, "f32", seed, step, site)


def dropout(x: Any, rate: float, seed: Any, step: Any = 0, *, site: Any = None) -> Tensor:
    """x with elements zeroed at random, the rest divided by 1 - rate.

    Args:
        rate: probability in [0, 1) of a zero.
        seed, step, site: as for `random_bits`.
    """
    x = as_tensor(x)
    if site is None:
        site = current_trace().next_site()
    operands = [x, *(scalar(value, "i64") for value in (seed, step, site))]
    return emit("jpmhc.dropout", operands, {"rate": _text.f32(rate)}, [x.type])[0]


# ---- optimiser steps ----


def global_norm(x: Any) -> Tensor:
    """sqrt of the sum of squares, [], summed in an order that threads do not change."""
    return emit("jpmhc.global_norm", [as_tensor(x)], {}, [tensor_type((), "f32")])[0]


def adamw(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    lr: Any,
    step: Any,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """One AdamW step; returns the new p, m and v.

    Args:
        p, g, m, v: [K].
        lr: learning rate, a number or a traced f32 scalar.
        step: t ≥ 1, a number or a traced i64 scalar.
    """
    return _moment_step(
        "jpmhc.adamw", p, g, m, v, lr, step, betas, weight_decay, {"eps": _text.f32(eps)}
    )


def adam_atan2(
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    *,
    lr: Any,
    step: Any,
    betas: tuple[float, float] = (0.9, 0.95),
    weight_decay: float = 0.0,
    bias_correction: str = "outside",
) -> tuple[Tensor, Tensor, Tensor]:
    """One AdamAtan2 step ``p -= lr/(1-β₁^t) · atan2(m, sqrt(v)/sqrt(1-β₂^t))``; as `adamw`.

    Args:
        bias_correction: "inside" takes ``p -= lr · atan2(m/(1-β₁^t), sqrt(v/(1-β₂^t)))`` instead.
    """
    kind = _enumerated("bias_correction", bias_correction, ("outside", "inside"))
    return _moment_step(
        "jpmhc.adam_atan2", p, g, m, v, lr, step, betas, weight_decay, {"bias_correction": kind}
    )


def _moment_step(
    name: str,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    lr: Any,
    step: Any,
    betas: tuple[float, float],
    weight_decay: float,
    extra: dict[str, str],
) -> tuple[Tensor, Tensor, Tensor]:
    p, g, m, v = (as_tensor(value) for value in (p, g, m, v))
    if not isinstance(betas, (tuple, list)) or len(betas) != 2:
        raise ConfigError(
            "betas", expected="two numbers in [0, 1)", given=shown(betas), where=here()
        )
    attributes = {
        "beta1": _text.f32(betas[0]),
        "beta2": _text.f32(betas[1]),
        "weight_decay": _text.f32(weight_decay),
        **extra,
    }
    operands = [p, g, m, v, _rate(lr), _at_least_one(step, "i64")]
    new_p, new_m, new_v = emit(name, operands, attributes, [p.type, m.type, v.type])
    return new_p, new_m, new_v


def _rate(lr: Any) -> Tensor:
    """A learning rate, which may be traced; a number is checked."""
    if isinstance(lr, (int, float, np.number)) and not 0 <= lr < float("inf"):
        raise ConfigError("learning rate", expected="a finite number ≥ 0", given=lr, where=here())
    return scalar(lr, "f32")


def sign_sgd_rows(
    table: Any, ids: Any, grad_rows: Any, *, lr: Any, weight_decay: float = 0.0
) -> Tensor:
    """SignSGD on the rows named by ids; gradients of repeated ids are summed first.

    ``p ← p (1 - lr·wd) - lr · sign(g)``; rows without an id stay as they are.

    Shapes: table [V, D], ids [K], grad_rows [K, D] → [V, D].
    """
    table, ids = as_tensor(table), as_tensor(ids)
    if table.ndim:
        require_ids(ids, table.shape[0])
    operands = [table, ids, as_tensor(grad_rows), _rate(lr)]
    attributes = {"weight_decay": _text.f32(weight_decay)}
    return emit("jpmhc.sign_sgd_rows", operands, attributes, [table.type])[0]


__all__ = [
    "adam_atan2",
    "adamw",
    "attention",
    "coverage_gate",
    "dense_tribox",
    "dropout",
    "embedding",
    "global_norm",
    "hyper_connection",
    "layer_norm",
    "linear",
    "project",
    "random_bits",
    "random_normal",
    "random_uniform",
    "rms_norm",
    "rope",
    "side_path",
    "sigmoid",
    "sign_sgd_rows",
    "silu",
    "softmax",
    "softmax_cross_entropy",
    "stablemax_cross_entropy",
    "stop_gradient",
    "swiglu",
    "tribox",
]
