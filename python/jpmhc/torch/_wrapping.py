# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiled jpmhc functions as differentiable functions of PyTorch tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jpmhc import arguments
from jpmhc.derivatives import pull_all
from jpmhc.dtypes import is_float
from jpmhc.errors import CompileError, ConfigError, DTypeError
from jpmhc.functions import flatten_results
from jpmhc.nn.module import Module, Parameter
from jpmhc.torch._engine import (
    FLOATS,
    LIBRARY,
    TORCH_DTYPES,
    Kernel,
    compile_once,
    spec_of,
)
from jpmhc.tracing import IdRange, Spec, Tensor, Trace

_functions: weakref.WeakValueDictionary[int, Wrapped] = weakref.WeakValueDictionary()


class Wrapped(torch.nn.Module):
    """A jpmhc function or module that takes and gives PyTorch tensors; see `wrap`."""

    _next = 0

    def __init__(self, fn: Callable[..., Any], module: Module | None) -> None:
        super().__init__()
        self._fn, self._module = fn, module
        self._register()
        named = [] if module is None else list(module.named_parameters())
        self._order = [parameter for _, parameter in named]
        for name, parameter in named:
            _adopt(self, name, torch.nn.Parameter(torch.from_numpy(parameter.array)))
        self._names = [name for name, _ in named]

    def _register(self) -> None:
        self._number = Wrapped._next
        Wrapped._next += 1
        self._kernels: dict[Any, Any] = {}
        _functions[self._number] = self

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        for name in ("_kernels", "_number"):
            del state[name]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self._register()

    def forward(self, *args: torch.Tensor) -> Any:
        """The function's result: a tensor, or a tuple of several.

        Raises:
            DTypeError: an argument is no tensor of a served element type.
        """
        for position, value in enumerate(args):
            if not isinstance(value, torch.Tensor):
                raise DTypeError(
                    f"argument {position} of a wrapped function",
                    expected="a tensor",
                    given=type(value).__name__,
                    hint="close over anything else, as functools.partial does",
                )
        parameters = [self.get_parameter(name) for name in self._names]
        results = torch.ops.jpmhc.call([*args, *parameters], len(args), self._number)
        return results[0] if len(results) == 1 else tuple(results)

    # ---- compiling ----

    def trace(self, specs: Sequence[Spec]) -> list[Spec]:
        """The specs of the results for specs of the arguments and parameters."""

        def make() -> list[Spec]:
            trace = Trace()
            with trace.function("wrapped", [spec.type for spec in specs]) as frame:
                results = self._results(frame.arguments)
                trace.finish(results)
            return [Spec(r.shape, r.dtype) for r in results]

        return compile_once(self._kernels, ("trace", *specs), make)

    def forward_kernel(self, specs: Sequence[Spec]) -> Kernel:
        """The compiled function of arguments and parameters."""
        return compile_once(
            self._kernels,
            ("forward", *specs),
            lambda: Kernel("wrapped", lambda *values: self._results(values), specs),
        )

    def backward_kernel(self, specs: Sequence[Spec], seeds: Sequence[Spec]) -> Kernel:
        """The compiled gradients of all float arguments and parameters for all float results."""

        def gradients(*values: Tensor) -> list[Tensor]:
            count = len(specs)
            return pull_all(self._float_results, values[:count], values[count:])

        return compile_once(
            self._kernels,
            ("backward", *specs),
            lambda: Kernel("wrapped_vjp", gradients, [*specs, *seeds]),
        )

    def _results(self, values: Sequence[Tensor]) -> list[Tensor]:
        """Calls the function with the last values in place of the parameters."""
        count = len(values) - len(self._order)
        frame = values[0].frame if values else None
        for parameter, value in zip(self._order, values[count:], strict=True):
            frame.captures[id(parameter)] = (parameter, value)
        results = flatten_results(self._fn(*values[:count]))[0]
        for parameter in self._order:
            del frame.captures[id(parameter)]
        if frame is not None and any(isinstance(c, Parameter) for c in frame.captured):
            raise CompileError(
                "a wrapped function uses parameters",
                expected="those of a module that it was wrapped with",
                hint="wrap(fn, module)",
            )
        return results

    def _float_results(self, *values: Tensor) -> list[Tensor]:
        return [result for result in self._results(values) if is_float(result.dtype)]


