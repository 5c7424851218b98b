# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Custom ops of PyTorch that run compiled jpmhc functions on the tensors' own memory.

An `Operator` compiles one function for each combination of shapes, element types and attributes
that it meets, keeps it in the process, and finds it again in the compilation cache in the next one.
Numbers that vary from call to call (a width, a learning rate) are arguments of the function.
"""

from __future__ import annotations

import ctypes
import math
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jpmhc import _core, result_memory
from jpmhc._location import without_location
from jpmhc.compiler import Entry, Program, run_addresses
from jpmhc.errors import DTypeError, ShapeError
from jpmhc.tracing import Spec

LIBRARY = torch.library.Library("jpmhc", "DEF")
DTYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float64: "f64",
    torch.int32: "i32",
    torch.int64: "i64",
}
TORCH_DTYPES = {name: dtype for dtype, name in DTYPES.items()}
FLOATS = (torch.float32, torch.bfloat16, torch.float16)
IDS = (torch.int32, torch.int64)

_MAX_THREADS = 128
_SCALARS = {"f32": ctypes.c_float, "i64": ctypes.c_int64, "index": ctypes.c_int64}


class _Lock:
    """A lock that a forked process finds open."""

    def __init__(self) -> None:
        self._make()
        os.register_at_fork(after_in_child=self._make)

    def _make(self) -> None:
        self.lock = threading.RLock()


_compiling = _Lock()


def spec_of(tensor: torch.Tensor, what: str = "tensor") -> Spec:
    """The spec of a tensor.

    Raises:
        DTypeError: compiled functions do not take its element type.
    """
    if tensor.dtype not in DTYPES:
        raise DTypeError(what, expected=f"one of {', '.join(DTYPES.values())}", given=tensor.dtype)
    return Spec(tuple(int(size) for size in tensor.shape), DTYPES[tensor.dtype])


class Kernel:
    """A compiled function that runs on tensors of the shapes and types it was compiled for.

    Args:
        name: of the function, in traces.
        fn: works on traced values, one for each spec.
        specs: of the arguments.
        inplace: numbers of arguments that the function overwrites and returns.
    """

    __slots__ = ("_copies", "_executable", "_number", "_outputs", "entry")

    def __init__(
        self,
        name: str,
        fn: Callable[..., Any],
        specs: Sequence[Spec],
        inplace: Sequence[int] = (),
    ) -> None:
        program = Program()
        self.entry: Entry = program.add(name, fn, specs, inplace=inplace)
        program.compile()
        self._executable = program.executable
        self._number = program.number(self.entry)
        aliases = program.aliases(self.entry)
        self._outputs = [
            (spec.shape, TORCH_DTYPES[spec.dtype])
            for spec, alias in zip(self.entry.outputs, aliases, strict=True)
            if alias not in inplace
        ]
        # A result that is an argument unchanged has no buffer of its own: a copy is handed out.
        given = [alias for alias in aliases if alias not in inplace]
        self._copies = [(i, alias) for i, alias in enumerate(given) if alias >= 0]

    def __call__(
        self, tensors: Sequence[torch.Tensor], scalars: Sequence[ctypes._SimpleCData] = ()
    ) -> list[torch.Tensor]:
        """Runs on tensors, then scalars; copies those that are not contiguous."""
        tensors = [t if t.is_contiguous() else t.contiguous() for t in tensors]
        outputs = [_empty(shape, dtype) for shape, dtype in self._outputs]
        addresses = [t.data_ptr() for t in tensors]
        addresses += [ctypes.addressof(value) for value in scalars]
        if not self._copies:
            addresses += [t.data_ptr() for t in outputs]
        else:
            copied = dict(self._copies)
            for number, output in enumerate(outputs):
                if number in copied:
                    output.copy_(tensors[copied[number]])
                else:
                    addresses.append(output.data_ptr())
        match_threads()
        run_addresses(self._executable, self._number, addresses)
        return outputs


def _empty(shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of undefined values; a large one lies where an earlier result was."""
    size = math.prod(shape) * dtype.itemsize
    if size < result_memory.SMALLEST:
        return torch.empty(shape, dtype=dtype)
    memory = torch.from_numpy(result_memory.empty((size,), np.uint8)).untyped_storage()
    return torch.empty(0, dtype=dtype).set_(memory, 0, shape)


def match_threads() -> None:
    """Has compiled functions run on as many threads as PyTorch's own ops do now."""
    count = min(torch.get_num_threads(), _MAX_THREADS)
    if count != _core.get_num_threads():
        _core.set_num_threads(count)


