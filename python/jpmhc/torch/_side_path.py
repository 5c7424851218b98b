# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side path of TRSP: triBox filters along tokens and their coverage gate."""

from __future__ import annotations

from typing import Any

import torch

from jpmhc import _text, ops
from jpmhc.errors import ConfigError, ShapeError
from jpmhc.torch._engine import IDS, Operator, Result, expect_dtype, expect_shape
from jpmhc.tracing import Tensor as Traced
from jpmhc.tracing import emit

Tensor = torch.Tensor


def _check_filter(x: Tensor, segments: Tensor | None, passes: int, what: str = "x") -> None:
    expect_dtype(x, what)
    if x.dim() < 2:
        raise ShapeError(what, expected="[..., T, D]", given=list(x.shape))
    expect_shape(segments, "segments", x.shape[:-1])
    expect_dtype(segments, "segments", IDS)
    if passes not in (1, 2):
        raise ConfigError("passes of a filter", expected="1 or 2", given=passes)


def _check_width(width: Any) -> None:
    if width < 1:
        raise ConfigError("width of a filter", expected="an integer ≥ 1", given=width)


# ---- triBox and its adjoint, each the reverse-mode rule of the other ----


def _infer_filter(x: Tensor, width: Any, passes: int, segments: Tensor | None) -> list[Result]:
    _check_width(width)
    _check_filter(x, segments, passes)
    return [Result(tuple(x.shape), x.dtype)]


def _program_tribox(x: Traced, width: Any, passes: int, segments: Traced | None) -> Traced:
    return ops.tribox(x, width, passes=passes, segments=segments)


def _program_transpose(x: Traced, width: Any, passes: int, segments: Traced | None) -> list[Traced]:
    attributes = {"passes": _text.i64(passes)}
    return emit("jpmhc.tribox_transpose", [x, width, segments], attributes, [x.type])


def _check_filter_values(x: Tensor, width: int, passes: int, segments: Tensor | None) -> None:
    _check_width(width)


_FILTER = "(Tensor x, SymInt width, int passes, Tensor? segments) -> Tensor"
_tribox = Operator(
    f"tribox{_FILTER}",
    _infer_filter,
    _program_tribox,
    scalars={1: "index"},
    check=_check_filter_values,
)
_tribox_transpose = Operator(
    f"tribox_transpose{_FILTER}",
    _infer_filter,
    _program_transpose,
    scalars={1: "index"},
    check=_check_filter_values,
)


def _setup_filter(ctx: Any, inputs: tuple, output: Tensor) -> None:
    _, ctx.width, ctx.passes, segments = inputs
    ctx.save_for_backward(segments)


def _backward_by(adjoint: Operator) -> Any:
    def backward(ctx: Any, grad: Tensor) -> tuple:
        (segments,) = ctx.saved_tensors
        return adjoint(grad, ctx.width, ctx.passes, segments), None, None, None

    return backward


_tribox.differentiate(_backward_by(_tribox_transpose), _setup_filter)
_tribox_transpose.differentiate(_backward_by(_tribox), _setup_filter)


def tribox(x: Tensor, width: int, *, passes: int = 2, segments: Tensor | None = None) -> Tensor:
    """The causal triBox low-pass filter along tokens: the box of `width`, twice (TRSP).

    ``Box_b(x)_t = (1/w_t) Σ_{i<w_t} x_{t-i}``, ``w_t = min(b, t+1)``. O(1) work a token whatever
    the width; sums in float64; can be differentiated any number of times.

    Args:
        x: [..., T, D]; float32, bfloat16 or float16.
        width: b ≥ 1; b > T is the same as b = T.
        passes: 2, or 1 for the single box.
        segments: int32 or int64 ids [..., T]; windows restart where they change.

    Raises:
        ConfigError: a width below 1 or other passes.
        ShapeError, DTypeError: of x or the segments.
    """
    return torch.ops.jpmhc.tribox(x, width, passes, segments)


triBox = tribox
"""`tribox` as the paper spells it."""


# ---- the fused update of a layer ----


def _check_gate(gate: Tensor) -> None:
    expect_shape(gate, "gate", ())
    expect_dtype(gate, "gate")


def _infer_side_path(
    x: Tensor, attn: Tensor, gate: Tensor, width: Any, passes: int, segments: Tensor | None
) -> list[Result]:
    _check_width(width)
    _check_filter(x, segments, passes)
    expect_shape(attn, "attn", x.shape)
    expect_dtype(attn, "attn", (x.dtype,))
    _check_gate(gate)
    return [Result(tuple(x.shape), x.dtype)]


def _program_side_path(
    x: Traced, attn: Traced, gate: Traced, width: Any, passes: int, segments: Traced | None
) -> Traced:
    return ops.side_path(x, attn, gate, width, passes=passes, segments=segments)


def _infer_side_path_vjp(
    x: Tensor, grad: Tensor, gate: Tensor, width: Any, passes: int, segments: Tensor | None
) -> list[Result]:
    (result,) = _infer_side_path(x, grad, gate, width, passes, segments)
    return [result, Result((), gate.dtype)]


