# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that stay functions in the compiled program.

A network that applies one block many times (weight tying) should compile and differentiate that
block once. `@jpmhc.function` keeps the block a private function and leaves a call at each use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc import _tree
from jpmhc._location import here
from jpmhc.errors import CompileError, ConfigError, DTypeError
from jpmhc.tracing import (
    Captured,
    IdRange,
    Operators,
    Tensor,
    Trace,
    as_tensor,
    current_trace,
    emit,
    hand_on_ranges,
)


@dataclass
class _Record:
    """A traced function: what its calls need."""

    name: str
    captured: list[Captured]
    structure: Any
    types: list[str]
    ranges: list[IdRange]
    owner: Any  # keeps the identity in the key alive


_IN_PROGRESS = object()


def is_value(item: Any) -> bool:
    """Whether an argument is a run-time value (and not part of the program)."""
    return isinstance(item, (Operators, np.ndarray))


class function:  # noqa: N801 - a decorator, spelt as Python spells `property`
    """Decorates a function or method: traced once per module and argument types, called after.

    Keyed by the callable, the identity of the object it is bound to, the types of its tensor
    arguments and the values of all others. Parameters and outer values that the body uses become
    arguments of the function.
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        if not callable(fn):
            raise ConfigError(
                "jpmhc.function", expected="a function", given=type(fn).__name__, where=here()
            )
        self._fn = fn
        functools.update_wrapper(self, fn)

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., Any]:
        if instance is None:
            return self
        return functools.partial(self._call, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(None, *args, **kwargs)

    def _call(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        trace = current_trace()
        leaves, structure = _tree.flatten((args, kwargs), is_value)
        operands = [as_tensor(leaf) for leaf in leaves]
        types = [operand.type for operand in operands]
        key = (self._fn, id(instance), tuple(types), _freeze(structure))
        record = trace.functions.get(key)
        if record is _IN_PROGRESS:
            raise CompileError(
                f"jpmhc.function '{self._fn.__qualname__}' calls itself",
                expected="a function without recursion",
                where=here(),
            )
        if record is None or not _reachable(trace, record):
            trace.functions[key] = _IN_PROGRESS
            try:
                record = self._trace(trace, instance, types, structure)
            except BaseException:
                del trace.functions[key]
                raise
            trace.functions[key] = record
        operands += [as_tensor(source) for source in record.captured]
        hand_on_ranges(record.ranges, operands)
        results = emit("func.call", [operands], {"callee": f"@{record.name}"}, record.types)
        return _tree.unflatten(record.structure, results)

    def _trace(self, trace: Trace, instance: Any, types: list[str], structure: Any) -> _Record:
        stem = self._fn.__qualname__.replace(".<locals>", "")
        with trace.function(stem, types, private=True) as frame:
            args, kwargs = _tree.unflatten(structure, frame.arguments)
            fn = self._fn if instance is None else self._fn.__get__(instance)
            result = fn(*args, **kwargs)
            results, out_structure = flatten_results(result)
            trace.finish(results)
        types = [r.type for r in results]
        return _Record(frame.name, frame.captured, out_structure, types, frame.ranges, instance)


def flatten_results(result: Any) -> tuple[list[Tensor], Any]:
    """The tensors a traced function returns, as values of the function under construction.

    Raises:
        DTypeError: it returns something that is neither a tensor nor a container, text or None.
    """

    def is_leaf(item: Any) -> bool:
        if isinstance(item, (Operators, np.ndarray, np.generic, int, float)):
            return True
        if item is None or isinstance(item, (str, tuple, list, dict)):
            return False
        raise DTypeError(
            "result of a traced function",
            expected="tensors, numbers, text and None, in tuples, lists and dictionaries",
            given=type(item).__name__,
            where=here(),
        )

    leaves, structure = _tree.flatten(result, is_leaf)
    return [as_tensor(leaf) for leaf in leaves], structure


def _reachable(trace: Trace, record: _Record) -> bool:
    """Whether all that the function captured can be passed from where the call is."""
    return all(
        not isinstance(source, Tensor) or trace.frame.is_within(source.frame)
        for source in record.captured
    )


def _freeze(node: Any) -> Any:
    if isinstance(node, dict):
        return ("dict", *((key, _freeze(node[key])) for key in node))
    if isinstance(node, (tuple, list)):
        return (type(node).__name__, *(_freeze(item) for item in node))
    try:
        hash(node)
    except TypeError:
        raise ConfigError(
            "argument of a jpmhc.function",
            expected="tensors and hashable values",
            given=type(node).__name__,
            where=here(),
        ) from None
    return (type(node), node)
