# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Any file as a text of bytes for a language model: 256 tokens, one a byte."""

from __future__ import annotations

import os

import numpy as np

from jpmhc.data import philox
from jpmhc.data.checks import MOST, whole
from jpmhc.data.reading import unreadable
from jpmhc.errors import DataError, DTypeError, RangeError

__all__ = ["VOCABULARY_SIZE", "TextDataset", "decode", "encode", "read_tokens"]

VOCABULARY_SIZE = 256

_STREAM_WINDOWS = 3
_MOST_WINDOWS = 2**32  # what philox.below can choose from


def encode(text: str | bytes) -> np.ndarray:
    """The bytes of a text (UTF-8 if it is a str) as tokens, int32 [length]."""
    data = text.encode() if isinstance(text, str) else text
    return np.frombuffer(data, dtype=np.uint8).astype(np.int32)


def decode(tokens: np.ndarray) -> str:
    """The text of tokens 0..255; what is no UTF-8, such as half a character, becomes U+FFFD.

    Raises:
        RangeError: a token that is no byte.
    """
    tokens = np.asarray(tokens)
    wrong = tokens[(tokens < 0) | (tokens >= VOCABULARY_SIZE)]
    if wrong.size:
        expected = f"0..{VOCABULARY_SIZE - 1}"
        raise RangeError("no byte", expected=expected, given=wrong.reshape(-1)[0])
    return tokens.astype(np.uint8).tobytes().decode(errors="replace")


def read_tokens(path: str | os.PathLike) -> np.ndarray:
    """The bytes of a file, uint8 [size].

    Raises:
        DataError: the file cannot be read.
    """
    try:
        return np.fromfile(path, dtype=np.uint8)
    except (OSError, ValueError) as error:
        raise unreadable(path, "the text", error) from error


class TextDataset:
    """Random windows of a text; window `row` of step s depends on the seed, s and `row` only.

    Args:
        data: uint8 [size] as of `read_tokens`, or a part of it, such as the first nine tenths.
        length: T, the tokens a model sees at once; a window has one more, to be predicted.
        seed: 0 <= seed < 2**64.
        where: what to call the text in errors, such as its path.

    Raises:
        DataError: the text has fewer than T + 1 bytes, or more than 2**32 windows.
        ConfigError: T is not positive.
        DTypeError: the data is not uint8.
    """

    def __init__(
        self, data: np.ndarray, *, length: int, seed: int = 0, where: object = None
    ) -> None:
        if data.dtype != np.uint8:
            raise DTypeError("bad text", expected="uint8", given=data.dtype, where=where)
        length, seed = whole("length", length, 1, MOST), philox.check_seed(seed)
        self._windows = data.size - length
        if self._windows < 1:
            expected = f"at least {length + 1} bytes"
            raise DataError("text too short", expected=expected, given=data.size, where=where)
        if self._windows > _MOST_WINDOWS:
            expected = f"at most {_MOST_WINDOWS + length} bytes"
            raise DataError("text too long", expected=expected, given=data.size, where=where)
        self.data = data
        self.length = length
        self.seed = seed

    @classmethod
    def from_file(cls, path: str | os.PathLike, *, length: int, seed: int = 0) -> TextDataset:
        """All of a file.

        Raises:
            DataError: as `read_tokens` and the constructor.
            ConfigError: as the constructor.
        """
        return cls(read_tokens(path), length=length, seed=seed, where=path)

    def batch(self, step: int, batch_size: int) -> tuple[np.ndarray, np.ndarray]:
        """Tokens and the tokens that follow each of them: int32 [B, T] both, contiguous.

        Raises:
            ConfigError: a negative step, or a batch size below 1.
        """
        batch_size = whole("batch_size", batch_size, 1, MOST)
        random = philox.words(self.seed, _STREAM_WINDOWS, (step,), batch_size)
        starts = philox.below(random, self._windows)
        windows = self.data[starts[:, None] + np.arange(self.length + 1)].astype(np.int32)
        return np.ascontiguousarray(windows[:, :-1]), np.ascontiguousarray(windows[:, 1:])
