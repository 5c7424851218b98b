# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How parameters start. Draws come from a counter-based generator keyed by (seed, name)."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable

import numpy as np

Initializer = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]

# Standard deviation of a standard normal variable truncated to [-2, 2]:
# sqrt(1 - 4 φ(2) / (2 Φ(2) - 1)).
TRUNCATED_STD = 0.8796256610342398


def generator(seed: int, name: str) -> np.random.Generator:
    """The generator of one parameter: Philox keyed by the seed and a hash of the name."""
    digest = hashlib.sha256(name.encode()).digest()
    key = np.array([seed & (2**64 - 1), int.from_bytes(digest[:8], "little")], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key))


def zeros(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All 0."""
    return np.zeros(shape, np.float32)


def ones(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """All 1."""
    return np.ones(shape, np.float32)


def constant(value: np.ndarray | float) -> Initializer:
    """Fixed values, broadcast to the shape."""
    return lambda rng, shape: np.broadcast_to(np.asarray(value, np.float32), shape)


def normal(std: float) -> Initializer:
    """Normal with mean 0."""
    return lambda rng, shape: (rng.standard_normal(shape) * std).astype(np.float32)


def truncated_normal(std: float) -> Initializer:
    """Normal cut off at two sigma and scaled back, so that the standard deviation is `std`."""

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        values = rng.standard_normal(shape)
        outside = np.abs(values) > 2
        while outside.any():
            values[outside] = rng.standard_normal(int(outside.sum()))
            outside = np.abs(values) > 2
        return (values * (std / TRUNCATED_STD)).astype(np.float32)

    return draw


def fan_in() -> Initializer:
    """Truncated normal of std 1/sqrt(last axis), for matrices [out, in]."""
    return lambda rng, shape: truncated_normal(1 / math.sqrt(max(shape[-1], 1)))(rng, shape)
