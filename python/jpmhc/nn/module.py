# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters and modules.

A module is a plain object; its parameters are those found in its attributes, in order, through
nested modules, lists, tuples and dictionaries. `init` lays the parameters of a whole model out in
one buffer a group, each parameter a view of it, so that an optimiser sees one array.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from jpmhc import _location, memory
from jpmhc.dtypes import FLOATS, NUMPY, sizes
from jpmhc.errors import (
    ConfigError,
    DTypeError,
    OutOfMemoryError,
    ShapeError,
    is_known,
    unknown_name,
)
from jpmhc.nn import initializers
from jpmhc.nn.initializers import Initializer
from jpmhc.tracing import Operators, Spec, Tensor, current_trace

GROUPS = ("decay", "no_decay", "sparse")
"""Weight-decayed matrices; gains, biases and the like; tables whose rows are updated sparsely."""

ALIGNMENT = 64
"""Each parameter starts at a multiple of this many bytes in its buffer."""


class Parameter(Operators):
    """A trainable f32 tensor.

    Args:
        shape: sizes.
        init: draws the first values.
        group: one of `GROUPS`; matrices decay by default, everything else does not.
    """

    def __init__(
        self, shape: tuple[int, ...], init: Initializer, *, group: str | None = None
    ) -> None:
        self.shape = sizes(shape, "shape of a parameter")
        if not callable(init):
            raise ConfigError(
                "initializer",
                expected="a function of (generator, shape)",
                given=type(init).__name__,
                where=_location.here(),
            )
        self.init = init
        default = "decay" if len(self.shape) >= 2 else "no_decay"
        self.group = default if group is None else group
        if not is_known(self.group, GROUPS):
            raise unknown_name("parameter group", self.group, GROUPS, where=_location.here())
        self.name: str | None = None
        self._array: np.ndarray | None = None

    @property
    def spec(self) -> Spec:
        """Shape and type as an argument of a traced function."""
        return Spec(self.shape, "f32", name=self.name)

    def to_tensor(self) -> Tensor:
        """The argument that brings the parameter into the function under construction."""
        return current_trace().frame.capture(self, self.spec.type)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def dtype(self) -> str:
        """The element type."""
        return "f32"

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def array(self) -> np.ndarray:
        """The values: a view of the model's buffer, never a copy.

        Raises:
            ConfigError: the model has not been initialised.
        """
        if self._array is None:
            raise ConfigError(
                f"parameter {self.name or self.shape} has no values yet",
                expected="a call of init(seed) on the model",
            )
        return self._array

    @array.setter
    def array(self, values: np.ndarray) -> None:
        self.array[...] = _fitting(np.asarray(values), self.shape, self.name or "unnamed")

    @property
    def is_initialized(self) -> bool:
        """Whether the parameter has values."""
        return self._array is not None

    def bind(self, view: np.ndarray) -> None:
        """Makes `view` the place of the values."""
        self._array = view

    def __repr__(self) -> str:
        return f"Parameter({self.name or 'unnamed'}, shape={self.shape}, group={self.group!r})"


