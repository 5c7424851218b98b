# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""From the op and attributes of a case to a traced function of its inputs.

A builder takes the attributes and returns a function that takes the inputs by name and returns
the output `out`. Attributes come from the case alone: no sizes or names are known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from jpmhc import elementwise, manifolds, ops, shapes
from jpmhc.errors import ConfigError, UnsupportedError
from jpmhc.tracing import Tensor, full

Attributes = Mapping[str, Any]
Function = Callable[..., Tensor]
BUILDERS: dict[str, Callable[[Attributes], Function]] = {}


def builder(op: str) -> Callable[[Callable[[Attributes], Function]], Callable]:
    """Registers the builder of an op."""

    def register(build: Callable[[Attributes], Function]) -> Callable:
        BUILDERS[op] = build
        return build

    return register


def _plain(op: str, function: Callable[..., Tensor], **renamed: str) -> None:
    """An op whose attributes are the keyword arguments of its function (some renamed)."""

    def build(attrs: Attributes) -> Function:
        options = {renamed.get(key, key): value for key, value in attrs.items()}
        return lambda **inputs: function(**inputs, **options)

    BUILDERS[op] = build


_plain("rms_norm", ops.rms_norm)
_plain("layer_norm", ops.layer_norm)
_plain("rope", ops.rope)
_plain("attention", ops.attention)
_plain("swiglu", ops.swiglu)
_plain("embedding", ops.embedding)
_plain("softmax_cross_entropy", ops.softmax_cross_entropy, ignore="ignore_index")
_plain("stablemax_cross_entropy", ops.stablemax_cross_entropy, ignore="ignore_index")
_plain("tribox", ops.tribox)
_plain("dense_tribox", ops.dense_tribox)


@builder("box")
def _box(attrs: Attributes) -> Function:
    return lambda x: ops.tribox(x, attrs["width"], passes=1)


@builder("side_path")
def _side_path(attrs: Attributes) -> Function:
    def run(x: Tensor, attn: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, beta: Tensor):
        gate = ops.coverage_gate(attrs["width"], attrs["context"], w1, b1, w2, b2, beta)
        return ops.side_path(x, attn, gate, attrs["width"])

    return run


def _projection(manifold: str) -> None:
    def build(attrs: Attributes) -> Function:
        # The raw numbers of a permutation do not show n, its basis does.
        n = _columns(attrs["basis"]) if "basis" in attrs else None

        def run(raw: Tensor) -> Tensor:
            shapes.check_rank(raw, 2, "raw numbers of a case", "[N, K] or [N, n, n]")
            streams = n or raw.shape[1]
            _require_served(manifold, streams, attrs)
            width = math.prod(raw.shape[1:])
            flat = shapes.reshape(raw, (raw.shape[0], width))
            return ops.project(flat, manifold, streams, **attrs)

        return run

    BUILDERS[manifold] = build


def _columns(basis: Any) -> int:
    try:
        return len(basis[0])
    except (TypeError, LookupError):
        raise ConfigError("basis", expected="a list of permutations", given=basis) from None


def _require_served(manifold: str, n: int, attrs: Attributes) -> None:
    """Has a case skipped whose option of a manifold the registry does not accept."""
    try:
        manifolds.get(manifold, attrs).raw_size(n)
    except ConfigError as error:
        raise UnsupportedError(f"option of {manifold}: {error.message}") from None


for _manifold in ("birkhoff", "stiefel", "grassmann", "permutation", "free", "identity"):
    _projection(_manifold)


@builder("hyper_connection")
def _hyper_connection(attrs: Attributes) -> Function:
    options = dict(attrs)

    def run(x: Tensor, weight: Tensor, sublayer: Tensor, **rest: Tensor) -> Tensor:
        def silu_linear(value: Tensor) -> Tensor:
            return ops.silu(ops.linear(value, sublayer))

        return ops.hyper_connection(x, weight, silu_linear, **rest, **options)

    return run


def _moments(
    step: Callable[..., tuple[Tensor, Tensor, Tensor]],
) -> Callable[[Attributes], Function]:
    """An optimiser with two moments: the parameter after each of the given gradients.

    Master weights and moments are f32 whatever the storage type of the case.
    """

    def build(attrs: Attributes) -> Function:
        options = dict(attrs)
        rate = options.pop("lr")

        def run(p: Tensor, grads: Tensor) -> Tensor:
            shapes.check_rank(grads, 1, "gradients of a case", "[steps, ...]")
            shape, dtype = p.shape, p.dtype
            p = elementwise.astype(shapes.reshape(p, (p.size,)), "f32")
            m = full(p.shape, 0.0, "f32")
            v = full(p.shape, 0.0, "f32")
            after = []
            for t in range(grads.shape[0]):
                g = elementwise.astype(shapes.reshape(grads[t], p.shape), "f32")
                p, m, v = step(p, g, m, v, lr=rate, step=t + 1, **options)
                after.append(elementwise.astype(shapes.reshape(p, shape), dtype))
            return shapes.stack(after)

        return run

    return build


BUILDERS["adam_atan2"] = _moments(ops.adam_atan2)
BUILDERS["adamw"] = _moments(ops.adamw)


@builder("sign_sgd_rows")
def _sign_sgd_rows(attrs: Attributes) -> Function:
    return lambda table, ids, grad_rows: ops.sign_sgd_rows(table, ids, grad_rows, **attrs)
