# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Corpora of tokenizers that count in strange ways end, and never have a wrong length."""

from __future__ import annotations

import re
import time

import numpy as np
import pytest
from corpora_fixtures import ALICE

from jpmhc.data import instructions, packing
from jpmhc.data.filler import Filler
from jpmhc.data.needle import NeedleCorpus, check
from jpmhc.data.ruler import TASKS, RulerTask
from jpmhc.errors import DataError
from jpmhc.eval import multiple_choice

FILLER = Filler.from_file(ALICE)


class Strange:
    """A tokenizer of which only the number of tokens matters."""

    fingerprint, vocabulary_size, end = "0" * 64, 2, None

    def __init__(self, name, count):
        self.name, self._count = name, count

    def encode(self, string):
        return np.zeros(self._count(string), np.int32)

    def decode(self, tokens):
        return ""


def merged(text: str) -> int:
    """Pairs of letters are one token where they stand at an odd place of the text: what comes
    before changes all that comes after."""
    return len(re.findall(r"\w\w|.", text, re.DOTALL))


STRANGE = [
    Strange("none", lambda text: 0),
    Strange("one", lambda text: 1),
    Strange("one for any", lambda text: int(bool(text))),
    Strange("words", lambda text: len(text.split())),
    Strange("capitals", lambda text: sum(map(str.isupper, text))),
    Strange("letters", len),
    Strange("twice", lambda text: 2 * len(text)),
    Strange("fifty each", lambda text: 50 * len(text)),
    Strange("pairs", merged),
    Strange("falls", lambda text: max(3000 - len(text), 0)),
    Strange("goes up and down", lambda text: len(text) + 40 * (len(text) % 7)),
    Strange("whole lines", lambda text: text.count("\n")),
    Strange("normalises", lambda text: len(" ".join(text.lower().split()))),
]
BY_NAME = {tokenizer.name: tokenizer for tokenizer in STRANGE}


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("length", [1, 200, 1500])
def test_needles(name, length):
    began = time.monotonic()
    for kind in ("bridged", "no_bridge"):
        try:
            corpus = NeedleCorpus(FILLER, BY_NAME[name], length=length, hops=1, kind=kind)
            instance = corpus.instance(3)
        except DataError as error:
            assert re.search("length too short|makes no text of this many tokens", str(error))
        else:
            assert len(instance.tokens) == length
            check(instance)
    assert time.monotonic() - began < 20  # a fraction of a second where nothing else runs


@pytest.mark.parametrize("name", BY_NAME)
@pytest.mark.parametrize("task", [t for t in TASKS if not t.startswith("qa")])
def test_ruler(name, task):
    began = time.monotonic()
    tokenizer = BY_NAME[name]
    for length in (1, 300, 3000):
        made = RulerTask(task, tokenizer, length=length, haystack=FILLER)
        try:
            instance = made.instance(2)
        except DataError as error:
            assert "length too short" in str(error)
        else:
            tokens = tokenizer.encode(instance.input + instance.answer_prefix).size
            assert instance.length == tokens + made.tokens_to_generate <= length
    assert time.monotonic() - began < 30


@pytest.mark.parametrize("name", BY_NAME)
def test_packing_and_scores(name, tmp_path):
    tokenizer = BY_NAME[name]
    tokens, _ = packing.encode_text("Alice was here.", tokenizer)
    if tokens.size:
        made = packing.Documents.from_arrays([tokens] * 3)
        packing.PackedDataset(made, length=1, mode="whole")
    before, after = multiple_choice.encode_pair(tokenizer, "Alice was", " here.")
    assert before.size + after.size == tokenizer.encode("Alice was here.").size
    example = instructions.Example("Say", "so")
    try:
        found, answer = instructions.encode_example(example, tokenizer, length=4)
    except DataError as error:
        assert "prompt too long" in str(error)
    else:
        assert found.size <= 4 and 0 <= answer <= found.size
