# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Array functions as ops of the upstream dialects: arith, math, linalg and tensor.

Shapes broadcast as NumPy's do. Element types are never mixed silently: a Python number takes the
type of the other operand, anything else must agree. Functions and reductions of bf16 and f16
values are evaluated in f32 and rounded once.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jpmhc import _text
from jpmhc._location import here
from jpmhc.dtypes import INTEGERS, dtype_name, is_float, number, tensor_type
from jpmhc.errors import ConfigError, DTypeError, ShapeError
from jpmhc.tracing import Tensor, as_tensor, constant, current_trace, emit, full, user_location

_FLOAT_WIDTH = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_INTEGER_WIDTH = {"i1": 1, "i8": 8, "i32": 32, "i64": 64}


# ---- broadcasting and element types ----


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The common shape.

    Raises:
        ShapeError: there is none.
    """
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        raise ShapeError(
            "shapes do not broadcast",
            expected="equal sizes or 1 in each axis, counted from the last",
            given=" and ".join(str(shape) for shape in shapes),
            where=here(),
        ) from None


def broadcast_to(x: Any, shape: Sequence[int]) -> Tensor:
    """`x` repeated to `shape`."""
    x = as_tensor(x)
    shape = tuple(int(size) for size in shape)
    if x.is_scalar:
        return emit("tensor.splat", [x, []], {}, [tensor_type(shape, x.dtype)])[0]
    if x.shape == shape:
        return x
    if broadcast_shapes(x.shape, shape) != shape:
        raise ShapeError(
            "broadcast", expected=f"a shape that broadcasts to {shape}", given=x.shape, where=here()
        )
    offset = len(shape) - x.ndim
    kept = [i for i, size in enumerate(x.shape) if size == shape[i + offset]]
    added = [i for i in range(len(shape)) if i - offset not in kept]
    squeezed = reshape(x, tuple(x.shape[i] for i in kept))
    trace = current_trace()
    value = trace.call(
        trace.graph.broadcast,
        squeezed.value,
        added,
        tensor_type(shape, x.dtype),
        loc=user_location(),
    )
    return Tensor(value, trace.frame, x if x.origin is None else x.origin)


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
        if _FLOAT_WIDTH[source] == _FLOAT_WIDTH[dtype]:
            return astype(astype(x, "f32"), dtype)
        return cast("arith.extf" if _FLOAT_WIDTH[source] < _FLOAT_WIDTH[dtype] else "arith.truncf")
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
    return cast("arith.extsi" if _INTEGER_WIDTH[source] < _INTEGER_WIDTH[dtype] else "arith.trunci")


# ---- functions of one value ----


def _in_f32(function: Callable[..., Tensor], *operands: Tensor) -> Tensor:
    dtype = operands[0].dtype
    if not is_float(dtype):
        raise DTypeError(
            "argument of a function", expected="f32, bf16 or f16", given=dtype, where=here()
        )
    if dtype in ("bf16", "f16"):
        return astype(function(*(astype(x, "f32") for x in operands)), dtype)
    return function(*operands)


def _unary(op: str, x: Any) -> Tensor:
    return _in_f32(lambda v: emit(op, [v], {}, [v.type])[0], as_tensor(x))


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
    if isinstance(exponent, (int, float)) and float(exponent).is_integer():
        whole = int(exponent)
        if 0 <= whole <= 8:
            return _whole_power(as_tensor(x), whole)
        if -8 <= whole < 0:
            return divide(1.0, _whole_power(as_tensor(x), -whole))
    if exponent == 0.5:
        return sqrt(x)
    lhs, rhs = align(x, exponent)
    return _in_f32(lambda a, b: emit("math.powf", [a, b], {}, [a.type])[0], lhs, rhs)


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

    return _in_f32(formula, as_tensor(x))


def silu(x: Any) -> Tensor:
    """x · sigmoid(x)."""
    return _in_f32(lambda v: multiply(v, sigmoid(v)), as_tensor(x))


def softplus(x: Any) -> Tensor:
    """log(1 + e^x), as max(x, 0) + log(1 + e^-|x|)."""

    def formula(v: Tensor) -> Tensor:
        tail = emit("math.log1p", [exp(negative(abs(v)))], {}, [v.type])[0]
        return add(maximum(v, 0.0), tail)

    return _in_f32(formula, as_tensor(x))


def softmax(x: Any, axis: int = -1) -> Tensor:
    """Softmax along one axis, shifted by the largest value."""

    def formula(v: Tensor) -> Tensor:
        from jpmhc.ops import stop_gradient

        shifted = exp(v - stop_gradient(max(v, axis, keepdims=True)))
        return shifted / sum(shifted, axis, keepdims=True)

    return _in_f32(formula, as_tensor(x))


# ---- shapes ----


def _axis(axis: Any, ndim: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ShapeError("axis", expected="an integer", given=repr(axis), where=here())
    if not -ndim <= axis < ndim:
        raise ShapeError(
            "axis out of range", expected=f"-{ndim} … {ndim - 1}", given=axis, where=here()
        )
    return int(axis) % ndim


def _axes(axis: Any, ndim: int) -> list[int]:
    if axis is None:
        return list(range(ndim))
    items = axis if isinstance(axis, (tuple, list)) else [axis]
    axes = sorted(_axis(a, ndim) for a in items)
    if len(set(axes)) != len(axes):
        raise ShapeError("axes", expected="different ones", given=axis, where=here())
    return axes


def reshape(x: Any, *shape: Any) -> Tensor:
    """The same elements, row-major, in another shape; one size may be -1.

    Raises:
        ShapeError: the number of elements differs.
    """
    x = as_tensor(x)
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    target = _complete(tuple(int(size) for size in sizes), x)
    if target == x.shape:
        return x
    groups = _collapse_groups(x.shape, target)
    if groups is not None:
        collapsed = emit(
            "tensor.collapse_shape",
            [x],
            {"reassociation": _text.generic(groups)},
            [tensor_type(target, x.dtype)],
        )
        return _rearranged(collapsed, x)
    groups = _collapse_groups(target, x.shape)
    if groups is None:
        return reshape(reshape(x, (x.size,)), target)
    expanded = emit(
        "tensor.expand_shape",
        [x, []],
        {
            "reassociation": _text.generic(groups),
            "static_output_shape": _text.i64_array(target),
        },
        [tensor_type(target, x.dtype)],
    )
    return _rearranged(expanded, x)


def _rearranged(results: list[Tensor], x: Tensor) -> Tensor:
    """The result of an op that only moves elements of x."""
    results[0].origin = x if x.origin is None else x.origin
    return results[0]


def _complete(target: tuple[int, ...], x: Tensor) -> tuple[int, ...]:
    known = math.prod(size for size in target if size != -1)
    if target.count(-1) == 1 and known > 0 and x.size % known == 0:
        target = tuple(x.size // known if size == -1 else size for size in target)
    if any(size < 0 for size in target) or math.prod(target) != x.size:
        raise ShapeError(
            "reshape",
            expected=f"a shape of {x.size} elements, as {x.shape}",
            given=target,
            where=here(),
        )
    return target


def _collapse_groups(source: tuple[int, ...], target: tuple[int, ...]) -> list[list[int]] | None:
    """Groups of axes of `source` whose products are the sizes of `target`, if there are such."""
    if not target:
        return [] if all(size == 1 for size in source) else None
    if len(target) == 1:
        return [list(range(len(source)))] if source else None
    if 0 in source or len(source) < len(target):
        return None
    groups: list[list[int]] = []
    axis = 0
    for size in target:
        group, product = [], 1
        while axis < len(source) and (not group or product < size):
            product *= source[axis]
            group.append(axis)
            axis += 1
        if product != size:
            return None
        groups.append(group)
    while axis < len(source) and source[axis] == 1:
        groups[-1].append(axis)
        axis += 1
    return groups if axis == len(source) and all(groups) else None


def expand_dims(x: Any, axis: int) -> Tensor:
    """A new axis of size 1 at `axis` of the result."""
    x = as_tensor(x)
    position = _axis(axis, x.ndim + 1)
    return reshape(x, (*x.shape[:position], 1, *x.shape[position:]))


def transpose(x: Any, *axes: Any) -> Tensor:
    """Axis i of the result is axis `axes[i]` of x; reversed order without arguments.

    Raises:
        ShapeError: the axes are not a permutation.
    """
    x = as_tensor(x)
    order = axes[0] if len(axes) == 1 and isinstance(axes[0], (tuple, list)) else axes
    permutation = [_axis(a, x.ndim) for a in order] if order else list(range(x.ndim))[::-1]
    if sorted(permutation) != list(range(x.ndim)):
        raise ShapeError(
            "transpose",
            expected=f"a permutation of {x.ndim} axes",
            given=tuple(order),
            where=here(),
        )
    if permutation == list(range(x.ndim)):
        return x
    trace = current_trace()
    value = trace.call(trace.graph.transpose, x.value, permutation, loc=user_location())
    return Tensor(value, trace.frame, x if x.origin is None else x.origin)


def get_item(x: Any, index: Any) -> Tensor:
    """Basic indexing: integers, slices with constant bounds and positive steps, ``...``, None.

    Raises:
        ShapeError: an index is out of range, of another kind, or there are too many.
    """
    x = as_tensor(x)
    items = list(index) if isinstance(index, tuple) else [index]
    used = [item for item in items if item is not None and item is not Ellipsis]
    if len(used) > x.ndim or items.count(Ellipsis) > 1:
        raise ShapeError("index", expected=f"at most {x.ndim} entries", given=index, where=here())
    if Ellipsis not in items:
        items.append(Ellipsis)
    position = items.index(Ellipsis)
    items[position : position + 1] = [slice(None)] * (x.ndim - len(used))

    offsets, sizes, strides, shape = [], [], [], []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        start, size, step, keep = _bounds(item, x.shape[axis])
        offsets.append(start)
        sizes.append(size)
        strides.append(step)
        if keep:
            shape.append(size)
        axis += 1
    return reshape(_extract(x, offsets, sizes, strides), tuple(shape))


def _bounds(item: Any, length: int) -> tuple[int, int, int, bool]:
    """Offset, size, stride of one index, and whether its axis stays."""
    if isinstance(item, slice):
        try:
            start, stop, step = item.indices(length)
        except TypeError:
            raise ShapeError(
                "slice", expected="constant bounds", given=item, where=here()
            ) from None
        if step < 0:
            raise ShapeError("slice", expected="a positive step", given=step, where=here())
        return start, len(range(start, stop, step)), step, True
    if isinstance(item, (int, np.integer)) and not isinstance(item, bool):
        if not -length <= item < length:
            raise ShapeError(
                "index out of range", expected=f"-{length} … {length - 1}", given=item, where=here()
            )
        return int(item) % length, 1, 1, False
    raise ShapeError(
        "index",
        expected="an integer, slice, None or ...",
        given=type(item).__name__,
        where=here(),
        hint="jpmhc.embedding gathers rows by a tensor of ids",
    )


def _extract(x: Tensor, offsets: list[int], sizes: list[int], strides: list[int]) -> Tensor:
    if tuple(sizes) == x.shape:
        return x
    if 0 in sizes:
        return full(sizes, 0, x.dtype)
    part = emit(
        "tensor.extract_slice",
        [x, [], [], []],
        {
            "static_offsets": _text.i64_array(offsets),
            "static_sizes": _text.i64_array(sizes),
            "static_strides": _text.i64_array(strides),
        },
        [tensor_type(tuple(sizes), x.dtype)],
    )
    return _rearranged(part, x)


def split(x: Any, sections: int, axis: int = 0) -> list[Tensor]:
    """Equal parts along an axis.

    Raises:
        ShapeError: the axis is not a multiple of `sections`.
    """
    x = as_tensor(x)
    axis = _axis(axis, x.ndim)
    if sections < 1 or x.shape[axis] % sections:
        raise ShapeError(
            "split", expected=f"a size that {sections} divides", given=x.shape[axis], where=here()
        )
    step = x.shape[axis] // sections
    lead = (slice(None),) * axis
    return [x[(*lead, slice(i * step, (i + 1) * step))] for i in range(sections)]


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along an axis.

    Raises:
        ShapeError: the other axes differ, or there is nothing to join.
        DTypeError: the element types differ.
    """
    parts = [as_tensor(t) for t in tensors]
    if not parts:
        raise ShapeError("concatenate", expected="at least one tensor", given="none", where=here())
    axis = _axis(axis, parts[0].ndim)
    first = parts[0]
    for part in parts[1:]:
        if part.dtype != first.dtype:
            raise DTypeError("concatenate", expected=first.dtype, given=part.dtype, where=here())
        others = [s for i, s in enumerate(part.shape) if i != axis]
        if part.ndim != first.ndim or others != [s for i, s in enumerate(first.shape) if i != axis]:
            raise ShapeError(
                f"concatenate along axis {axis}",
                expected=first.shape,
                given=part.shape,
                where=here(),
            )
    if len(parts) == 1:
        return first
    shape = list(first.shape)
    shape[axis] = builtins.sum(part.shape[axis] for part in parts)
    return emit(
        "tensor.concat", [parts], {"dim": _text.i64(axis)}, [tensor_type(tuple(shape), first.dtype)]
    )[0]


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    parts = [as_tensor(t) for t in tensors]
    return concatenate([expand_dims(part, axis) for part in parts], axis)


