# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts of a given number of tokens."""

from __future__ import annotations

import math
from collections.abc import Callable

from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import DataError

__all__ = ["largest_that_fits", "suffix_of_length"]

_BESIDE = 400  # characters after the joint that a tokenizer may look at
_NEARBY = 24  # characters around the place where the count should be right
_LEAST_RATE = 1e-3  # tokens a piece
_PROBES = 16  # guesses before the rest is halved
_CANDIDATES = 8
_ROUNDS = 3


def largest_that_fits(
    count: Callable[[int], int], limit: int, *, low: int, high: int, where: str
) -> int:
    """The largest number n of pieces, low <= n <= high, of which the text stays in the limit.

    Args:
        count: tokens of the text of n pieces; it should not fall as n grows. Where it does a
            little (a tokenizer may join pieces), the result still fits, and n + 1 does not.
        limit: tokens allowed.
        low, high: the least and the most pieces possible.
        where: the text, for errors.

    Raises:
        DataError: not even `low` pieces fit; it says how many tokens they need.
    """
    least = count(low)
    if least > limit:
        expected = f"at least {least} tokens"
        raise DataError("length too short", expected=expected, given=limit, where=where)
    good, bad = low, high + 1
    place, tokens = low, least
    probes = 0
    while bad - good > 1:
        # Texts grow evenly, so that from the last one tried it can be told where the limit is.
        rate = max((tokens - least) / max(place - low, 1), _LEAST_RATE)
        ahead = max(abs(limit - tokens) / rate, 1)
        probes += 1
        if probes > _PROBES or ahead > bad - good:
            place = (good + bad) // 2 if place > low or probes > _PROBES else low + 1
        else:
            place = place + math.ceil(ahead) * (1 if tokens <= limit else -1)
        place = min(max(place, good + 1), bad - 1)
        tokens = count(place)
        if tokens <= limit:
            good = place
        else:
            bad = place
    return good


def suffix_of_length(
    lead: str,
    text: str,
    length: int,
    tokenizer: Tokenizer,
    *,
    accept: Callable[[str], bool] = lambda end: True,
) -> str | None:
    """The end of `lead` with which the text after it has exactly `length` tokens.

    None if there is none, as where a tokenizer makes two tokens of the only character that is
    missing.

    Args:
        lead: long enough to be cut, or empty.
        text: what follows.
        length: tokens of both together.
        tokenizer: measures them.
        accept: tells which ends may be taken; the first word may be cut to another one.
    """

    def count(size: int, after: str) -> int:
        return tokenizer.encode(_end(lead, size) + after).size

    missing = length - count(0, text)
    beside = text[:_BESIDE]
    base = count(0, beside)
    for _ in range(_ROUNDS):
        # The tokens of the joint's neighbourhood tell nearly what the whole will have.
        differences = []
        for size in _sizes(lambda size: count(size, beside) - base, missing, len(lead)):
            if accept(_end(lead, size)):
                differences.append(length - count(size, text))
                if differences[-1] == 0:
                    return _end(lead, size)
        if not differences:
            return None
        missing += differences[0]
    return None


def _end(lead: str, size: int) -> str:
    return lead[len(lead) - size :]


def _sizes(count: Callable[[int], int], target: int, most: int) -> list[int]:
    """The few n in 0..most with count(n) nearest to the target, where count grows by and large."""
    low, high = 0, most
    while low < high:
        middle = (low + high) // 2
        if count(middle) < target:
            low = middle + 1
        else:
            high = middle
    nearby = range(max(low - _NEARBY, 0), min(low + _NEARBY, most) + 1)
    return sorted(nearby, key=lambda size: abs(count(size) - target))[:_CANDIDATES]
