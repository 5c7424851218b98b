# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Shapes of tensors: broadcasting, rearranging, indexing, joining; as NumPy has them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jpmhc import _text
from jpmhc._location import here
from jpmhc.dtypes import sizes, tensor_type
from jpmhc.errors import DTypeError, ShapeError, UnsupportedError, shown
from jpmhc.tracing import Tensor, as_tensor, current_trace, emit, full, user_location

# ---- checks ----


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


def _axis(axis: Any, ndim: int) -> int:
    if isinstance(axis, bool) or not isinstance(axis, (int, np.integer)):
        raise ShapeError("axis", expected="an integer", given=shown(axis), where=here())
    if not -ndim <= axis < ndim:
        raise ShapeError(
            "axis out of range", expected=f"-{ndim} … {ndim - 1}", given=axis, where=here()
        )
    return int(axis) % ndim


def axes_of(axis: Any, ndim: int) -> list[int]:
    """The axes that `axis` names, ascending: None (all), one or several, negative from the end."""
    if axis is None:
        return list(range(ndim))
    items = axis if isinstance(axis, (tuple, list)) else [axis]
    axes = sorted(_axis(a, ndim) for a in items)
    if len(set(axes)) != len(axes):
        raise ShapeError("axes", expected="different ones", given=axis, where=here())
    return axes


# ---- broadcasting ----


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
    shape = sizes(shape, "shape to broadcast to")
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


# ---- the same elements in another order ----


def reshape(x: Any, *shape: Any) -> Tensor:
    """The same elements, row-major, in another shape; one size may be -1.

    Raises:
        ShapeError: the number of elements differs.
    """
    x = as_tensor(x)
    given = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    target = _complete(sizes(given, "shape of reshape", least=-1), x)
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


# ---- parts ----


def get_item(x: Any, index: Any) -> Tensor:
    """Basic indexing: integers, slices with constant bounds and positive steps, ``...``, None.

    Raises:
        ShapeError: an index is out of range, of another kind, or there are too many.
    """
    x = as_tensor(x)
    items = list(index) if isinstance(index, tuple) else [index]
    used = [item for item in items if item is not None and item is not Ellipsis]
    # An array among the items has no equality with Ellipsis: compare by identity.
    rest = [i for i, item in enumerate(items) if item is Ellipsis]
    if len(used) > x.ndim or len(rest) > 1:
        raise ShapeError("index", expected=f"at most {x.ndim} entries", given=index, where=here())
    position = rest[0] if rest else len(items)
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
        except (TypeError, ValueError, UnsupportedError):
            raise ShapeError(
                "slice", expected="constant bounds and a step", given=item, where=here()
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
    if isinstance(sections, bool) or not isinstance(sections, (int, np.integer)):
        raise ShapeError(
            "sections of split", expected="an integer ≥ 1", given=shown(sections), where=here()
        )
    if sections < 1 or x.shape[axis] % sections:
        raise ShapeError(
            "split",
            expected=f"a size that {shown(sections)} divides",
            given=x.shape[axis],
            where=here(),
        )
    step = x.shape[axis] // sections
    lead = (slice(None),) * axis
    return [x[(*lead, slice(i * step, (i + 1) * step))] for i in range(sections)]


# ---- joining ----


def _parts(tensors: Any, what: str) -> list[Tensor]:
    """The members of a sequence of tensors."""
    if not isinstance(tensors, (Tensor, np.ndarray, tuple, list)):
        raise ShapeError(
            what, expected="a list of tensors", given=type(tensors).__name__, where=here()
        )
    return [as_tensor(t) for t in tensors]


def concatenate(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors joined along an axis.

    Raises:
        ShapeError: the other axes differ, or there is nothing to join.
        DTypeError: the element types differ.
    """
    parts = _parts(tensors, "concatenate")
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
    shape[axis] = sum(part.shape[axis] for part in parts)
    return emit(
        "tensor.concat", [parts], {"dim": _text.i64(axis)}, [tensor_type(tuple(shape), first.dtype)]
    )[0]


def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    parts = _parts(tensors, "stack")
    return concatenate([expand_dims(part, axis) for part in parts], axis)