def compile_once(cache: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """`cache[key]`, made where it is missing: by one thread, while the others wait."""
    with _compiling.lock:
        value = cache.get(key)
        if value is None:
            with without_location():
                value = cache[key] = make()
        return value


@dataclass(frozen=True)
class Result:
    """What an op gives: sizes and element type.

    `token` results hold zeros in one element that all indices share: they carry gradients from
    one op to another and cost no memory.
    """

    shape: tuple[Any, ...]
    dtype: torch.dtype
    token: bool = False


class Operator:
    """The custom op `jpmhc::name`.

    Args:
        schema: as `torch.library` takes it, without default values.
        infer: from the op's arguments to its results; checks them and raises typed errors. Sizes
            may be symbols.
        program: from the op's arguments, tensors and run-time numbers replaced by traced values,
            to the traced results (tokens left out).
        scalars: type of each run-time number by its position.
        unread: positions of tensors that `program` does not take.
        check: looks at the values of the arguments before each run.
    """

    def __init__(
        self,
        schema: str,
        infer: Callable[..., Sequence[Result]],
        program: Callable[..., Any],
        *,
        scalars: Mapping[int, str] | None = None,
        unread: Sequence[int] = (),
        check: Callable[..., None] | None = None,
    ) -> None:
        self.name = schema.split("(")[0]
        self._infer, self._program, self._check = infer, program, check
        self._kernels: dict[Any, Callable[[tuple], list[torch.Tensor]]] = {}
        LIBRARY.define(schema)
        self.op = getattr(torch.ops.jpmhc, self.name).default
        self._scalars = dict(scalars or {})
        kinds = [str(argument.type) for argument in self.op._schema.arguments]
        self._unread = set(unread)
        self._tensors = [
            i for i, kind in enumerate(kinds) if "Tensor" in kind and i not in self._unread
        ]
        dynamic = {*self._tensors, *self._scalars, *self._unread}
        self._static = [i for i in range(len(kinds)) if i not in dynamic]
        self._single = len(self.op._schema.returns) == 1
        LIBRARY.impl(self.name, self._run, "CPU")
        torch.library.register_fake(f"jpmhc::{self.name}", self._fake, lib=LIBRARY)

    def __call__(self, *args: Any) -> Any:
        return self.op(*args)

    def differentiate(self, backward: Callable, setup_context: Callable) -> None:
        """Registers the reverse-mode rule."""
        torch.library.register_autograd(
            f"jpmhc::{self.name}", backward, setup_context=setup_context, lib=LIBRARY
        )

    def in_float32_under_autocast(self) -> None:
        """Has autocast hand the op its tensors in float32."""
        torch.library.register_autocast(f"jpmhc::{self.name}", "cpu", torch.float32, lib=LIBRARY)

    def _fake(self, *args: Any) -> Any:
        like = args[self._tensors[0]]
        results = [
            like.new_empty_strided(r.shape, (0,) * len(r.shape), dtype=r.dtype)
            if r.token
            else like.new_empty(r.shape, dtype=r.dtype)
            for r in self._infer(*args)
        ]
        return results[0] if self._single else tuple(results)

    def _run(self, *args: Any) -> Any:
        if self._check is not None:
            self._check(*args)
        key = (
            *[None if (t := args[i]) is None else (t.shape, t.dtype) for i in self._tensors],
            *[args[i] for i in self._static],
        )
        kernel = self._kernels.get(key)
        if kernel is None:
            kernel = compile_once(self._kernels, key, lambda: self._compile(args))
        results = kernel(args)
        return results[0] if self._single else tuple(results)

    def _compile(self, args: tuple) -> Callable[[tuple], list[torch.Tensor]]:
        """What runs the op on arguments like these."""
        results = self._infer(*args)
        given = [i for i in self._tensors if args[i] is not None]
        if any(args[i].numel() == 0 for i in given):
            # Nothing to read: results are empty, or sums over nothing.
            return lambda args: [_zeros(result) for result in results]
        order = [*given, *self._scalars]
        specs = [spec_of(args[i]) for i in given]
        specs += [Spec((), dtype, scalar=True) for dtype in self._scalars.values()]

        def fn(*values: Any) -> Any:
            filled = list(args)
            for position, value in zip(order, values, strict=True):
                filled[position] = value
            return self._program(*(v for i, v in enumerate(filled) if i not in self._unread))

        kernel = Kernel(self.name, fn, specs)
        numbers = [(i, _SCALARS[dtype]) for i, dtype in self._scalars.items()]
        tokens = [(i, result) for i, result in enumerate(results) if result.token]

        def run(args: tuple) -> list[torch.Tensor]:
            outputs = kernel([args[i] for i in given], [make(args[i]) for i, make in numbers])
            for position, token in tokens:
                outputs.insert(position, _zeros(token))
            return outputs

        return run


def _zeros(result: Result) -> torch.Tensor:
    if not result.token:
        return torch.zeros(result.shape, dtype=result.dtype)
    one = torch.zeros(1, dtype=result.dtype)
    return one.as_strided_(result.shape, (0,) * len(result.shape))


# ---- checks that the ops share ----


def expect_rank(tensor: torch.Tensor, what: str, shape: str, rank: int) -> None:
    """Raises ShapeError unless a tensor has so many axes."""
    if tensor.dim() != rank:
        raise ShapeError(what, expected=shape, given=_sizes(tensor))


def expect_shape(tensor: torch.Tensor | None, what: str, shape: Sequence[Any]) -> None:
    """Raises ShapeError unless a tensor (if there is one) has these sizes."""
    if tensor is None:
        return
    if tensor.dim() != len(shape) or any(a != b for a, b in zip(tensor.shape, shape, strict=True)):
        raise ShapeError(what, expected=list(shape), given=_sizes(tensor))


def expect_dtype(
    tensor: torch.Tensor | None, what: str, allowed: Sequence[torch.dtype] = FLOATS
) -> None:
    """Raises DTypeError unless a tensor (if there is one) has one of these element types."""
    if tensor is not None and tensor.dtype not in allowed:
        names = " or ".join(str(dtype).removeprefix("torch.") for dtype in allowed)
        raise DTypeError(what, expected=names, given=str(tensor.dtype).removeprefix("torch."))


def product(sizes: Sequence[Any]) -> Any:
    """The product of sizes, which may be symbols."""
    return math.prod(sizes)


def _sizes(tensor: torch.Tensor) -> list[Any]:
    return list(tensor.shape)
