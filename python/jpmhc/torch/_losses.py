# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Cross-entropies of softmax and stablemax."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jpmhc import _text, ops
from jpmhc.errors import RangeError, ShapeError
from jpmhc.torch._engine import (
    IDS,
    Operator,
    Result,
    expect_dtype,
    expect_rank,
    expect_shape,
    product,
)
from jpmhc.tracing import Tensor as Traced
from jpmhc.tracing import emit

Tensor = torch.Tensor


def _infer(logits: Tensor, target: Tensor, ignore_index: int) -> list[Result]:
    expect_rank(logits, "logits", "[N, V]", 2)
    expect_dtype(logits, "logits")
    expect_shape(target, "target", logits.shape[:1])
    expect_dtype(target, "target", IDS)
    if logits.shape[1] < 1:
        raise ShapeError("logits", expected="at least 1 class", given=list(logits.shape))
    return [Result((), torch.float32)]


def _check_classes(logits: Tensor, target: Tensor, ignore_index: int) -> None:
    classes = logits.shape[1]
    if target.numel() == 0:
        return
    low, high = torch.aminmax(target)
    if low >= 0 and high < classes:
        return
    wrong = (target < 0) | (target >= classes)
    wrong &= target != ignore_index
    if wrong.any():
        place = int(wrong.nonzero()[0])
        raise RangeError(
            f"id out of range at {place}",
            expected=f"0 … {classes - 1} or {ignore_index}",
            given=int(target[place]),
            where="target",
        )


def _infer_vjp(logits: Tensor, target: Tensor, grad: Tensor, ignore_index: int) -> list[Result]:
    _infer(logits, target, ignore_index)
    expect_shape(grad, "gradient of the loss", ())
    expect_dtype(grad, "gradient of the loss", (torch.float32,))
    return [Result(tuple(logits.shape), logits.dtype)]


def _define(name: str, function: Callable[..., Traced]) -> Operator:
    """The op of a cross-entropy, with its reverse-mode rule."""

    def program(logits: Traced, target: Traced, ignore_index: int) -> Traced:
        return function(logits, target, ignore_index=ignore_index)

    def program_vjp(
        logits: Traced, target: Traced, grad: Traced, ignore_index: int
    ) -> list[Traced]:
        attributes = {"ignore_index": _text.i64(ignore_index)}
        return emit(f"jpmhc.{name}_vjp", [logits, target, grad], attributes, [logits.type])

    op = Operator(
        f"{name}(Tensor logits, Tensor target, int ignore_index) -> Tensor",
        _infer,
        program,
        check=_check_classes,
    )
    vjp = Operator(
        f"{name}_vjp(Tensor logits, Tensor target, Tensor grad, int ignore_index) -> Tensor",
        _infer_vjp,
        program_vjp,
    )

    def setup(ctx: Any, inputs: tuple, output: Tensor) -> None:
        logits, target, ctx.ignore_index = inputs
        ctx.save_for_backward(logits, target)

    def backward(ctx: Any, grad: Tensor) -> tuple:
        return vjp(*ctx.saved_tensors, grad, ctx.ignore_index), None, None

    op.differentiate(backward, setup)
    return op


_define("softmax_cross_entropy", ops.softmax_cross_entropy)
_define("stablemax_cross_entropy", ops.stablemax_cross_entropy)


def _rows(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    if logits.dim() < 1:
        raise ShapeError("logits", expected="[..., V]", given=[])
    *lead, classes = logits.shape
    if target.dim() != len(lead):
        raise ShapeError("target", expected=list(lead), given=list(target.shape))
    rows = product(lead)
    return logits.reshape(rows, classes), target.reshape(product(target.shape))


def softmax_cross_entropy(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """Mean of ``-log softmax(logits)[target]`` over targets that are not ignored; 0 without any.

    Args:
        logits: [..., V]; float32, bfloat16 or float16.
        target: [...] of int32 or int64.
        ignore_index: rows with this target do not count.

    Returns:
        [] of float32.

    Raises:
        RangeError: a target is neither a class nor `ignore_index`.
        ShapeError, DTypeError: arguments that do not fit.
    """
    return torch.ops.jpmhc.softmax_cross_entropy(*_rows(logits, target), ignore_index)


def stablemax_cross_entropy(logits: Tensor, target: Tensor, *, ignore_index: int = -100) -> Tensor:
    """The same with ``s(x) = x + 1 (x ≥ 0), 1/(1 - x) (x < 0)`` in place of the exponential."""
    return torch.ops.jpmhc.stablemax_cross_entropy(*_rows(logits, target), ignore_index)
