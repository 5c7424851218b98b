# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions of tensors element by element, as ops of the dialects arith and math.

Shapes broadcast as NumPy's do. Element types are never mixed silently: a Python number takes the
type of the other operand, anything else must agree. Functions of bf16 and f16 values are evaluated
in f32 and rounded once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jpmhc import _text
from jpmhc._location import here
from jpmhc.dtypes import BITS, dtype_name, is_float, number, tensor_type
from jpmhc.errors import ConfigError, DTypeError, ShapeError, shown
from jpmhc.shapes import broadcast_shapes, broadcast_to
from jpmhc.tracing import Tensor, as_tensor, constant, emit, full

# ---- operands and element types ----


def _number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.number, np.bool_)) and not isinstance(
        value, np.ndarray
    )


def align(*operands: Any) -> list[Tensor]:
    """The operands as tensors of one shape and element type (or all as scalars)."""
    tensors = [None if _number(v) else as_tensor(v) for v in operands]
    known = [t for t in tensors if t is not None]
    if not known:
        known = [as_tensor(operands[0])]
    dtype = known[0].dtype
    for tensor in known[1:]:
        if tensor.dtype != dtype:
            raise DTypeError(
                "element types differ",
                expected=dtype,
                given=tensor.dtype,
                where=here(),
                hint="convert with astype",
            )
    if all(t.is_scalar for t in known):
        return [
            _scalar(v, dtype) if t is None else t for v, t in zip(operands, tensors, strict=True)
        ]
    shape = broadcast_shapes(*(t.shape for t in known if not t.is_scalar))
    return [
        full(shape, v, dtype) if t is None else broadcast_to(t, shape)
        for v, t in zip(operands, tensors, strict=True)
    ]


def _scalar(value: Any, dtype: str) -> Tensor:
    held = number(value, dtype)
    if not is_float(dtype):
        text = str(int(held)) if dtype != "i1" else _text.boolean(bool(held))
        text = text if dtype == "i1" else f"{text} : {dtype}"
    elif np.isfinite(held):
        text = f"{float(held):.17e} : {dtype}"
    else:  # MLIR writes these by their bits
        bits = held.view(f"u{held.itemsize}")
        text = f"0x{int(bits):0{2 * held.itemsize}X} : {dtype}"
    return emit("arith.constant", [], {"value": text}, [dtype])[0]


def scalar(value: Any, dtype: str) -> Tensor:
    """A scalar operand: a number becomes a constant, a traced scalar or 0-d tensor is used."""
    if _number(value):
        return _scalar(value, dtype)
    tensor = as_tensor(value)
    if not tensor.is_scalar:
        if tensor.shape:
            raise ShapeError("scalar operand", expected="()", given=tensor.shape, where=here())
        tensor = emit("tensor.extract", [tensor, []], {}, [tensor.dtype])[0]
    if tensor.dtype != dtype:
        if dtype == "index" or tensor.dtype == "index":
            return emit("arith.index_cast", [tensor], {}, [dtype])[0]
        return _convert(tensor, dtype, dtype)
    return tensor


def _like(x: Tensor, dtype: str) -> str:
    return dtype if x.is_scalar else tensor_type(x.shape, dtype)


def _binary(float_op: str, integer_op: str | None, a: Any, b: Any) -> Tensor:
    lhs, rhs = align(a, b)
    name = float_op if is_float(lhs.dtype) else integer_op
    if name is None or lhs.dtype == "i1":
        raise DTypeError(
            f"{float_op} has no form for this element type",
            expected="f32, bf16 or f16" if name is None else "numbers",
            given=lhs.dtype,
            where=here(),
        )
    return emit(name, [lhs, rhs], {}, [lhs.type])[0]


def add(a: Any, b: Any) -> Tensor:
    """a + b."""
    return _binary("arith.addf", "arith.addi", a, b)


def subtract(a: Any, b: Any) -> Tensor:
    """a - b."""
    return _binary("arith.subf", "arith.subi", a, b)


def multiply(a: Any, b: Any) -> Tensor:
    """a · b."""
    return _binary("arith.mulf", "arith.muli", a, b)


def divide(a: Any, b: Any) -> Tensor:
    """a / b of floating-point values."""
    return _binary("arith.divf", None, a, b)


