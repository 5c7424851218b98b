# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jpmhc: a compiler for neural networks whose residual path is more than x + F(x).

    >>> import jpmhc, numpy as np
    >>> double = jpmhc.compile(lambda x: x + x, jpmhc.spec((2,)))
    >>> double(np.float32([1, 2]))
    array([2., 4.], dtype=float32)

Ordinary Python functions and `jpmhc.nn` modules are traced on abstract tensors; `compile` makes
machine code of them, `value_and_grad` differentiates them, and `TrainStep` makes one program of
forward, backward and optimiser. The compiler is loaded when one of these names is first used:
`jpmhc.data`, `jpmhc.checkpoint` and `jpmhc.errors` work without it.
"""

from __future__ import annotations

import importlib
from typing import Any

_HOMES = {
    "compiler": ("Compiled", "compile"),
    "derivatives": ("value_and_grad", "vjp"),
    "elementwise": (
        "abs",
        "arange",
        "clip",
        "cos",
        "erf",
        "exp",
        "log",
        "log2",
        "logical_and",
        "logical_not",
        "logical_or",
        "maximum",
        "minimum",
        "rsqrt",
        "sigmoid",
        "silu",
        "sin",
        "softplus",
        "sqrt",
        "tanh",
        "where",
    ),
    "functions": ("function",),
    "reductions": (
        "linear",
        "matmul",
        "softmax",
    ),
    "shapes": (
        "broadcast_to",
        "concatenate",
        "expand_dims",
        "split",
        "stack",
    ),
    "threads": ("get_num_threads", "set_num_threads"),
    "tracing": ("Spec", "Tensor", "constant", "full", "scalar_spec", "spec"),
    "train_step": ("TrainStep",),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}
_SUBMODULES = (
    "checkpoint",
    "data",
    "errors",
    "knobs",
    "manifolds",
    "nn",
    "ops",
    "optim",
    "spectra",
    "training",
)
_OPTIONAL = ("torch",)
"""Submodules that need an extra; `from jpmhc import *` leaves them alone."""

__all__ = sorted([*_WHERE, *_SUBMODULES])


def _load_core() -> Any:
    """The compiler; if it or a library that it needs is missing, the error says so."""
    try:
        core = importlib.import_module("jpmhc._core")
    except ImportError as error:
        from jpmhc import _libraries

        raise _libraries.explained(error) from error
    from jpmhc import knobs

    knobs.start()
    return core


def __getattr__(name: str) -> Any:
    if name == "_core":  # until it is loaded
        return _load_core()
    if name == "__version__":
        value = _load_core().version
    elif name in _WHERE:
        value = getattr(importlib.import_module(f"jpmhc.{_WHERE[name]}"), name)
    elif name in _SUBMODULES or name in _OPTIONAL:
        value = importlib.import_module(f"jpmhc.{name}")
    else:
        raise AttributeError(f"module 'jpmhc' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
