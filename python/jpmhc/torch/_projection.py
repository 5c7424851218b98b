# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Projection of raw numbers onto manifolds of n×n mixers."""

from __future__ import annotations

import ast
import functools
from collections.abc import Mapping
from typing import Any

import torch

from jpmhc import _text, manifolds, ops
from jpmhc.errors import ConfigError, ShapeError
from jpmhc.torch._engine import (
    Operator,
    Result,
    expect_dtype,
    expect_rank,
    expect_shape,
    product,
)
from jpmhc.tracing import Tensor as Traced
from jpmhc.tracing import emit


def encode(parameters: Mapping[str, Any]) -> str:
    """The parameters of a manifold as the text that the ops take: ``"rounds=20, tol=0.1"``."""
    return ", ".join([f"{name}={parameters[name]!r}" for name in sorted(parameters)])


@functools.lru_cache(maxsize=1024)
def decode(name: str, text: str) -> manifolds.Manifold:
    """The manifold of that name with encoded parameters.

    Raises:
        ConfigError: the manifold or a parameter is unknown, or a value is no literal.
    """
    try:
        call = ast.parse(f"f({text})", mode="eval").body
        parameters = {item.arg: ast.literal_eval(item.value) for item in call.keywords}
    except (SyntaxError, ValueError):
        raise ConfigError(
            f"parameters of manifold {name}",
            expected="numbers, strings or lists of them",
            given=text,
        ) from None
    return manifolds.get(name, parameters)


def _infer(raw: torch.Tensor, n: int, name: str, text: str) -> list[Result]:
    expect_dtype(raw, "logits")
    expect_rank(raw, "logits", "[N, K]", 2)
    size = decode(name, text).raw_size(n)
    if raw.shape[1] != size:
        raise ShapeError(
            f"raw numbers a token for {name} on {n} streams", expected=size, given=raw.shape[1]
        )
    return [Result((raw.shape[0], n, n), raw.dtype)]


def _program(raw: Traced, n: int, name: str, text: str) -> Traced:
    return ops.project(raw, name, n, **decode(name, text).parameters)


def _infer_vjp(raw: torch.Tensor, grad: torch.Tensor, n: int, name: str, text: str) -> list[Result]:
    (mixer,) = _infer(raw, n, name, text)
    expect_shape(grad, "gradient of the mixers", mixer.shape)
    expect_dtype(grad, "gradient of the mixers", (raw.dtype,))
    return [Result(tuple(raw.shape), raw.dtype)]


def _program_vjp(raw: Traced, grad: Traced, n: int, name: str, text: str) -> list[Traced]:
    attributes = {"manifold": decode(name, text).attribute, "streams": _text.i64(n)}
    return emit("jpmhc.project_vjp", [raw, grad], attributes, [raw.type])


_project = Operator(
    "project(Tensor raw, int n, str manifold, str parameters) -> Tensor", _infer, _program
)
_project_vjp = Operator(
    "project_vjp(Tensor raw, Tensor grad, int n, str manifold, str parameters) -> Tensor",
    _infer_vjp,
    _program_vjp,
)


def _setup(ctx: Any, inputs: tuple, output: torch.Tensor) -> None:
    raw, *ctx.attributes = inputs
    ctx.save_for_backward(raw)


def _backward(ctx: Any, grad: torch.Tensor) -> tuple:
    (raw,) = ctx.saved_tensors
    return _project_vjp(raw, grad, *ctx.attributes), None, None, None


_project.differentiate(_backward, _setup)
_project.in_float32_under_autocast()


def project(
    logits: torch.Tensor, manifold: str = "birkhoff", *, n: int | None = None, **parameters: Any
) -> torch.Tensor:
    """Raw numbers of each token onto an n×n mixer of a manifold (JPmHC).

    Arithmetic is float32; the gradient is exact for the forward that runs. Autocast keeps
    projections in float32.

    Args:
        logits: [..., n, K/n] (such as [..., n, n] for birkhoff, stiefel and free), or [..., K]
            where `n` is given; float32, bfloat16 or float16.
        manifold: a name of `jpmhc.manifolds`.
        n: streams, where the logits' shape does not show them (permutation).
        parameters: the manifold's own, such as ``rounds=20`` (birkhoff) or ``steps=2`` (stiefel).

    Returns:
        [..., n, n] of the element type of the logits.

    Raises:
        ShapeError, DTypeError: logits that do not fit the manifold.
        ConfigError: an unknown manifold or parameter.
    """
    axes = 1 if n is not None else 2
    if logits.dim() < axes:
        raise ShapeError(
            "logits", expected=("[..., K]", "[..., n, K/n]")[axes - 1], given=list(logits.shape)
        )
    lead, last = logits.shape[:-axes], logits.shape[-axes:]
    streams = last[0] if n is None else n
    raw = logits.reshape(product(lead), product(last))
    mixer = torch.ops.jpmhc.project(raw, int(streams), manifold, encode(parameters))
    return mixer.reshape(*lead, streams, streams)