def _program_side_path_vjp(
    x: Traced, grad: Traced, gate: Traced, width: Any, passes: int, segments: Traced | None
) -> list[Traced]:
    return emit(
        "jpmhc.side_path_vjp",
        [x, grad, gate, width, segments],
        {"passes": _text.i64(passes)},
        [x.type, gate.type],
    )


def _check_side_path_values(
    x: Tensor, attn: Tensor, gate: Tensor, width: int, passes: int, segments: Tensor | None
) -> None:
    _check_width(width)


_side_path = Operator(
    "side_path(Tensor x, Tensor attn, Tensor gate, SymInt width, int passes, Tensor? segments)"
    " -> Tensor",
    _infer_side_path,
    _program_side_path,
    scalars={3: "index"},
    check=_check_side_path_values,
)
_side_path_vjp = Operator(
    "side_path_vjp(Tensor x, Tensor grad, Tensor gate, SymInt width, int passes, Tensor? segments)"
    " -> (Tensor, Tensor)",
    _infer_side_path_vjp,
    _program_side_path_vjp,
    scalars={3: "index"},
    check=_check_side_path_values,
)


def _setup_side_path(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, _, gate, ctx.width, ctx.passes, segments = inputs
    ctx.save_for_backward(x, gate, segments)


def _backward_side_path(ctx: Any, grad: Tensor) -> tuple:
    x, gate, segments = ctx.saved_tensors
    dx, dgate = _side_path_vjp(x, grad, gate, ctx.width, ctx.passes, segments)
    return dx, grad, dgate, None, None, None


_side_path.differentiate(_backward_side_path, _setup_side_path)


def side_path(
    x: Tensor,
    attn: Tensor,
    gate: Tensor,
    width: int,
    *,
    passes: int = 2,
    segments: Tensor | None = None,
) -> Tensor:
    """A layer's update with its side path, ``x + attn + gate · triBox_width(x)``, in one pass.

    Args:
        x, attn: [..., T, D], of one element type.
        gate: [], float32, bfloat16 or float16.
        width, passes, segments: as for `tribox`.
    """
    return torch.ops.jpmhc.side_path(x, attn, gate, width, passes, segments)


# ---- the gate ----


def _infer_gate(
    width: Any, context: Any, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, beta: Tensor
) -> list[Result]:
    _check_width(width)
    _check_width(context)
    named = {"w1": w1, "b1": b1, "w2": w2, "b2": b2, "beta": beta}
    for name, value in named.items():
        expect_dtype(value, f"{name} of a coverage gate")
        shape = (w1.numel(),) if name in ("w1", "b1", "w2") else ()
        expect_shape(value, f"{name} of a coverage gate", shape)
    return [Result((), torch.float32)]


def _infer_gate_vjp(
    width: Any,
    context: Any,
    w1: Tensor,
    b1: Tensor,
    w2: Tensor,
    b2: Tensor,
    beta: Tensor,
    grad: Tensor,
) -> list[Result]:
    _infer_gate(width, context, w1, b1, w2, b2, beta)
    expect_shape(grad, "gradient of the gate", ())
    expect_dtype(grad, "gradient of the gate", (torch.float32,))
    return [Result(tuple(value.shape), value.dtype) for value in (w1, b1, w2, b2, beta)]


def _program_gate_vjp(width: Any, context: Any, *values: Traced) -> list[Traced]:
    types = [value.type for value in values[:-1]]
    return emit("jpmhc.coverage_gate_vjp", [width, context, *values], {}, types)


def _check_gate_values(width: int, context: int, *values: Tensor) -> None:
    _check_width(width)
    _check_width(context)


_GATE = "SymInt width, SymInt context, Tensor w1, Tensor b1, Tensor w2, Tensor b2, Tensor beta"
_gate = Operator(
    f"coverage_gate({_GATE}) -> Tensor",
    _infer_gate,
    ops.coverage_gate,
    scalars={0: "index", 1: "index"},
    check=_check_gate_values,
)
_gate_vjp = Operator(
    f"coverage_gate_vjp({_GATE}, Tensor grad) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _infer_gate_vjp,
    _program_gate_vjp,
    scalars={0: "index", 1: "index"},
    check=_check_gate_values,
)


def _setup_gate(ctx: Any, inputs: tuple, output: Tensor) -> None:
    ctx.width, ctx.context, *parameters = inputs
    ctx.save_for_backward(*parameters)


def _backward_gate(ctx: Any, grad: Tensor) -> tuple:
    return None, None, *_gate_vjp(ctx.width, ctx.context, *ctx.saved_tensors, grad)


_gate.differentiate(_backward_gate, _setup_gate)


def coverage_gate(
    width: int, context: int, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor, beta: Tensor
) -> Tensor:
    """The gate of the side path: ``r = b/T``, ``sigmoid(MLP(log2 r)) · r^softplus(β)`` (TRSP).

    Args:
        width, context: b and T.
        w1, b1, w2: [h], the 1→h→1 tanh network (h = 16 in the paper); b2, beta: [].

    Returns:
        [] in (0, 1), float32.
    """
    return torch.ops.jpmhc.coverage_gate(width, context, w1, b1, w2, b2, beta)
