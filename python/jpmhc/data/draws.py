# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Choices drawn one after the other at one address of the random numbers of `philox`.

Two `Draws` of equal seed, stream and coordinates make the same choices for ever; what was drawn
at any other address does not matter. So an example of a corpus depends on its index alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from jpmhc.data import philox

__all__ = ["Draws"]

_FIRST_WORDS = 64

Item = TypeVar("Item")


class Draws:
    """A sequence of random choices.

    Args:
        seed, stream, coordinates: the address, as for `philox.words`.

    Raises:
        ConfigError: the seed or a coordinate is out of range.
    """

    def __init__(self, seed: int, stream: int, coordinates: tuple[int, ...]) -> None:
        self._address = (seed, stream, coordinates)
        self._words = philox.words(*self._address, _FIRST_WORDS).tolist()
        self._used = 0

    def word(self) -> int:
        """A number in [0, 2**64)."""
        if self._used == len(self._words):
            self._words = philox.words(*self._address, 2 * len(self._words)).tolist()
        self._used += 1
        return self._words[self._used - 1]

    def below(self, limit: int) -> int:
        """A number in [0, limit) for 1 <= limit < 2**64; the bias is at most limit / 2**64."""
        return (self.word() * limit) >> 64

    def choice(self, items: Sequence[Item]) -> Item:
        """One of the items, which are at least one."""
        return items[self.below(len(items))]

    def shuffled(self, items: Sequence[Item]) -> list[Item]:
        """The items in a random order (Fisher and Yates)."""
        items = list(items)
        for last in range(len(items) - 1, 0, -1):
            other = self.below(last + 1)
            items[last], items[other] = items[other], items[last]
        return items

    def sample(self, size: int, count: int) -> list[int]:
        """`count` <= `size` different numbers of [0, size), in a random order.

        The first k of them are the same for any `count` >= k.
        """
        # The first steps of a shuffle of 0..size-1, of which only what has moved is stored.
        moved: dict[int, int] = {}
        chosen = []
        for first in range(count):
            other = first + self.below(size - first)
            chosen.append(moved.get(other, other))
            moved[other] = moved.get(first, first)
        return chosen
