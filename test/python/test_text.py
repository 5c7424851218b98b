# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.text."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpmhc.data import text
from jpmhc.errors import ConfigError, DataError, DTypeError, RangeError

ALICE = Path(__file__).parent.parent / "data" / "alice.txt"


@given(st.text())
def test_decode_inverts_encode(string):
    tokens = text.encode(string)
    assert tokens.dtype == np.int32
    assert text.decode(tokens) == string


@given(st.binary())
def test_every_byte_is_its_own_token(data):
    assert text.encode(data).tolist() == list(data)


def test_half_a_character_is_shown_as_unknown():
    assert text.decode(text.encode("é")[:1]) == "\ufffd"


@pytest.mark.parametrize("token", [-1, 256])
def test_decoding_rejects_what_is_no_byte(token):
    with pytest.raises(RangeError, match=rf"expected 0\.\.255, got {token}"):
        text.decode(np.array([65, token]))


def test_targets_follow_tokens_in_the_text():
    dataset = text.TextDataset.from_file(ALICE, length=32, seed=1)
    content = ALICE.read_bytes()
    tokens, targets = dataset.batch(0, 16)
    for array in (tokens, targets):
        assert array.shape == (16, 32)
        assert array.dtype == np.int32 and array.flags.c_contiguous
    for row in range(16):
        window = bytes(tokens[row].tolist() + targets[row, -1:].tolist())
        assert window in content
        assert targets[row].tolist() == list(window[1:])


def test_windows_are_a_function_of_seed_step_and_row():
    def tokens(seed, step, rows):
        return text.TextDataset.from_file(ALICE, length=8, seed=seed).batch(step, rows)[0]

    base = tokens(1, 5, 6)
    np.testing.assert_array_equal(base, tokens(1, 5, 6))
    np.testing.assert_array_equal(base[:4], tokens(1, 5, 4))
    assert (base != tokens(1, 6, 6)).any()
    assert (base != tokens(2, 5, 6)).any()


def test_every_window_can_be_drawn():
    data = np.arange(7, dtype=np.uint8)
    dataset = text.TextDataset(data, length=4)  # three windows
    starts = {int(tokens[0]) for step in range(20) for tokens in dataset.batch(step, 4)[0]}
    assert starts == {0, 1, 2}


def test_the_shortest_text_has_one_window():
    dataset = text.TextDataset(np.array([7, 8, 9], np.uint8), length=2)
    tokens, targets = dataset.batch(3, 2)
    assert tokens.tolist() == [[7, 8]] * 2 and targets.tolist() == [[8, 9]] * 2


def test_a_text_too_short_is_named(tmp_path):
    (tmp_path / "short").write_bytes(b"abc")
    with pytest.raises(DataError, match="short: text too short: expected at least 4 .*got 3"):
        text.TextDataset.from_file(tmp_path / "short", length=3)
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match="got 0"):
        text.TextDataset.from_file(tmp_path / "empty", length=1)


def test_a_text_too_long_is_an_error():
    endless = np.broadcast_to(np.uint8(0), (2**32 + 2,))  # takes one byte of memory
    with pytest.raises(DataError, match="too long"):
        text.TextDataset(endless, length=1)


def test_a_missing_text_is_named(tmp_path):
    with pytest.raises(DataError, match="none.txt: cannot read the text: got No such file"):
        text.TextDataset.from_file(tmp_path / "none.txt", length=3)
    with pytest.raises(DataError, match="cannot read"):
        text.TextDataset.from_file(tmp_path, length=3)


def test_bad_arguments_are_typed_errors():
    data = np.zeros(9, np.uint8)
    with pytest.raises(ConfigError, match=r"length: expected 1\.\.16777216, got 0"):
        text.TextDataset(data, length=0)
    with pytest.raises(DTypeError, match="expected uint8, got int32"):
        text.TextDataset(data.astype(np.int32), length=2)
    with pytest.raises(ConfigError, match="batch_size"):
        text.TextDataset(data, length=2).batch(0, 0)
    with pytest.raises(ConfigError, match="coordinate"):
        text.TextDataset(data, length=2).batch(-1, 1)
