# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers that depend on named coordinates only, never on what was drawn before.

A data set that is resumed in the middle of an epoch, or read by several workers, must see the
numbers an uninterrupted reader would see. Each draw is therefore addressed by a seed, a stream
(what the numbers are for) and coordinates such as an epoch and an index. Only raw 64-bit words
of Philox4x64 are used, because NumPy promises these, and not the methods of
`numpy.random.Generator`, to stay the same from version to version.
"""

from __future__ import annotations

import numpy as np

from jpmhc.data.checks import whole
from jpmhc.errors import ConfigError

_WORD = 2**64


def words(seed: int, stream: int, coordinates: tuple[int, ...], count: int) -> np.ndarray:
    """`count` random uint64 words, shape [count], at up to three coordinates of a stream.

    Args:
        seed: 0 <= seed < 2**64.
        stream: what the numbers are for; words of different streams are independent.
        coordinates: up to three integers in [0, 2**64).
        count: how many words.

    Raises:
        ConfigError: the seed or a coordinate is no whole number, or out of range.
    """
    seed = _checked("seed", seed)
    coordinates = tuple(_checked("coordinate", value) for value in coordinates)
    # The lowest word of the counter runs while numbers are drawn; the others are the address.
    counter = [0, *coordinates, *[0] * (3 - len(coordinates))]
    key = np.array([seed, stream], dtype=np.uint64)
    generator = np.random.Philox(key=key, counter=np.array(counter, dtype=np.uint64))
    return np.asarray(generator.random_raw(count), dtype=np.uint64).reshape(count)


def _checked(name: str, value: int) -> int:
    value = whole(name, value)
    if not 0 <= value < _WORD:
        raise ConfigError(f"{name} out of range", expected="0 <= value < 2**64", given=value)
    return value


def check_seed(seed: int) -> int:
    """The seed, for those who draw later.

    Raises:
        ConfigError: it is no whole number of [0, 2**64).
    """
    return _checked("seed", seed)


def below(random: np.ndarray, limit: int) -> np.ndarray:
    """Map uint64 words to int64 numbers in [0, limit) for 1 <= limit <= 2**32.

    Lemire's multiply-shift on the upper half of each word; the bias is at most limit / 2**32.
    """
    upper = random >> np.uint64(32)
    return ((upper * np.uint64(limit)) >> np.uint64(32)).astype(np.int64)


def permutation(seed: int, stream: int, coordinates: tuple[int, ...], size: int) -> np.ndarray:
    """A random permutation of 0..size-1 as int64, shape [size]: the order of random words."""
    return np.argsort(words(seed, stream, coordinates, size), kind="stable")


def scattered(seed: int, stream: int, *coordinates: np.ndarray) -> np.ndarray:
    """A random uint64 word for each place of arrays of coordinates, which are broadcast.

    For many draws, each at its own coordinates: a Philox generator for each would be slow, so
    that the seed, the stream and the coordinates go one after the other through the finaliser of
    SplitMix64, which maps uint64 one to one.

    Args:
        seed, stream: as for `words`.
        coordinates: arrays of integers in [0, 2**64).
    """
    state = np.zeros((), dtype=np.uint64)
    for part in (seed, stream, *coordinates):
        state = _mixed(state ^ np.asarray(part, dtype=np.uint64))
    return state


def _mixed(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):  # modulo 2**64 is meant
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
