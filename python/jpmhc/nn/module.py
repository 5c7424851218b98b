# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters and modules.

A module is a plain object; its parameters are those found in its attributes, in order, through
nested modules, lists, tuples and dictionaries. `init` lays the parameters of a whole model out in
one buffer a group, each parameter a view of it, so that an optimiser sees one array.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jpmhc import _location
from jpmhc.errors import ConfigError, DTypeError, ShapeError, unknown_name
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
        self.shape = tuple(int(size) for size in shape)
        if any(size < 0 for size in self.shape):
            raise ShapeError(
                "parameter", expected="sizes ≥ 0", given=self.shape, where=_location.here()
            )
        self.init = init
        self.group = group or ("decay" if len(self.shape) >= 2 else "no_decay")
        if self.group not in GROUPS:
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
        values = np.asarray(values)
        if values.shape != self.shape:
            raise ShapeError(
                f"values of parameter {self.name}", expected=self.shape, given=values.shape
            )
        self.array[...] = values

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
        self._layout(named)
        for name, parameter in named:
            rng = initializers.generator(int(seed), name)
            parameter.array[...] = parameter.init(rng, parameter.shape)
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
        own = dict(self.named_parameters())
        for name in state:
            if name not in own:
                raise unknown_name("parameter", name, own)
        for name, parameter in own.items():
            if name not in state:
                raise ConfigError("missing parameter", expected=name)
            array = np.asarray(state[name])
            if array.shape != parameter.shape:
                raise ShapeError(f"parameter {name}", expected=parameter.shape, given=array.shape)
            if array.dtype.kind not in "fV":
                raise DTypeError(f"parameter {name}", expected="float32", given=array.dtype)
        for name, parameter in own.items():
            parameter.array[...] = state[name]


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
    raw = np.zeros(count * 4 + ALIGNMENT, np.uint8)
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
    if isinstance(node, Module):
        if id(node) in seen:
            return
        seen.add(id(node))
        children: Any = vars(node).items()
    elif isinstance(node, dict):
        children = node.items()
    elif isinstance(node, (list, tuple)):
        children = enumerate(node)
    else:
        return
    for key, child in children:
        if not str(key).startswith("_"):
            yield from _walk(child, f"{path}.{key}" if path else str(key), seen)