def maximum(a: Any, b: Any) -> Tensor:
    """The larger of two values; NaN where either is."""
    return _binary("arith.maximumf", "arith.maxsi", a, b)


def minimum(a: Any, b: Any) -> Tensor:
    """The smaller of two values; NaN where either is."""
    return _binary("arith.minimumf", "arith.minsi", a, b)


def clip(x: Any, low: float, high: float) -> Tensor:
    """x limited to [low, high]."""
    return minimum(maximum(x, low), high)


_PREDICATES = {  # arith.cmpf ordered (ne: unordered), arith.cmpi signed
    "eq": (1, 0),
    "gt": (2, 4),
    "ge": (3, 5),
    "lt": (4, 2),
    "le": (5, 3),
    "ne": (13, 1),
}


def compare(predicate: str, a: Any, b: Any) -> Tensor:
    """An i1 tensor: eq, ne, lt, le, gt or ge. Comparisons with NaN are false, but for ne."""
    lhs, rhs = align(a, b)
    floating, integer = _PREDICATES[predicate]
    name, code = ("arith.cmpf", floating) if is_float(lhs.dtype) else ("arith.cmpi", integer)
    return emit(name, [lhs, rhs], {"predicate": _text.i64(code)}, [_like(lhs, "i1")])[0]


def where(condition: Any, a: Any, b: Any) -> Tensor:
    """a where the condition holds, else b.

    Raises:
        DTypeError: the condition is not boolean.
    """
    condition = as_tensor(condition)
    if condition.dtype != "i1":
        raise DTypeError("condition of where", expected="i1", given=condition.dtype, where=here())
    x, y = align(a, b)
    shape = broadcast_shapes(condition.shape, x.shape)
    x, y, condition = (broadcast_to(t, shape) for t in (x, y, condition))
    return emit("arith.select", [condition, x, y], {}, [x.type])[0]


def logical_and(a: Any, b: Any) -> Tensor:
    """a ∧ b of boolean tensors."""
    return _logical("arith.andi", a, b)


def logical_or(a: Any, b: Any) -> Tensor:
    """a ∨ b of boolean tensors."""
    return _logical("arith.ori", a, b)


def logical_not(a: Any) -> Tensor:
    """¬a of a boolean tensor."""
    return _logical("arith.xori", a, True)


def _logical(name: str, a: Any, b: Any) -> Tensor:
    lhs, rhs = align(a, b)
    if lhs.dtype != "i1":
        raise DTypeError(f"{name} of tensors", expected="i1", given=lhs.dtype, where=here())
    return emit(name, [lhs, rhs], {}, [lhs.type])[0]


def astype(x: Any, dtype: object) -> Tensor:
    """x converted; floats to integers by truncation, booleans to 0 and 1."""
    x = as_tensor(x)
    name = dtype_name(dtype)
    return x if x.dtype == name else _convert(x, name, _like(x, name))


def _convert(x: Tensor, dtype: str, result: str) -> Tensor:
    def cast(op: str) -> Tensor:
        return emit(op, [x], {}, [result])[0]

    source = x.dtype
    if "index" in (source, dtype):
        raise DTypeError(
            "conversion", expected="numbers", given=f"{source} to {dtype}", where=here()
        )
    if is_float(source) and is_float(dtype):
        if BITS[source] == BITS[dtype]:
            return astype(astype(x, "f32"), dtype)
        return cast("arith.extf" if BITS[source] < BITS[dtype] else "arith.truncf")
    if is_float(source):
        if dtype == "i1":
            return compare("ne", x, 0.0)
        return cast("arith.fptosi")
    if is_float(dtype):
        return cast("arith.uitofp" if source == "i1" else "arith.sitofp")
    if dtype == "i1":
        return compare("ne", x, 0)
    if source == "i1":
        return cast("arith.extui")
    return cast("arith.extsi" if BITS[source] < BITS[dtype] else "arith.trunci")


# ---- functions of one value ----