def _adopt(owner: torch.nn.Module, name: str, parameter: torch.nn.Parameter) -> None:
    """Registers a parameter under a dotted name, in modules that hold nothing else."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in owner._modules:
            owner.add_module(part, torch.nn.Module())
        owner = owner._modules[part]
    owner.register_parameter(leaf, parameter)


def _wrapped(number: int) -> Wrapped:
    function = _functions.get(number)
    if function is None:
        raise ConfigError("wrapped function", expected="one that still exists", given=number)
    return function


LIBRARY.define("call(Tensor[] inputs, int arguments, int function) -> Tensor[]")
LIBRARY.define(
    "call_vjp(Tensor[] inputs, Tensor[] gradients, int arguments, int function) -> Tensor[]"
)


def _fake(inputs: list[torch.Tensor], count: int, function: int) -> list[torch.Tensor]:
    specs = _wrapped(function).trace([spec_of(value) for value in inputs])
    return [torch.empty(s.shape, dtype=TORCH_DTYPES[s.dtype]) for s in specs]


def _call(inputs: list[torch.Tensor], count: int, function: int) -> list[torch.Tensor]:
    kernel = _wrapped(function).forward_kernel([spec_of(value) for value in inputs])
    for item in dict.fromkeys(kernel.entry.ranges):
        _check_ids(inputs[item.position], item)
    return kernel(inputs)


def _check_ids(value: torch.Tensor, item: IdRange) -> None:
    arguments.check_range(value.detach().numpy(), item.high, item.allowed, f"{item.position}")


def _fake_vjp(
    inputs: list[torch.Tensor], gradients: list[torch.Tensor], count: int, function: int
) -> list[torch.Tensor]:
    return [value.new_empty(value.shape) for value in inputs if value.dtype in FLOATS]


def _call_vjp(
    inputs: list[torch.Tensor], gradients: list[torch.Tensor], count: int, function: int
) -> list[torch.Tensor]:
    wrapped = _wrapped(function)
    specs = [spec_of(value) for value in inputs]
    seeds = [spec_of(value) for value in gradients]
    return wrapped.backward_kernel(specs, seeds)([*inputs, *gradients])


LIBRARY.impl("call", _call, "CPU")
LIBRARY.impl("call_vjp", _call_vjp, "CPU")
torch.library.register_fake("jpmhc::call", _fake, lib=LIBRARY)
torch.library.register_fake("jpmhc::call_vjp", _fake_vjp, lib=LIBRARY)


def _setup(ctx: Any, inputs: tuple, output: list[torch.Tensor]) -> None:
    values, ctx.count, ctx.function = inputs
    ctx.owner = _wrapped(ctx.function)  # keeps it until the gradients have been computed
    ctx.save_for_backward(*values)
    ctx.floats = [value.dtype in FLOATS for value in output]


def _backward(ctx: Any, gradients: list[torch.Tensor]) -> tuple:
    values = ctx.saved_tensors
    seeds = [g for g, is_float in zip(gradients, ctx.floats, strict=True) if is_float]
    results = iter(torch.ops.jpmhc.call_vjp(list(values), seeds, ctx.count, ctx.function))
    return [next(results) if v.dtype in FLOATS else None for v in values], None, None


torch.library.register_autograd("jpmhc::call", _backward, setup_context=_setup, lib=LIBRARY)


def wrap(fn: Callable[..., Any], module: Module | None = None) -> Wrapped:
    """A jpmhc function or module as a module of PyTorch.

    It is compiled for the shapes and types it is called with, and so are its gradients. They run
    the function again, with nothing kept of the forward pass but its arguments.

    Args:
        fn: works on traced tensors; one argument a tensor. Results are a tensor or any containers
            of them, handed out as a tensor or a flat tuple.
        module: where `fn` uses parameters of a `jpmhc.nn.Module`, that module (by default `fn`
            itself where it is one). Its values must be there (`init`); the parameters of what is
            returned have its names and its memory.

    Raises:
        ConfigError: `fn` is no function, or the module has no values yet.
    """
    if not callable(fn):
        raise ConfigError("wrap", expected="a function", given=type(fn).__name__)
    if module is None and isinstance(fn, Module):
        module = fn
    return Wrapped(fn, module)
