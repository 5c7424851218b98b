# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Instructions with answers, as in Alpaca's JSON, where the loss is on the answer alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc.data.packing import Documents, Encoded
from jpmhc.data.reading import field, read_json
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import DataError

__all__ = ["Example", "encode_example", "read_alpaca", "tokenize"]

_WITH_INPUT = (
    "Below is an instruction that describes a task, paired with an input that provides further "
    "context. Write a response that appropriately completes the request.\n\n"
    "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n"
)
_WITHOUT_INPUT = (
    "Below is an instruction that describes a task. Write a response that appropriately "
    "completes the request.\n\n### Instruction:\n{instruction}\n\n### Response:\n"
)


@dataclass(frozen=True)
class Example:
    """A prompt and the answer that continues it.

    Attributes:
        prompt, answer: texts.
        where: the place it is from, for errors.
    """

    prompt: str
    answer: str
    where: str = "example"


def read_alpaca(path: str | os.PathLike) -> list[Example]:
    """A JSON list of objects with the texts "instruction", "output" and perhaps "input".

    Prompts are worded as Stanford Alpaca's, one way with and one without an input.

    Raises:
        DataError: the file cannot be read, is no such list, or is empty; it names record and
            field.
    """
    records = read_json(path, "the instructions", list)
    if not records:
        raise DataError("no instructions", expected="a list of objects", where=path)
    return [_example(record, f"{path}: record {k}") for k, record in enumerate(records)]


def _example(record: object, where: str) -> Example:
    if isinstance(record, dict):
        record = {"input": "", **record}
    texts = {name: field(record, name, str, where) for name in ("instruction", "input", "output")}
    answer = texts.pop("output")
    template = _WITH_INPUT if texts["input"] else _WITHOUT_INPUT
    return Example(template.format(**texts), answer, where)


def encode_example(example: Example, tokenizer: Tokenizer, *, length: int) -> Encoded:
    """The tokens of an example, int32 [at most length], and where its answer begins.

    The answer gets the tokenizer's end token, if it has one; what goes beyond the length is cut.

    Raises:
        DataError: the prompt leaves no room for an answer.
    """
    prompt = tokenizer.encode(example.prompt)
    if prompt.size >= length:
        expected = f"below {length} tokens"
        raise DataError(
            "prompt too long", expected=expected, given=prompt.size, where=example.where
        )
    end = [] if tokenizer.end is None else [tokenizer.end]
    answer = tokenizer.encode(example.answer)
    tokens = np.concatenate([prompt, answer, np.array(end, np.int32)])
    return tokens[:length], prompt.size


def tokenize(examples: Sequence[Example], tokenizer: Tokenizer, *, length: int) -> Documents:
    """Examples as documents for `PackedDataset` ("whole" or "single"), the loss on answers.

    Raises:
        DataError: as `encode_example`, or no examples.
    """
    encoded = [encode_example(example, tokenizer, length=length) for example in examples]
    return Documents.from_arrays([t for t, _ in encoded], [answer for _, answer in encoded])
