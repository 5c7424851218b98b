# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the scores of `jpmhc.eval` ask of a language model.

A model is any object with `loglikelihood(tokens) -> array`; those that also have
`generate(tokens, count) -> array` can be scored by what they continue a prompt with.
`LogitsModel` makes both of a function from tokens to logits, such as a compiled program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from jpmhc.data.checks import whole
from jpmhc.errors import ConfigError, DataError, RangeError, ShapeError

__all__ = ["GeneratingModel", "LanguageModel", "LogitsModel", "generated", "loglikelihood"]


class LanguageModel(Protocol):
    """A model that tells how likely a text is."""

    def loglikelihood(self, tokens: np.ndarray) -> np.ndarray:
        """Natural logarithms of the probabilities of tokens given all before them.

        Args:
            tokens: int32 [n], n >= 1.

        Returns:
            Floating point [n - 1]: entry i is log p(tokens[i + 1] | tokens[0..i]).
        """


class GeneratingModel(LanguageModel, Protocol):
    """A model that can also continue a text."""

    def generate(self, tokens: np.ndarray, count: int) -> np.ndarray:
        """The greedy continuation: `count` tokens, or fewer where the model ends the text.

        Args:
            tokens: int32 [n], n >= 1.
            count: at least 1.

        Returns:
            Integers [at most count].
        """


def loglikelihood(model: LanguageModel, tokens: np.ndarray) -> np.ndarray:
    """What a model answers, as float64 [n - 1], checked.

    Raises:
        ShapeError: the model's answer has another shape.
        DataError: it has a number that is no logarithm of a probability.
    """
    tokens = np.ascontiguousarray(tokens, dtype=np.int32)
    answer = np.asarray(model.loglikelihood(tokens), dtype=np.float64)
    if answer.shape != (tokens.size - 1,):
        message = "bad answer of loglikelihood"
        raise ShapeError(message, expected=[tokens.size - 1], given=list(answer.shape))
    # Sums in float32 may come out a little above zero.
    wrong = ~(answer <= 1e-3)
    if wrong.any():
        where = f"token {int(np.argmax(wrong)) + 1}"
        expected = "at most 0"
        raise DataError(
            "bad answer of loglikelihood", expected=expected, given=answer[wrong][0], where=where
        )
    return answer


def generated(model: GeneratingModel, tokens: np.ndarray, count: int) -> np.ndarray:
    """The greedy continuation of a text, int32 [at most count], checked.

    Raises:
        ConfigError: the model cannot generate.
        ShapeError: its answer is no row of at most `count` tokens.
    """
    if not hasattr(model, "generate"):
        hint = "this score needs generate(tokens, count)"
        raise ConfigError("the model cannot generate", given=type(model).__name__, hint=hint)
    answer = np.asarray(model.generate(np.ascontiguousarray(tokens, dtype=np.int32), count))
    if answer.ndim != 1 or answer.size > count:
        expected = f"[at most {count}]"
        raise ShapeError("bad answer of generate", expected=expected, given=list(answer.shape))
    return answer.astype(np.int32)


class LogitsModel:
    """A model made of a causal function from tokens to logits.

    Args:
        forward: takes int32 [1, length] and gives floating point [1, length, vocabulary]; the
            logits at a place must not depend on tokens behind it.
        length: of the rows `forward` takes; shorter texts are filled up behind. None: any.
        end: the token that ends a text, or None.
    """

    def __init__(
        self,
        forward: Callable[[np.ndarray], np.ndarray],
        *,
        length: int | None = None,
        end: int | None = None,
    ) -> None:
        self._forward, self._end = forward, end
        self._length = None if length is None else whole("length", length, 1)

    def loglikelihood(self, tokens: Sequence[int] | np.ndarray) -> np.ndarray:
        """As `LanguageModel.loglikelihood`.

        Raises:
            ConfigError: more tokens than the length.
            RangeError: a token that `forward` has no logit for.
            ShapeError: `forward` gives another shape.
        """
        tokens = np.asarray(tokens, dtype=np.int32)
        logits = self._logits(tokens)[:-1]
        wrong = (tokens < 0) | (tokens >= logits.shape[-1])
        if wrong.any():
            expected = f"0..{logits.shape[-1] - 1}"
            raise RangeError("no such token", expected=expected, given=tokens[wrong][0])
        peak = logits.max(axis=-1, keepdims=True)
        total = np.log(np.exp(logits - peak).sum(axis=-1)) + peak[:, 0]
        return logits[np.arange(len(logits)), tokens[1:]] - total

    def generate(self, tokens: Sequence[int] | np.ndarray, count: int) -> np.ndarray:
        """As `GeneratingModel.generate`; of equal logits the first is taken.

        The whole text is computed anew for each token.

        Raises:
            ConfigError: more tokens than the length.
            ShapeError: `forward` gives another shape.
        """
        text = list(tokens)
        for _ in range(count):
            text.append(int(np.argmax(self._logits(np.asarray(text, dtype=np.int32))[-1])))
            if text[-1] == self._end:
                break
        return np.asarray(text[len(tokens) :], dtype=np.int32)

    def _logits(self, tokens: np.ndarray) -> np.ndarray:
        length = self._length or tokens.size
        if not 1 <= tokens.size <= length:
            raise ConfigError("bad text", expected=f"1..{length} tokens", given=tokens.size)
        row = np.zeros((1, length), dtype=np.int32)
        row[0, : tokens.size] = tokens
        logits = np.asarray(self._forward(row), dtype=np.float64)
        if logits.ndim != 3 or logits.shape[:2] != (1, length):
            expected = f"[1, {length}, vocabulary]"
            raise ShapeError("bad logits", expected=expected, given=list(logits.shape))
        return logits[0, : tokens.size]
