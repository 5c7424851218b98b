# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.tokenizers, jpmhc.data.draws and jpmhc.data.filler."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from corpora_fixtures import ALICE, KINDS, huggingface_file, sentencepiece_file, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import tokenizers
from jpmhc.data.draws import Draws
from jpmhc.data.filler import Filler, split_sentences, words_of
from jpmhc.errors import ConfigError, DataError, MissingDependencyError, RangeError

# What a byte-level tokenizer must return as it was; SentencePiece normalises Unicode and blanks.
ANY_TEXT = st.text(st.characters(exclude_categories=["Cs"]))
LETTERS = st.text("abcdefghijkzABCZ019,.", min_size=1, max_size=8)
PLAIN_TEXT = st.lists(LETTERS, min_size=1, max_size=12).map(" ".join)


@pytest.mark.parametrize("kind", ["byte", "huggingface"])
@settings(max_examples=50, deadline=None)
@given(text=ANY_TEXT)
def test_decoding_inverts_encoding_of_any_text(kind, text):
    tokens = tokenizer(kind).encode(text)
    assert tokens.dtype == np.int32 and tokens.ndim == 1
    assert tokenizer(kind).decode(tokens) == text


@settings(max_examples=50, deadline=None)
@given(text=PLAIN_TEXT)
def test_decoding_inverts_encoding_of_plain_text_with_sentencepiece(text):
    tokens = tokenizer("sentencepiece").encode(text)
    assert tokens.dtype == np.int32
    assert tokenizer("sentencepiece").decode(tokens) == text


@pytest.mark.parametrize("kind", KINDS)
def test_every_token_is_in_the_vocabulary(kind):
    made = tokenizer(kind)
    tokens = made.encode(ALICE.read_text())
    assert 0 <= tokens.min() and tokens.max() < made.vocabulary_size
    assert made.end is not None and made.end < made.vocabulary_size
    assert len(made.fingerprint) == 64


def test_the_end_token_has_no_text():
    for kind in ("byte", "huggingface"):
        made = tokenizer(kind)
        assert made.decode([*made.encode("Alice"), made.end]) == "Alice"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("token", [-1, 100_000])
def test_no_token_outside_the_vocabulary_is_decoded(kind, token):
    with pytest.raises(RangeError, match=f"got {token}"):
        tokenizer(kind).decode([token])


def test_the_end_token_can_be_named():
    made = tokenizers.HuggingFaceTokenizer(huggingface_file(), end="<|endoftext|>")
    assert made.end == tokenizer("huggingface").end
    with pytest.raises(ConfigError, match="unknown end token: got '<none>'"):
        tokenizers.HuggingFaceTokenizer(huggingface_file(), end="<none>")


@pytest.mark.parametrize("name", ["no.model", "no.json"])
def test_missing_and_broken_files_are_named(tmp_path, name):
    with pytest.raises(DataError, match=f"{name}: cannot read the tokenizer: got No such file"):
        tokenizers.load(tmp_path / name)
    (tmp_path / name).write_text("not a tokenizer")
    with pytest.raises(DataError, match=f"{name}: no (SentencePiece model|tokenizer)"):
        tokenizers.load(tmp_path / name)


def test_unknown_kinds_are_rejected():
    with pytest.raises(ConfigError, match=r"expected byte, .* got 'bytes'"):
        tokenizers.load("bytes")


@pytest.mark.parametrize(
    ("package", "file"), [("sentencepiece", sentencepiece_file), ("tokenizers", huggingface_file)]
)
def test_a_missing_package_names_the_extra(monkeypatch, package, file):
    path = file()
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingDependencyError, match=rf"{package} \(pip install 'jpmhc\[text\]'\)"):
        tokenizers.load(path)


@settings(deadline=None)
@given(seed=st.integers(0, 2**64 - 1), size=st.integers(1, 300), data=st.data())
def test_samples_are_different_and_begin_alike(seed, size, data):
    count = data.draw(st.integers(0, size))
    chosen = Draws(seed, 1, (2,)).sample(size, count)
    assert len(set(chosen)) == count and all(0 <= k < size for k in chosen)
    assert Draws(seed, 1, (2,)).sample(size, size)[:count] == chosen
    assert sorted(Draws(seed, 1, (2,)).shuffled(range(size))) == list(range(size))


def test_draws_are_as_likely_as_they_should_be():
    draws = Draws(0, 1, (2,))
    counts = np.bincount([draws.below(5) for _ in range(20_000)], minlength=5)
    # Five standard deviations of a binomial count: sqrt(20000 * 0.2 * 0.8) = 56.6.
    assert np.abs(counts - 4000).max() < 5 * 56.6
    first = np.bincount([Draws(k, 1, (2,)).sample(5, 2)[1] for k in range(5_000)], minlength=5)
    assert np.abs(first - 1000).max() < 5 * 28.3


def test_sentences_join_to_the_text():
    text = ALICE.read_text()
    assert " ".join(split_sentences(text)) == " ".join(text.split())
    assert split_sentences('He said "Stop!" Then (slowly) he went. And') == [
        'He said "Stop!"',
        "Then (slowly) he went.",
        "And",
    ]
    long = split_sentences("word " * 500)
    assert " ".join(long).split() == ["word"] * 500 and max(map(len, long)) <= 600
    assert words_of("Alice's cat, don't!") == ["alice", "cat", "don't"]


def test_fillers_say_what_is_wrong_with_them(tmp_path):
    for name, content, message in (
        ("bad.txt", b"caf\xe9", r"bad\.txt: byte 3: not UTF-8"),
        ("bad.json", b"{}", r"bad\.json: bad field 'text': expected a text, got nothing"),
        ("list.json", b"[1]", r"list\.json: bad record"),
        ("empty.txt", b" \n", r"empty\.txt: filler has no words"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(DataError, match=message):
            Filler.from_file(tmp_path / name)
    with pytest.raises(DataError, match=r"none\.txt: cannot read the filler"):
        Filler.from_file(tmp_path / "none.txt")
    (tmp_path / "good.json").write_text('{"text": "One. Two."}')
    assert Filler.from_file(tmp_path / "good.json").sentences == ("One.", "Two.")


def test_texts_that_a_vocabulary_has_nothing_for(tmp_path):
    from tokenizers import Tokenizer, models, pre_tokenizers

    model = Tokenizer(models.WordLevel({"Alice": 0}, unk_token="[UNK]"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    model.save(str(tmp_path / "words.json"))
    made = tokenizers.load(tmp_path / "words.json")
    assert made.encode("Alice").tolist() == [0]
    with pytest.raises(DataError, match=r"words\.json: cannot be encoded: got .*UNK"):
        made.encode("the White Rabbit")
