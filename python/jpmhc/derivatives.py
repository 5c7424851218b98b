# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reverse-mode differentiation of traced functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jpmhc import _text, _tree
from jpmhc._location import here
from jpmhc.compiler import Compiled
from jpmhc.dtypes import is_float
from jpmhc.elementwise import astype
from jpmhc.errors import ConfigError, DTypeError, ShapeError, shown
from jpmhc.functions import flatten_results, is_value
from jpmhc.nn.module import Parameter
from jpmhc.nn.sparse import SparseRows
from jpmhc.tracing import (
    Tensor,
    as_tensor,
    current_trace,
    emit,
    full,
    hand_on_ranges,
    is_tracing,
    spec_of,
)


def _pull(
    fn: Callable[..., Any],
    args: Sequence[Any],
    wrt: Sequence[int] | None,
    cotangents: Callable[[list[Tensor]], list[Tensor]],
) -> tuple[Any, Any]:
    """Calls `fn` differentiated; returns its result and the gradients.

    Args:
        wrt: argument numbers; None for the parameters that the function uses.
        cotangents: from the (abstract) results to one cotangent each, for the first ones.
    """
    trace = current_trace()
    leaves, structure = _tree.flatten(tuple(args), is_value)
    operands = [as_tensor(leaf) for leaf in leaves]
    stem = getattr(fn, "__name__", type(fn).__name__)
    with trace.function(stem, [o.type for o in operands], private=True) as frame:
        frame.operands = operands
        result = fn(*_tree.unflatten(structure, list(frame.arguments)))
        results, result_structure = flatten_results(result)
        trace.finish(results)
    captured = frame.captured
    positions, rebuild = _selection(wrt, args, operands, captured)
    seeds = cotangents(results)
    inputs = [*operands, *(as_tensor(source) for source in captured)]
    hand_on_ranges(frame.ranges, inputs)
    types = [r.type for r in results] + [inputs[i].type for i in positions]
    attributes = {"callee": f"@{frame.name}", "wrt": _text.i64_array(positions)}
    out = emit("jpmhc.vjp", [inputs, seeds], attributes, types)
    value = _tree.unflatten(result_structure, out[: len(results)])
    return value, rebuild(out[len(results) :])


def _selection(
    wrt: Sequence[int] | None, args: Sequence[Any], operands: list[Tensor], captured: list[Any]
) -> tuple[list[int], Callable[[list[Tensor]], Any]]:
    """Positions to differentiate by, and how their gradients are handed back."""
    if wrt is None:
        sources = [
            (len(operands) + i, source)
            for i, source in enumerate(captured)
            if isinstance(source, SparseRows)
            or (isinstance(source, Parameter) and source.group != "sparse")
        ]
        keys = [source for _, source in sources]
        return [i for i, _ in sources], lambda gradients: dict(zip(keys, gradients, strict=True))
    positions: list[int] = []
    structures = []
    start = 0
    for number, arg in enumerate(args):
        count = len(_tree.flatten(arg, is_value)[0])
        if number in wrt:
            chosen = [i for i in range(start, start + count) if is_float(operands[i].dtype)]
            if not chosen:
                raise DTypeError(
                    f"gradient of argument {number}",
                    expected="floating-point tensors",
                    given="none",
                    where=here(),
                )
            positions += chosen
            structures.append(_mask(arg, operands[start : start + count]))
        start += count
    if any(not 0 <= number < len(args) for number in wrt):
        expected = f"argument numbers 0 … {len(args) - 1}" if args else "a call with arguments"
        raise ShapeError("wrt", expected=expected, given=tuple(wrt), where=here())

    def rebuild(gradients: list[Tensor]) -> Any:
        whole = _tree.unflatten(structures, gradients)
        return whole[0] if len(wrt) == 1 else tuple(whole)

    return positions, rebuild


def _mask(arg: Any, operands: list[Tensor]) -> Any:
    """The structure of an argument with leaves only where a gradient exists, None elsewhere."""
    _, structure = _tree.flatten(arg, is_value)
    marks = [_tree.LEAF if is_float(operand.dtype) else None for operand in operands]
    return _tree.unflatten(structure, marks)


def _check_wrt(wrt: Any) -> None:
    """That argument numbers are different integers ≥ 0."""
    numbers = [] if wrt is None else list(wrt) if isinstance(wrt, (tuple, list)) else [wrt]
    fits = all(isinstance(i, int) and not isinstance(i, bool) and i >= 0 for i in numbers)
    if not fits or len(set(numbers)) != len(numbers):
        raise ConfigError(
            "wrt", expected="different argument numbers from 0", given=shown(wrt), where=here()
        )


