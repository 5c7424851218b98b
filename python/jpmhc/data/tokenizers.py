# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tokenizers of three kinds behind one interface: bytes, SentencePiece and Hugging Face files.

Every corpus of `jpmhc.data` takes any object with the attributes of `Tokenizer`.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from jpmhc._libraries import missing
from jpmhc.data import text
from jpmhc.data.reading import read_bytes
from jpmhc.errors import ConfigError, DataError, RangeError, shown

__all__ = [
    "ByteTokenizer",
    "HuggingFaceTokenizer",
    "SentencePieceTokenizer",
    "Tokenizer",
    "load",
]

# How published tokenizers call the token that ends a document, the commonest first.
_END_NAMES = (
    "<|endoftext|>",
    "<|end_of_text|>",
    "</s>",
    "<|eot_id|>",
    "<eos>",
    "<|im_end|>",
    "[SEP]",
)


class Tokenizer(Protocol):
    """What turns text into tokens and back.

    Attributes:
        name: what to call it in manifests, such as "byte" or the name of its file.
        fingerprint: SHA-256 of what defines it, in hexadecimal.
        vocabulary_size: tokens are 0 <= token < vocabulary_size.
        end: the token that ends a document, or None.
    """

    name: str
    fingerprint: str
    vocabulary_size: int
    end: int | None

    def encode(self, string: str) -> np.ndarray:
        """The tokens of a text, int32 [length], without any that begins or ends a text."""

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of tokens; the end token has none."""


class ByteTokenizer:
    """The bytes 0..255 of UTF-8 as tokens, and 256 that ends a document."""

    name = "byte"
    fingerprint = hashlib.sha256(b"jpmhc byte tokenizer").hexdigest()
    vocabulary_size = text.VOCABULARY_SIZE + 1
    end: int | None = text.VOCABULARY_SIZE

    def encode(self, string: str) -> np.ndarray:
        """The bytes of a text, int32 [length]."""
        return text.encode(string)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of tokens; half a character becomes U+FFFD.

        Raises:
            RangeError: a token that is neither a byte nor the end token.
        """
        tokens = np.asarray(tokens, dtype=np.int64)
        return text.decode(tokens[tokens != self.end])


class SentencePieceTokenizer:
    """A SentencePiece model file (`.model`).

    Raises:
        MissingDependencyError: sentencepiece is not installed.
        DataError: the file cannot be read or is no model.
    """

    def __init__(self, path: str | os.PathLike) -> None:
        try:
            import sentencepiece
        except ImportError as error:
            raise missing("sentencepiece", "this tokenizer") from error
        content = read_bytes(path, "the tokenizer")
        self._model = sentencepiece.SentencePieceProcessor()
        try:
            self._model.LoadFromSerializedProto(content)
        except RuntimeError as error:
            raise DataError("no SentencePiece model", given=error, where=path) from error
        self.name = Path(path).name
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.vocabulary_size = int(self._model.GetPieceSize())
        end = int(self._model.eos_id())
        self.end = end if end >= 0 else None

    def encode(self, string: str) -> np.ndarray:
        """The pieces of a text, int32 [length]."""
        return np.array(self._model.EncodeAsIds(string), dtype=np.int32)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of pieces.

        Raises:
            RangeError: a token outside the vocabulary.
        """
        return self._model.DecodeIds(_checked(tokens, self.vocabulary_size))


class HuggingFaceTokenizer:
    """A `tokenizer.json` of the Hugging Face library `tokenizers`.

    Args:
        path: the file.
        end: the text of the token that ends a document; by default the first of the usual
            names that the vocabulary has.

    Raises:
        MissingDependencyError: tokenizers is not installed.
        DataError: the file cannot be read or is no tokenizer.
        ConfigError: the vocabulary has no token `end`.
    """

    def __init__(self, path: str | os.PathLike, *, end: str | None = None) -> None:
        try:
            import tokenizers
        except ImportError as error:
            raise missing("tokenizers", "this tokenizer") from error
        content = read_bytes(path, "the tokenizer")
        try:
            self._model = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # the library raises plain Exception
            raise DataError("no tokenizer", given=error, where=path) from error
        self._model.no_padding()  # what a file may switch on would change lengths
        self._model.no_truncation()
        self.name = Path(path).name
        self.fingerprint = hashlib.sha256(content).hexdigest()
        self.vocabulary_size = int(self._model.get_vocab_size())
        names = _END_NAMES if end is None else (end,)
        ids = (self._model.token_to_id(name) for name in names)
        self.end = next((token for token in ids if token is not None), None)
        if end is not None and self.end is None:
            raise ConfigError("unknown end token", given=shown(end), where=path)

    def encode(self, string: str) -> np.ndarray:
        """The tokens of a text, int32 [length].

        Raises:
            DataError: the vocabulary has nothing for a part of it, not even an unknown token.
        """
        try:
            found = self._model.encode(string, add_special_tokens=False)
        except Exception as error:  # the library raises plain Exception
            raise DataError("cannot be encoded", given=error, where=self.name) from error
        return np.array(found.ids, dtype=np.int32)

    def decode(self, tokens: Sequence[int] | np.ndarray) -> str:
        """The text of tokens, special ones left out.

        Raises:
            RangeError: a token outside the vocabulary.
        """
        return self._model.decode(_checked(tokens, self.vocabulary_size), skip_special_tokens=True)


def load(source: str | os.PathLike) -> Tokenizer:
    """A tokenizer by name: "byte", a SentencePiece `*.model` or a Hugging Face `*.json`.

    Raises:
        ConfigError: the name is none of these.
        MissingDependencyError, DataError: as the class of the tokenizer.
    """
    if os.fspath(source) == "byte":
        return ByteTokenizer()
    kinds = {".model": SentencePieceTokenizer, ".json": HuggingFaceTokenizer}
    kind = kinds.get(Path(source).suffix)
    if kind is None:
        expected = "byte, a SentencePiece file *.model or a Hugging Face file *.json"
        raise ConfigError("unknown tokenizer", expected=expected, given=shown(os.fspath(source)))
    return kind(source)


def _checked(tokens: Sequence[int] | np.ndarray, size: int) -> list[int]:
    tokens = np.asarray(tokens, dtype=np.int64).reshape(-1)
    wrong = tokens[(tokens < 0) | (tokens >= size)]
    if wrong.size:
        raise RangeError("token out of range", expected=f"0..{size - 1}", given=wrong[0])
    return tokens.tolist()