def in_f32(function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    """A function of floating-point tensors; of bf16 and f16 ones evaluated in f32, rounded once.

    Raises:
        DTypeError: the operands are not floating-point numbers.
    """
    dtype = operands[0].dtype
    if not is_float(dtype):
        raise DTypeError(
            "argument of a function", expected="f32, bf16 or f16", given=dtype, where=here()
        )
    if dtype in ("bf16", "f16"):
        return astype(function(*(astype(x, "f32") for x in operands)), dtype)
    return function(*operands)


def _unary(op: str, x: Any) -> Tensor:
    return in_f32(lambda v: emit(op, [v], {}, [v.type])[0], as_tensor(x))


def negative(x: Any) -> Tensor:
    """-x."""
    x = as_tensor(x)
    if not is_float(x.dtype):
        return subtract(0, x)
    return emit("arith.negf", [x], {}, [x.type])[0]


def exp(x: Any) -> Tensor:
    """e^x."""
    return _unary("math.exp", x)


def log(x: Any) -> Tensor:
    """Natural logarithm."""
    return _unary("math.log", x)


def log2(x: Any) -> Tensor:
    """Binary logarithm."""
    return log(x) * (1.0 / math.log(2.0))


def sqrt(x: Any) -> Tensor:
    """Square root."""
    return _unary("math.sqrt", x)


def rsqrt(x: Any) -> Tensor:
    """1/sqrt(x)."""
    return _unary("math.rsqrt", x)


def tanh(x: Any) -> Tensor:
    """Hyperbolic tangent."""
    return _unary("math.tanh", x)


def sin(x: Any) -> Tensor:
    """Sine."""
    return _unary("math.sin", x)


def cos(x: Any) -> Tensor:
    """Cosine."""
    return _unary("math.cos", x)


def erf(x: Any) -> Tensor:
    """Error function."""
    return _unary("math.erf", x)


def abs(x: Any) -> Tensor:  # noqa: A001
    """|x|."""
    x = as_tensor(x)
    if is_float(x.dtype):
        return _unary("math.absf", x)
    return emit("math.absi", [x], {}, [x.type])[0]


def power(x: Any, exponent: Any) -> Tensor:
    """x^exponent; small whole exponents become products."""
    if not _number(exponent):
        lhs, rhs = align(x, exponent)
        return in_f32(lambda a, b: emit("math.powf", [a, b], {}, [a.type])[0], lhs, rhs)
    if isinstance(exponent, (int, float)) and exponent in range(-8, 9):
        whole = int(exponent)
        if whole >= 0:
            return _whole_power(as_tensor(x), whole)
        return divide(1.0, _whole_power(as_tensor(x), -whole))
    if exponent == 0.5:
        return sqrt(x)
    lhs, rhs = align(x, exponent)
    return in_f32(lambda a, b: emit("math.powf", [a, b], {}, [a.type])[0], lhs, rhs)


def _whole_power(x: Tensor, exponent: int) -> Tensor:
    if exponent == 0:
        return full(x.shape, 1, x.dtype)
    if exponent == 1:
        return x
    half = _whole_power(x, exponent // 2)
    square = multiply(half, half)
    return square if exponent % 2 == 0 else multiply(square, x)


def sigmoid(x: Any) -> Tensor:
    """1/(1 + e^-x), as 1/(1 + e) or e/(1 + e) with e = e^-|x|, whose gradient is finite too."""

    def formula(v: Tensor) -> Tensor:
        positive = v >= 0.0
        tail = exp(where(positive, negative(v), v))
        return divide(where(positive, 1.0, tail), add(1.0, tail))

    return in_f32(formula, as_tensor(x))


def silu(x: Any) -> Tensor:
    """x · sigmoid(x)."""
    return in_f32(lambda v: multiply(v, sigmoid(v)), as_tensor(x))


def softplus(x: Any) -> Tensor:
    """log(1 + e^x), as max(x, 0) + log(1 + e^-|x|)."""

    def formula(v: Tensor) -> Tensor:
        tail = emit("math.log1p", [exp(negative(abs(v)))], {}, [v.type])[0]
        return add(maximum(v, 0.0), tail)

    return in_f32(formula, as_tensor(x))


# ---- counting ----


def arange(count: int, dtype: object = "i32") -> Tensor:
    """0, 1, …, count - 1 as a constant.

    Raises:
        ConfigError: the count is negative.
    """
    whole = isinstance(count, (int, np.integer)) and not isinstance(count, bool)
    if not whole or not 0 <= count < 2**31:
        raise ConfigError(
            "arange", expected="a count from 0 to 2^31 - 1", given=shown(count), where=here()
        )
    return constant(np.arange(count), dtype)
