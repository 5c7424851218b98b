# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A moving average of a model's parameters, which often judges better than the last ones."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np

from jpmhc.errors import ConfigError
from jpmhc.nn.module import Module

__all__ = ["MovingAverage"]


class MovingAverage:
    """Exponential moving average of the dense parameters of a model.

    ``a ← a + (1 - d) (p - a)`` with ``d = min(decay, (1 + s) / (10 + s))`` after step s, counted
    from 1: the average follows fast at first. Tables of sparse rows are not averaged.

    Args:
        model: initialised; the average begins at its parameters.
        decay: 0 ≤ decay < 1.

    Raises:
        ConfigError: the decay is out of range, or the model has no values.
    """

    def __init__(self, model: Module, decay: float = 0.999) -> None:
        if not 0 <= decay < 1:
            raise ConfigError("decay of MovingAverage", expected="0 <= decay < 1", given=decay)
        self.decay = decay
        buffers = model.buffers.items()
        self._parameters = {group: buffer for group, buffer in buffers if group != "sparse"}
        self.arrays = {group: buffer.copy() for group, buffer in self._parameters.items()}

    def update(self, step: int) -> None:
        """Takes in the parameters after `step` steps."""
        rate = np.float32(1 - min(self.decay, (1 + step) / (10 + step)))
        for group, average in self.arrays.items():
            average += rate * (self._parameters[group] - average)

    @contextlib.contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the model has the average as its parameters."""
        kept = {group: buffer.copy() for group, buffer in self._parameters.items()}
        try:
            for group, buffer in self._parameters.items():
                buffer[...] = self.arrays[group]
            yield
        finally:
            for group, buffer in self._parameters.items():
                buffer[...] = kept[group]