class Module:
    """Base of everything with parameters. Subclasses define `forward`."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes, on traced tensors."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Dotted names and parameters, each parameter once, under the first of its names."""
        yield from _walk(self, "", set())

    def parameters(self) -> list[Parameter]:
        """The parameters in order."""
        return [parameter for _, parameter in self.named_parameters()]

    @property
    def num_parameters(self) -> int:
        """The number of trainable numbers."""
        return sum(parameter.size for parameter in self.parameters())

    def init(self, seed: int = 0) -> Module:
        """Draws all parameters; equal seeds give equal models, whatever else they contain.

        Args:
            seed: an integer ≥ 0. Each parameter's draws depend on it and on the name alone.

        Returns:
            the module itself.
        """
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise ConfigError("seed", expected="an integer ≥ 0", given=seed)
        named = list(self.named_parameters())
        try:
            drawn = [
                _fitting(p.init(initializers.generator(int(seed), name), p.shape), p.shape, name)
                for name, p in named
            ]
        except MemoryError:
            raise OutOfMemoryError(
                "memory for parameters",
                expected=f"{4 * self.num_parameters} bytes",
                given=f"{memory.available_bytes()} bytes available",
                where=_location.here(),
            ) from None
        self._layout(named)
        for (_, parameter), values in zip(named, drawn, strict=True):
            parameter.array[...] = values
        return self

    def _layout(self, named: list[tuple[str, Parameter]]) -> None:
        self._buffers: dict[str, np.ndarray] = {}
        for group in GROUPS:
            members = [(name, p) for name, p in named if p.group == group]
            if members:
                self._buffers[group] = allocate(members)

    @property
    def buffers(self) -> dict[str, np.ndarray]:
        """The one-dimensional f32 buffer of each group that has parameters.

        Raises:
            ConfigError: the model has not been initialised.
        """
        buffers = getattr(self, "_buffers", None)
        if buffers is None:
            raise ConfigError("the model has no values yet", expected="a call of init(seed)")
        return buffers

    def state_dict(self) -> dict[str, np.ndarray]:
        """The parameters by name, as views."""
        return {name: parameter.array for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Fills the parameters from arrays, after all of them have been checked.

        Raises:
            ConfigError: a name is missing or unknown.
            ShapeError, DTypeError: an array does not fit; nothing has been changed.
        """
        if not isinstance(state, Mapping):
            raise ConfigError(
                "state",
                expected="a dictionary of arrays",
                given=type(state).__name__,
                where=_location.here(),
            )
        own = dict(self.named_parameters())
        for name in state:
            if name not in own:
                raise unknown_name("parameter", name, own)
        for name, parameter in own.items():
            if name not in state:
                raise ConfigError("missing parameter", expected=name)
            _fitting(state[name], parameter.shape, name)
        for name, parameter in own.items():
            parameter.array[...] = state[name]


def _fitting(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Values of a parameter as an array.

    Raises:
        ShapeError, DTypeError: they do not fit.
    """
    where = f"parameter {name}"
    if not isinstance(values, (np.ndarray, np.generic)):
        raise DTypeError(
            "values", expected="an array of floats", given=type(values).__name__, where=where
        )
    if values.dtype not in [NUMPY[kind] for kind in FLOATS]:
        raise DTypeError("values", expected="float32", given=values.dtype, where=where)
    if values.shape != shape:
        raise ShapeError("values", expected=shape, given=values.shape, where=where)
    return np.asarray(values)


def offsets(parameters: list[Parameter]) -> tuple[list[int], int]:
    """Where each parameter starts in a shared buffer, and the buffer's length, in elements."""
    step = ALIGNMENT // 4
    starts, position = [], 0
    for parameter in parameters:
        starts.append(position)
        position += -(-parameter.size // step) * step
    return starts, position


def aligned_zeros(count: int) -> np.ndarray:
    """A zeroed f32 array of `count` elements that starts at a multiple of `ALIGNMENT` bytes."""
    raw = memory.zeros((count * 4 + ALIGNMENT,), np.dtype(np.uint8), "parameters")
    start = -raw.ctypes.data % ALIGNMENT
    return raw[start : start + count * 4].view(np.float32)


def views(buffer: np.ndarray, parameters: list[Parameter]) -> list[np.ndarray]:
    """The piece of a shared buffer that belongs to each parameter, in its shape."""
    starts, _ = offsets(parameters)
    return [
        buffer[start : start + p.size].reshape(p.shape)
        for start, p in zip(starts, parameters, strict=True)
    ]


def allocate(members: list[tuple[str, Parameter]]) -> np.ndarray:
    """One buffer for these parameters, each bound to its view and named."""
    parameters = [parameter for _, parameter in members]
    buffer = aligned_zeros(offsets(parameters)[1])
    for (name, parameter), view in zip(members, views(buffer, parameters), strict=True):
        parameter.name = name
        parameter.bind(view)
    return buffer


def _walk(node: Any, path: str, seen: set[int]) -> Iterator[tuple[str, Parameter]]:
    if isinstance(node, Parameter):
        if id(node) not in seen:
            seen.add(id(node))
            yield path, node
        return
    if not isinstance(node, (Module, dict, list, tuple)) or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, Module):
        children: Any = vars(node).items()
    elif isinstance(node, dict):
        children = node.items()
    else:
        children = enumerate(node)
    for key, child in children:
        if not str(key).startswith("_"):
            yield from _walk(child, f"{path}.{key}" if path else str(key), seen)