# ---- reductions ----


def _reduce(x: Tensor, axis: Any, keepdims: bool, combiner: str, init: str) -> Tensor:
    axes = _axes(axis, x.ndim)
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
    return _in_f32(lambda v: _reduce(v, axis, keepdims, "arith.addf", "0.0"), x)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Mean over the axes of floating-point values."""
    x = as_tensor(x)
    count = math.prod(x.shape[a] for a in _axes(axis, x.ndim))
    return _in_f32(lambda v: sum(v, axis, keepdims) * (1.0 / count if count else math.nan), x)


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:  # noqa: A001
    """Largest element over the axes; NaN where one is."""
    x = as_tensor(x)
    if x.dtype in INTEGERS:
        bits = _INTEGER_WIDTH.get(x.dtype, 64)
        return _reduce(x, axis, keepdims, "arith.maxsi", str(-(2 ** (bits - 1))))
    return _in_f32(lambda v: _reduce(v, axis, keepdims, "arith.maximumf", "0xFF800000"), x)


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
    if lhs.ndim == 1:
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


def check_rank(x: Tensor, least: int, what: str, layout: str) -> None:
    """Raises ShapeError unless x is a tensor of at least so many axes."""
    if x.is_scalar or x.ndim < least:
        raise ShapeError(what, expected=layout, given=x.type, where=here())


def check_shape(x: Tensor, shape: Sequence[int], what: str) -> None:
    """Raises ShapeError unless x has this shape; -1 stands for any size."""
    fits = x.ndim == len(shape) and all(
        want in (-1, got) for want, got in zip(shape, x.shape, strict=True)
    )
    if not fits:
        raise ShapeError(what, expected=tuple(shape), given=x.shape, where=here())


def arange(count: int, dtype: object = "i32") -> Tensor:
    """0, 1, …, count - 1 as a constant.

    Raises:
        ConfigError: the count is negative.
    """
    if count < 0:
        raise ConfigError("arange", expected="a count ≥ 0", given=count, where=here())
    return constant(np.arange(count), dtype)
