# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tracing: ordinary Python functions run once on abstract tensors and leave a graph behind.

A `Trace` owns one module. Functions under construction are `Frame`s on its stack; a value of an
outer frame, or a `Parameter`, that is used in an inner one becomes an extra argument of the inner
function (its `captures`).
"""

from __future__ import annotations

import contextlib
import importlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jpmhc import _core
from jpmhc._location import Location, describe, here, user_location
from jpmhc.dtypes import INTEGERS, NUMPY, dtype_name, number, sizes, tensor_type
from jpmhc.errors import (
    CompileError,
    ConfigError,
    DTypeError,
    JpmhcError,
    RangeError,
    ShapeError,
    UnsupportedError,
    shown,
)

_local = threading.local()


@dataclass(frozen=True)
class Spec:
    """An abstract argument: its shape, element type and, for ids, the exclusive upper bound.

    Args:
        shape: sizes; () is a tensor with one element, unless `scalar`.
        dtype: element type ("f32", "i32", "index", …, or a NumPy type).
        scalar: the argument is a number, not a tensor.
        high: ids lie in [0, high); checked before each run when given.
        allowed: one more value an id may take (such as -100 for "ignored").
        name: what error messages call the argument.
    """

    shape: tuple[int, ...]
    dtype: str
    scalar: bool = False
    high: int | None = None
    allowed: int | None = None
    name: str | None = None

    @property
    def type(self) -> str:
        """The MLIR type."""
        return self.dtype if self.scalar else tensor_type(self.shape, self.dtype)

    @property
    def numpy(self) -> np.dtype:
        """The NumPy element type."""
        return NUMPY[self.dtype]


def spec(
    shape: Sequence[int],
    dtype: object = "f32",
    *,
    high: int | None = None,
    allowed: int | None = None,
    name: str | None = None,
) -> Spec:
    """The description of a tensor argument: ``spec((batch, 36), "i32", high=vocabulary)``.

    Raises:
        ShapeError: a size is negative or not an integer.
        ConfigError: the dtype is unknown, or a bound is no integer or not of integers.
    """
    shape = sizes(shape, "shape of a spec")
    element = dtype_name(dtype)
    for what, bound in (("high", high), ("allowed", allowed)):
        _check_bound(what, bound, element)
    return Spec(shape, element, high=high, allowed=allowed, name=name)


def _check_bound(what: str, bound: Any, dtype: str) -> None:
    """That a bound of ids is an integer, and belongs to integers."""
    if bound is None:
        return
    if isinstance(bound, bool) or not isinstance(bound, (int, np.integer)):
        raise ConfigError(
            f"{what} of a spec", expected="an integer", given=shown(bound), where=here()
        )
    if dtype not in INTEGERS:
        raise ConfigError(
            f"{what} of a spec", expected="a spec of integers", given=dtype, where=here()
        )


def scalar_spec(dtype: object = "f32", *, name: str | None = None) -> Spec:
    """The description of a scalar argument, such as a learning rate or a width."""
    return Spec((), dtype_name(dtype), scalar=True, name=name)


def spec_of(value: Any) -> Spec | None:
    """The spec of an array, NumPy number or spec; None for anything else."""
    if isinstance(value, Spec):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        return Spec(tuple(value.shape), dtype_name(value.dtype))
    return None


def _module(name: str) -> Any:
    """A module of functions of tensors; they need this one, so it is imported when it is used."""
    return importlib.import_module(f"jpmhc.{name}")


class Operators:
    """Arithmetic, comparison, indexing and reductions of tensors and parameters.

    Everything follows NumPy's broadcasting; both operands have the same element type, except that
    a Python number takes that of the other operand.
    """

    __slots__ = ()
    __array_priority__ = 1000

    def to_tensor(self) -> Tensor:
        """The value in the function under construction."""
        raise NotImplementedError

    def __add__(self, other: Any) -> Tensor:
        return _module("elementwise").add(self, other)

    def __radd__(self, other: Any) -> Tensor:
        return _module("elementwise").add(other, self)

    def __sub__(self, other: Any) -> Tensor:
        return _module("elementwise").subtract(self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return _module("elementwise").subtract(other, self)

    def __mul__(self, other: Any) -> Tensor:
        return _module("elementwise").multiply(self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return _module("elementwise").multiply(other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return _module("elementwise").divide(self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return _module("elementwise").divide(other, self)

    def __pow__(self, other: Any) -> Tensor:
        return _module("elementwise").power(self, other)

    def __neg__(self) -> Tensor:
        return _module("elementwise").negative(self)

    def __matmul__(self, other: Any) -> Tensor:
        return _module("reductions").matmul(self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return _module("reductions").matmul(other, self)

    def __abs__(self) -> Tensor:
        return _module("elementwise").abs(self)

    def __and__(self, other: Any) -> Tensor:
        return _module("elementwise").logical_and(self, other)

    def __rand__(self, other: Any) -> Tensor:
        return _module("elementwise").logical_and(other, self)

    def __or__(self, other: Any) -> Tensor:
        return _module("elementwise").logical_or(self, other)

    def __ror__(self, other: Any) -> Tensor:
        return _module("elementwise").logical_or(other, self)

    def __invert__(self) -> Tensor:
        return _module("elementwise").logical_not(self)

    def __rpow__(self, other: Any) -> Tensor:
        return _module("elementwise").power(other, self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Tensor:
        """NumPy's functions of elements, where this package has the like."""
        name = _UFUNCS.get(ufunc.__name__)
        if method != "__call__" or options or name is None:
            raise _unsupported(f"numpy.{ufunc.__name__}", name)
        if isinstance(name, tuple):
            return _module("elementwise").compare(name[0], *inputs)
        home = "reductions" if name == "matmul" else "elementwise"
        return getattr(_module(home), name)(*inputs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Tensor:
        raise _unsupported(f"numpy.{function.__name__}", function.__name__)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        raise _unsupported("conversion to an array")

    def __lt__(self, other: Any) -> Tensor:
        return _module("elementwise").compare("lt", self, other)

    def __le__(self, other: Any) -> Tensor:
        return _module("elementwise").compare("le", self, other)

    def __gt__(self, other: Any) -> Tensor:
        return _module("elementwise").compare("gt", self, other)

    def __ge__(self, other: Any) -> Tensor:
        return _module("elementwise").compare("ge", self, other)

    def equal(self, other: Any) -> Tensor:
        """Element-wise equality, as a boolean tensor (`==` compares the Python objects)."""
        return _module("elementwise").compare("eq", self, other)

    def not_equal(self, other: Any) -> Tensor:
        """Element-wise inequality, as a boolean tensor."""
        return _module("elementwise").compare("ne", self, other)

    def __bool__(self) -> bool:
        raise CompileError(
            "a traced value has no truth value while tracing", hint="use jpmhc.where", where=here()
        )

    def __iter__(self) -> Iterator[Tensor]:
        tensor = as_tensor(self)
        if not tensor.shape:
            raise ShapeError("iteration over a tensor without axes", where=here())
        return (tensor[i] for i in range(tensor.shape[0]))

    def __len__(self) -> int:
        shape = as_tensor(self).shape
        if not shape:
            raise ShapeError("len() of a tensor without axes", where=here())
        return shape[0]

    def __getitem__(self, index: Any) -> Tensor:
        return _module("shapes").get_item(self, index)

    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in another shape; one size may be -1."""
        return _module("shapes").reshape(self, *shape)

    def transpose(self, *axes: Any) -> Tensor:
        """Permuted axes; without arguments, reversed."""
        return _module("shapes").transpose(self, *axes)

    @property
    def T(self) -> Tensor:
        """Reversed axes."""
        return _module("shapes").transpose(self)

    def astype(self, dtype: object) -> Tensor:
        """The values converted to another element type."""
        return _module("elementwise").astype(self, dtype)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Sum over axes (all of them by default), accumulated in f32."""
        return _module("reductions").sum(self, axis, keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Mean over axes (all of them by default), accumulated in f32."""
        return _module("reductions").mean(self, axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Tensor:
        """Largest element along axes (all of them by default)."""
        return _module("reductions").max(self, axis, keepdims)


# What NumPy's functions of elements are called here; a tuple holds a comparison.
_UFUNCS: dict[str, Any] = {
    **{name: name for name in ("add", "subtract", "multiply", "divide", "power", "negative")},
    **{name: name for name in ("exp", "log", "log2", "sqrt", "tanh", "sin", "cos", "matmul")},
    **{name: name for name in ("maximum", "minimum")},
    **{name: name for name in ("logical_and", "logical_or", "logical_not")},
    "true_divide": "divide",
    "absolute": "abs",
    "bitwise_and": "logical_and",
    "bitwise_or": "logical_or",
    "invert": "logical_not",
    "less": ("lt",),
    "less_equal": ("le",),
    "greater": ("gt",),
    "greater_equal": ("ge",),
    "equal": ("eq",),
    "not_equal": ("ne",),
}


def _unsupported(what: str, instead: Any = None) -> UnsupportedError:
    """The error for what Python or NumPy can do with a number, but not while tracing."""
    package = importlib.import_module("jpmhc")
    hint = None
    if isinstance(instead, str) and instead in package.__all__:
        hint = f"use jpmhc.{instead}"
    elif isinstance(instead, str) and hasattr(Operators, instead):
        hint = f"use the method {instead}"
    return UnsupportedError(
        f"{what} of a traced value",
        expected="functions of jpmhc",
        given=what,
        where=here(),
        hint=hint,
    )


def _refuse(method: str, what: str, instead: str | None = None) -> None:
    """Gives `Operators` a method of Python that raises `UnsupportedError`."""

    def refused(self: Operators, *args: Any) -> Any:
        raise _unsupported(what, instead)

    refused.__name__ = method
    setattr(Operators, method, refused)


for _name in ("mod", "floordiv", "divmod", "xor", "lshift", "rshift"):
    _refuse(f"__{_name}__", _name)
    _refuse(f"__r{_name}__", _name)
for _name in ("float", "int", "complex", "index", "round", "trunc", "floor", "ceil"):
    _refuse(f"__{_name}__", f"{_name}()")
_refuse("__contains__", "in")


def _format(self: Operators, specification: str) -> str:
    """The text of the description; the numbers are not there yet."""
    if specification:
        raise _unsupported(f"the format {shown(specification)}")
    return str(self)


Operators.__format__ = _format
for _name in ("setitem", "delitem"):
    _refuse(f"__{_name}__", _name, "where")


class Tensor(Operators):
    """A traced value: a tensor, or a scalar where `is_scalar`."""

    __slots__ = ("dtype", "frame", "is_scalar", "origin", "shape", "value")

    def __init__(self, value: _core.Value, frame: Frame, origin: Tensor | None = None) -> None:
        self.value = value
        self.frame = frame
        self.origin = origin  # a tensor that has every element of this one
        self.shape: tuple[int, ...] = value.shape
        self.dtype: str = value.dtype
        self.is_scalar: bool = not value.is_tensor

    def to_tensor(self) -> Tensor:
        """The value in the function under construction."""
        return current_trace().frame.resolve(self)

    @property
    def type(self) -> str:
        """The MLIR type as text."""
        return self.value.type

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    def __repr__(self) -> str:
        return f"Tensor({self.type})"


Captured = Operators
"""What a function takes besides its arguments: a parameter, or a tensor of an outer frame."""


@dataclass(frozen=True)
class IdRange:
    """A check before a run: the values of an argument are row numbers of a table.

    `position` counts the arguments and captures of a function; `allowed` is one more legal value;
    the values lie in [low, high), without a limit where high is None.
    """

    position: int
    high: int | None
    allowed: int | None
    low: int = 0


@dataclass
class Frame:
    """A function under construction.

    `operands` holds what the caller passes for the arguments, where the function is to be
    differentiated; `ranges` what has to be checked of the arguments.
    """

    trace: Trace
    name: str
    parent: Frame | None
    arguments: list[Tensor] = field(default_factory=list)
    captures: dict[int, tuple[Captured, Tensor]] = field(default_factory=dict)
    operands: list[Tensor] | None = None
    ranges: list[IdRange] = field(default_factory=list)

    def is_within(self, other: Frame) -> bool:
        """Whether `other` is this frame or one of those it is built inside."""
        frame: Frame | None = self
        while frame is not None:
            if frame is other:
                return True
            frame = frame.parent
        return False

    def capture(self, source: Captured, type_text: str) -> Tensor:
        """The argument that brings `source` in, appended when it is first used."""
        known = self.captures.get(id(source))
        if known is not None:
            return known[1]
        value = self.trace.call(self.trace.graph.add_argument, type_text, loc=user_location())
        argument = Tensor(value, self)
        self.captures[id(source)] = (source, argument)
        return argument

    def resolve(self, tensor: Tensor) -> Tensor:
        """`tensor` as a value of this frame."""
        if tensor.frame is self:
            return tensor
        if self.parent is None or not self.parent.is_within(tensor.frame):
            raise CompileError(
                "a traced value is used outside the function that made it",
                expected=f"a value of function '{self.name}'",
                given=f"one of '{tensor.frame.name}'",
                where=here(),
            )
        return self.capture(tensor, tensor.type)

    def position(self, tensor: Tensor) -> int | None:
        """The number of the argument or capture that `tensor` is; None for any other value."""
        known = [*self.arguments, *(argument for _, argument in self.captures.values())]
        return next((i for i, argument in enumerate(known) if argument is tensor), None)

    @property
    def captured(self) -> list[Captured]:
        """What the extra arguments stand for, in order."""
        return [source for source, _ in self.captures.values()]


class Trace:
    """A module being built, and the functions on the way."""

    def __init__(self) -> None:
        self.graph = _core.Graph()
        self.frames: list[Frame] = []
        self.functions: dict[Any, Any] = {}
        self._names: dict[str, int] = {}
        self._sites = 0

    @property
    def frame(self) -> Frame:
        """The function under construction."""
        return self.frames[-1]

    def unique_name(self, stem: str) -> str:
        """`stem`, with a number where it is taken."""
        stem = "".join(c if c.isalnum() or c == "_" else "_" for c in stem) or "function"
        count = self._names.get(stem, 0)
        self._names[stem] = count + 1
        return stem if count == 0 else f"{stem}_{count}"

    def next_site(self) -> int:
        """A number for the next use of random numbers, in the order of tracing."""
        self._sites += 1
        return self._sites - 1

    def call(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Calls into the graph; what it reports is raised as an error of jpmhc."""
        try:
            return function(*args, **kwargs)
        except _core.DiagnosticError as error:
            raise to_error(error) from None

    @contextlib.contextmanager
    def function(
        self, stem: str, types: Sequence[str], *, private: bool = False
    ) -> Iterator[Frame]:
        """Builds a function in the body of the with statement; call `finish` before its end."""
        location = user_location()
        name = self.unique_name(stem)
        frame = Frame(self, name, self.frames[-1] if self.frames else None)
        values = self.call(
            self.graph.begin_function, name, list(types), private=private, loc=location
        )
        frame.arguments = [Tensor(value, frame) for value in values]
        self.frames.append(frame)
        try:
            with _active(self):
                yield frame
        except BaseException:
            self.frames.pop()
            self.graph.abandon_function()
            raise
        self.frames.pop()

    def finish(self, results: Sequence[Tensor]) -> None:
        """Ends the function under construction with these results."""
        frame = self.frame
        values = [frame.resolve(result).value for result in results]
        self.call(self.graph.end_function, values, loc=user_location())


@contextlib.contextmanager
def _active(trace: Trace) -> Iterator[None]:
    before = getattr(_local, "trace", None)
    _local.trace = trace
    try:
        yield
    finally:
        _local.trace = before


def current_trace() -> Trace:
    """The trace in progress in this thread.

    Raises:
        CompileError: there is none.
    """
    trace = getattr(_local, "trace", None)
    if trace is None or not trace.frames:
        raise CompileError(
            "ops work on traced values",
            expected="a call inside jpmhc.compile or jpmhc.value_and_grad",
            given="a call outside",
            where=here(),
        )
    return trace


def is_tracing() -> bool:
    """Whether a trace is in progress in this thread."""
    trace = getattr(_local, "trace", None)
    return trace is not None and bool(trace.frames)


_OPTION_WORDS = ("attribute", "parameter", "manifold", "width", "eps", "a step of", "lr", "beta")


def to_error(error: _core.DiagnosticError) -> JpmhcError:
    """The typed error for what the compiler reported, at the user's line."""
    message, file, line, column = error.args
    where = describe((file, line, column)) or here()
    kind: type[JpmhcError] = CompileError
    text = message.lower()
    if text.startswith("unknown op") or "not supported" in text or "not served" in text:
        kind = UnsupportedError
    elif "expected ids in [" in text or "expected targets in [" in text:
        kind = RangeError
    elif any(word in text for word in ("element type", "dtype", "f32, bf16 or f16")):
        kind = DTypeError
    elif any(word in text for word in ("shape", "dimension", "rank", "size", "multiple")):
        kind = ShapeError
    elif any(word in text for word in _OPTION_WORDS):
        kind = ConfigError
    return kind(message, where=where)


def emit(
    name: str,
    operands: Sequence[Any],
    attributes: dict[str, str] | None = None,
    results: Sequence[str] | None = None,
    regions: Sequence[int] = (),
) -> list[Tensor]:
    """Creates an op at the user's line and returns its results.

    Args:
        name: the op, such as "jpmhc.rms_norm".
        operands: one entry an operand of the op's definition: a tensor or parameter, None where an
            optional one is absent, a list for a variadic one.
        attributes: MLIR text by name.
        results: MLIR types of the results; None lets the op infer them.
        regions: handles of finished regions.
    """
    trace = current_trace()
    groups = [_group(trace, operand) for operand in operands]
    values = trace.call(
        trace.graph.op,
        name,
        groups,
        attributes or {},
        None if results is None else list(results),
        list(regions),
        user_location(),
    )
    return [Tensor(value, trace.frame) for value in values]


def _group(trace: Trace, operand: Any) -> list[_core.Value]:
    if operand is None:
        return []
    items = operand if isinstance(operand, (list, tuple)) else [operand]
    return [as_tensor(item).value for item in items]


def as_tensor(value: Any, dtype: str | None = None) -> Tensor:
    """`value` as a value of the function under construction.

    Args:
        value: a tensor, parameter, array or number.
        dtype: element type for a number (f32 for a float, i64 for an integer by default).

    Raises:
        DTypeError: the value is none of these.
    """
    if isinstance(value, Operators):
        return value.to_tensor()
    if isinstance(value, (bool, np.bool_)):
        return full((), value, dtype or "i1")
    if isinstance(value, (int, np.integer)):
        return full((), value, dtype or "i64")
    if isinstance(value, float):
        return full((), value, dtype or "f32")
    if isinstance(value, (np.ndarray, np.generic)):
        return constant(np.asarray(value), dtype or dtype_name(value.dtype))
    raise DTypeError(
        "operand",
        expected="a tensor, parameter, array or number",
        given=type(value).__name__,
        where=here(),
    )


def require_ids(ids: Tensor, high: int | None, allowed: int | None = None, *, low: int = 0) -> None:
    """Has the values of `ids` checked before each run, where they come from an argument.

    Values that the program computes cannot be checked before: an id outside of its table then
    gives NaN.
    """
    frame = current_trace().frame
    position = frame.position(ids if ids.origin is None else ids.origin)
    if position is not None:
        frame.ranges.append(IdRange(position, high, allowed, low))


def hand_on_ranges(ranges: Sequence[IdRange], operands: Sequence[Tensor]) -> None:
    """The checks of a called function become checks of what the call passes."""
    for item in ranges:
        require_ids(operands[item.position], item.high, item.allowed, low=item.low)


def constant(array: np.ndarray, dtype: object | None = None) -> Tensor:
    """A constant tensor with the values of `array`.

    Raises:
        DTypeError: it is no array, or its values are no numbers of the element type.
    """
    trace = current_trace()
    if isinstance(array, (Operators, str, bytes, dict, set)) or array is None:
        raise DTypeError("constant", expected="an array", given=type(array).__name__, where=here())
    try:
        array = np.asarray(array)
    except (ValueError, TypeError) as error:
        raise DTypeError("constant", expected="an array", given=str(error), where=here()) from None
    name = dtype_name(array.dtype if dtype is None else dtype)
    if array.dtype.kind not in "biufV":
        raise DTypeError("constant", expected="real numbers", given=array.dtype, where=here())
    data = np.ascontiguousarray(array, dtype=NUMPY[name])
    shape = array.shape
    if data.size > 1:
        words = data.reshape(-1).view(np.uint8).reshape(data.size, -1)
        if (words == words[0]).all():
            data = data.reshape(-1)[:1]
    value = trace.call(
        trace.graph.constant, tensor_type(shape, name), data.tobytes(), loc=user_location()
    )
    return Tensor(value, trace.frame)


def full(shape: Sequence[int], value: float | int | bool, dtype: object = "f32") -> Tensor:
    """A constant tensor of one repeated value.

    Raises:
        DTypeError: the element type cannot hold the value.
    """
    trace = current_trace()
    name = dtype_name(dtype)
    data = number(value, name).tobytes()
    value = trace.call(trace.graph.constant, tensor_type(shape, name), data, loc=user_location())
    return Tensor(value, trace.frame)


@contextlib.contextmanager
def region(types: Sequence[str], terminator: str) -> Iterator[RegionBuilder]:
    """Builds a region in the body of the with statement; its handle is valid afterwards."""
    trace = current_trace()
    values = trace.call(trace.graph.begin_region, list(types), loc=user_location())
    builder = RegionBuilder([Tensor(value, trace.frame) for value in values])
    yield builder
    frame = trace.frame
    results = [frame.resolve(as_tensor(result)).value for result in builder.results]
    builder.handle = trace.call(trace.graph.end_region, terminator, results, loc=user_location())


@dataclass
class RegionBuilder:
    """The arguments of an open region, and what it is to yield."""

    arguments: list[Tensor]
    results: list[Tensor] = field(default_factory=list)
    handle: int = -1


__all__ = [
    "Frame",
    "Location",
    "Operators",
    "Spec",
    "Tensor",
    "Trace",
    "as_tensor",
    "constant",
    "current_trace",
    "emit",
    "full",
    "hand_on_ranges",
    "is_tracing",
    "region",
    "require_ids",
    "scalar_spec",
    "spec",
    "spec_of",
    "to_error",
]
