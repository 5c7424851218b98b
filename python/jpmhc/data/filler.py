# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Texts that surround what is to be found: the haystacks of `needle` and `ruler`."""

from __future__ import annotations

import hashlib
import os
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from jpmhc.data.reading import decoded, field, parse_json, read_bytes
from jpmhc.errors import DataError

__all__ = ["Filler", "split_sentences", "words_of"]

# A sentence ends at . ! or ?, with the quotes and brackets that close it.
_SENTENCE = re.compile(r"\S.*?(?:[.!?]+[\"')\]]*(?=\s|$)|$)", re.DOTALL)
_LONGEST = 600
_AS_IT_IS = {"break_on_hyphens": False, "drop_whitespace": True}
_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)?")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line; abbreviations end a sentence too.

    One of more than 600 characters is cut into parts between words, so that a text without full
    stops is no single sentence.
    """
    return [
        part
        for sentence in _SENTENCE.findall(" ".join(text.split()))
        for part in textwrap.wrap(sentence, _LONGEST, break_long_words=False, **_AS_IT_IS)
    ]


def words_of(text: str) -> list[str]:
    """The words of a text in lower case, without the 's of a possessive."""
    return [word.lower().removesuffix("'s") for word in _WORD.findall(text)]


@dataclass(frozen=True)
class Filler:
    """Running text, cut into sentences.

    Attributes:
        sentences: in the order of the text.
        name: the file's name.
        sha256: of the file.
    """

    sentences: tuple[str, ...]
    name: str
    sha256: str

    @classmethod
    def from_file(cls, path: str | os.PathLike) -> Filler:
        """A UTF-8 text file, or a `.json` file of an object with a field "text".

        Raises:
            DataError: the file cannot be read, is not UTF-8, lacks the field, or has no words.
        """
        content = read_bytes(path, "the filler")
        text = decoded(content, path)
        if Path(path).suffix == ".json":
            text = field(parse_json(text, path), "text", str, path)
        sentences = tuple(split_sentences(text))
        if not sentences:
            raise DataError("filler has no words", where=path)
        return cls(sentences, Path(path).name, hashlib.sha256(content).hexdigest())

    @cached_property
    def words(self) -> list[str]:
        """The text split at white space."""
        return " ".join(self.sentences).split(" ")

    def where(self, keep: Callable[[str], bool]) -> Filler:
        """The sentences that a function keeps."""
        return Filler(tuple(s for s in self.sentences if keep(s)), self.name, self.sha256)

    def part(self, begin: float, end: float) -> Filler:
        """The sentences from one fraction of their number to another."""
        count = len(self.sentences)
        kept = self.sentences[round(begin * count) : round(end * count)]
        return Filler(kept, self.name, self.sha256)
