# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reductions of tensors along axes, and products of matrices; accumulated in f32 or better."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jpmhc._location import here
from jpmhc.dtypes import BITS, INTEGERS, is_float, tensor_type
from jpmhc.elementwise import add, astype, exp, in_f32
from jpmhc.errors import ConfigError, DTypeError, ShapeError, shown
from jpmhc.shapes import axes_of, reshape
from jpmhc.tracing import Tensor, as_tensor, current_trace, user_location

# ---- reductions ----


def _reduce(x: Tensor, axis: Any, keepdims: bool, combiner: str, init: str) -> Tensor:
    if not isinstance(keepdims, (bool, np.bool_)):
        raise ConfigError("keepdims", expected="True or False", given=shown(keepdims), where=here())
    axes = axes_of(axis, x.ndim)
    if not axes:
        return x
    trace = current_trace()
    value = trace.call(
        trace.graph.reduce, x.value, axes, combiner, f"{init} : {x.dtype}", loc=user_location()
    )
    result = Tensor(value, trace.frame)
    if keepdims:
        result = reshape(result, tuple(1 if i in axes else s for i, s in enumerate(x.shape)))
    return result


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Sum over the axes; booleans are counted as i32."""
    x = as_tensor(x)
    if x.dtype == "i1":
        x = astype(x, "i32")
    if x.dtype in INTEGERS:
        return _reduce(x, axis, keepdims, "arith.addi", "0")
    return in_f32(lambda v: _reduce(v, axis, keepdims, "arith.addf", "0.0"), x)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Mean over the axes of floating-point values."""
    x = as_tensor(x)
    count = math.prod(x.shape[a] for a in axes_of(axis, x.ndim))
    return in_f32(lambda v: sum(v, axis, keepdims) * (1.0 / count if count else math.nan), x)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Largest element over the axes; NaN where one is."""
    x = as_tensor(x)
    if x.dtype in INTEGERS:
        return _reduce(x, axis, keepdims, "arith.maxsi", str(-(2 ** (BITS[x.dtype] - 1))))
    return in_f32(lambda v: _reduce(v, axis, keepdims, "arith.maximumf", "0xFF800000"), x)


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Softmax along one axis, shifted by the largest value."""

    def formula(v: Tensor) -> Tensor:
        from jpmhc.ops import stop_gradient

        shifted = exp(v - stop_gradient(max(v, axis, keepdims=True)))
        return shifted / sum(shifted, axis, keepdims=True)

    return in_f32(formula, as_tensor(x))


# ---- products ----


def _product(lhs: Tensor, rhs: Tensor, maps: list[str], shape: tuple[int, ...]) -> Tensor:
    """A contraction accumulated in f32."""
    if lhs.dtype != rhs.dtype or not is_float(lhs.dtype):
        raise DTypeError(
            "product",
            expected="two tensors of one floating-point type",
            given=f"{lhs.dtype} and {rhs.dtype}",
            where=here(),
        )
    trace = current_trace()
    value = trace.call(
        trace.graph.contract,
        lhs.value,
        rhs.value,
        maps,
        tensor_type(shape, "f32"),
        loc=user_location(),
    )
    return astype(Tensor(value, trace.frame), lhs.dtype)


def matmul(a: Any, b: Any) -> Tensor:
    """Matrix product; leading axes are batches, which must be equal or absent on the right.

    Shapes: [..., M, K] @ [K, N] or [..., M, K] @ [..., K, N] → [..., M, N]; [K] on the left is a
    row.

    Raises:
        ShapeError: the sizes do not fit.
    """
    lhs, rhs = as_tensor(a), as_tensor(b)
    if lhs.ndim == 1 and rhs.ndim >= 2:
        return reshape(matmul(reshape(lhs, (1, lhs.size)), rhs), (*rhs.shape[:-2], rhs.shape[-1]))
    if lhs.ndim < 2 or rhs.ndim < 2 or lhs.shape[-1] != rhs.shape[-2]:
        raise ShapeError(
            "matrix product",
            expected="[..., M, K] @ [..., K, N]",
            given=f"{lhs.shape} @ {rhs.shape}",
            where=here(),
        )
    if rhs.ndim == 2:
        return _matrix_product(lhs, rhs, "(m, n, k) -> (k, n)", rhs.shape[1])
    if lhs.shape[:-2] != rhs.shape[:-2]:
        raise ShapeError(
            "batched product",
            expected=f"batch axes {lhs.shape[:-2]}",
            given=rhs.shape[:-2],
            where=here(),
        )
    batch, (m, k), n = lhs.shape[:-2], lhs.shape[-2:], rhs.shape[-1]
    count = math.prod(batch)
    maps = ["(b, m, n, k) -> (b, m, k)", "(b, m, n, k) -> (b, k, n)", "(b, m, n, k) -> (b, m, n)"]
    out = _product(reshape(lhs, (count, m, k)), reshape(rhs, (count, k, n)), maps, (count, m, n))
    return reshape(out, (*batch, m, n))


def _matrix_product(x: Tensor, w: Tensor, w_map: str, width: int) -> Tensor:
    """x [..., K] times a matrix, all leading axes as rows."""
    rows = math.prod(x.shape[:-1])
    flat = reshape(x, (rows, x.shape[-1]))
    maps = ["(m, n, k) -> (m, k)", w_map, "(m, n, k) -> (m, n)"]
    return reshape(_product(flat, w, maps, (rows, width)), (*x.shape[:-1], width))


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x Wᵀ + b.

    Shapes: x [..., K], weight [N, K], bias [N] → [..., N].

    Raises:
        ShapeError: the sizes do not fit.
    """
    x, w = as_tensor(x), as_tensor(weight)
    if w.ndim != 2 or x.ndim < 1 or x.shape[-1] != w.shape[1]:
        raise ShapeError(
            "linear",
            expected="x [..., K] and weight [N, K]",
            given=f"{x.shape} and {w.shape}",
            where=here(),
        )
    out = _matrix_product(x, w, "(m, n, k) -> (n, k)", w.shape[0])
    return out if bias is None else add(out, bias)