def _is_array(item: Any) -> bool:
    return isinstance(item, (np.ndarray, np.generic))


def _check_plain(structure: Any) -> None:
    """That what was given besides arrays is part of the program, and no value like one."""
    others, _ = _tree.flatten(structure, lambda item: not isinstance(item, (dict, tuple, list)))
    for item in others:
        if item is not _tree.LEAF and item is not None and not isinstance(item, (str, bool, int)):
            raise DTypeError(
                "argument of a differentiated function",
                expected="arrays, in containers",
                given=type(item).__name__,
                where=here(),
            )


class _Transform:
    """A differentiated function: traced where it is called in a trace, else compiled and run."""

    def __init__(self, fn: Callable[..., Any], wrt: int | Sequence[int] | None) -> None:
        if not callable(fn):
            given = type(fn).__name__
            raise ConfigError(
                "function to differentiate", expected="a function", given=given, where=here()
            )
        _check_wrt(wrt)
        self._fn = fn
        self._wrt = (wrt,) if isinstance(wrt, int) else None if wrt is None else tuple(wrt)
        self._compiled: dict[Any, Compiled] = {}
        self.__name__ = f"{getattr(fn, '__name__', type(fn).__name__)}_grad"

    def _emit(self, *args: Any) -> Any:
        raise NotImplementedError

    def __call__(self, *args: Any) -> Any:
        if is_tracing():
            return self._emit(*args)
        leaves, structure = _tree.flatten(args, _is_array)
        _check_plain(structure)
        key = (tuple(spec_of(leaf) for leaf in leaves), repr(structure))
        if key not in self._compiled:
            self._compiled[key] = Compiled(self, args, "cpu")
        return self._compiled[key](*args)


class _ValueAndGrad(_Transform):
    def _emit(self, *args: Any) -> Any:
        return _pull(self._fn, args, self._wrt, _one_for_scalar)


def _one_for_scalar(results: list[Tensor]) -> list[Tensor]:
    fits = results and results[0].shape == () and not results[0].is_scalar
    if not fits or not is_float(results[0].dtype):
        raise ShapeError(
            "first result of a function under value_and_grad",
            expected="a float tensor []",
            given=results[0].type if results else "nothing",
            where=here(),
        )
    return [full((), 1.0, results[0].dtype)]


def value_and_grad(
    fn: Callable[..., Any], wrt: int | Sequence[int] | None = None
) -> Callable[..., tuple[Any, Any]]:
    """The function that returns what `fn` does, and the gradient of its first result.

    Args:
        fn: returns a loss [] (or a tuple or dict whose first leaf it is).
        wrt: argument numbers; None for the parameters that the function uses, whose gradients come
            as a dict by parameter.

    Returns:
        ``(value, gradient)``; the gradient of one argument has its structure (None for integers),
        of several, a tuple.
    """
    return _ValueAndGrad(fn, wrt)


def pull_all(
    fn: Callable[..., Any], args: Sequence[Tensor], seeds: Sequence[Tensor]
) -> list[Tensor]:
    """The gradients of all floating-point arguments, while tracing.

    Args:
        fn: gives floating-point tensors.
        args: traced values.
        seeds: a cotangent for each result.
    """
    wrt = [i for i, value in enumerate(args) if is_float(value.dtype)]
    gradients = _pull(fn, args, wrt, lambda results: list(seeds))[1]
    return [gradients] if len(wrt) == 1 else list(gradients)


class _Vjp(_Transform):
    def _emit(self, *arguments: Any) -> Any:
        if not arguments:
            raise ShapeError(
                "arguments of a pullback",
                expected="a cotangent, then the arguments of the function",
                given="none",
                where=here(),
            )
        cotangent, *args = arguments
        seeds = [as_tensor(leaf) for leaf in _tree.flatten(cotangent, is_value)[0]]

        def check(results: list[Tensor]) -> list[Tensor]:
            want, got = [r.shape for r in results[: len(seeds)]], [s.shape for s in seeds]
            if want != got:
                raise ShapeError("cotangents", expected=want, given=got, where=here())
            return [astype(s, r.dtype) for s, r in zip(seeds, results, strict=False)]

        return _pull(self._fn, args, self._wrt, check)


def vjp(fn: Callable[..., Any], wrt: int | Sequence[int] | None = None) -> Callable[..., Any]:
    """``pullback(cotangent, *args) -> (value, gradient)`` of a function with any results.

    Args:
        fn: any traced function; cotangents are those of its first results, and take their
            element types.
        wrt: as for `value_and_grad`; numbers count the arguments of `fn`.
    """
    return _Vjp(fn, wrt)


__all__ = ["value_and_grad", "vjp"]
