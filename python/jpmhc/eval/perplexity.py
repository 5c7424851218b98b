# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Perplexity of a text that is longer than what a model sees at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from jpmhc.data.checks import whole
from jpmhc.errors import DataError
from jpmhc.eval.models import LanguageModel, loglikelihood

__all__ = ["Perplexity", "perplexity", "windows"]


@dataclass(frozen=True)
class Perplexity:
    """How well a model predicts a text.

    Attributes:
        loglikelihood: the sum of natural logarithms of the probabilities of tokens.
        tokens: how many tokens that is of.
    """

    loglikelihood: float
    tokens: int

    @property
    def per_token(self) -> float:
        """exp of the mean negative log-likelihood of a token: the usual perplexity."""
        return math.exp(-self.loglikelihood / self.tokens)

    def bits_per_byte(self, size: int) -> float:
        """Bits for each of the `size` bytes of the text, comparable between tokenizers.

        Raises:
            ConfigError: `size` is not positive.
        """
        size = whole("size", size, 1)
        return -self.loglikelihood / math.log(2) / size


def windows(count: int, length: int, stride: int) -> Iterator[tuple[int, int, int]]:
    """Windows (begin, end, first) over `count` tokens: the window's tokens from `first` on count.

    The first window counts all but the text's first token; each later one begins `stride` tokens
    further and counts those that no earlier window has, with length - stride tokens or more
    before them. Together they count every token but the first once.

    Raises:
        ConfigError: not 1 <= stride < length.
    """
    stride = whole("stride", stride, 1, whole("length", length, 2) - 1)
    begin, first = 0, 1
    while first < count:
        end = min(begin + length, count)
        yield begin, end, first
        begin, first = begin + stride, end


def perplexity(
    model: LanguageModel,
    tokens: np.ndarray,
    *,
    length: int,
    stride: int | None = None,
    prefix: int | None = None,
) -> Perplexity:
    """The perplexity of a text.

    Args:
        model: sees `length` tokens at once.
        tokens: integers [n].
        length: tokens of a window.
        stride: tokens from one window to the next; the smaller, the more each token sees. By
            default half a window.
        prefix: a token put before the text, such as that of its beginning; with it the text's
            first token counts too.

    Raises:
        ConfigError: not 1 <= stride < length.
        DataError: no token to be predicted, or a bad answer of the model.
        ShapeError: a bad answer of the model.
    """
    tokens = np.asarray(tokens, dtype=np.int32).reshape(-1)
    if prefix is not None:
        first = whole("prefix", prefix, 0, 2**31 - 1)
        tokens = np.concatenate([np.array([first], dtype=np.int32), tokens])
    if tokens.size < 2:
        raise DataError("text too short", expected="a token to predict", given=tokens.size)
    stride = whole("length", length, 2) // 2 if stride is None else stride
    sums = [
        math.fsum(loglikelihood(model, tokens[begin:end])[first - begin - 1 :])
        for begin, end, first in windows(tokens.size, length, stride)
    ]
    return Perplexity(math.fsum(sums), tokens.size - 1)
