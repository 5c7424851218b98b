# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small tokenizer files for the tests of text corpora, trained on the test text."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from jpmhc.data import tokenizers

ALICE = Path(__file__).parent.parent / "data" / "alice.txt"
KINDS = ("byte", "sentencepiece", "huggingface")


@functools.cache
def _folder() -> tempfile.TemporaryDirectory:
    return tempfile.TemporaryDirectory()


@functools.cache
def sentencepiece_file() -> Path:
    """A unigram model of 400 pieces that falls back to bytes."""
    import sentencepiece

    prefix = Path(_folder().name) / "alice"
    sentencepiece.SentencePieceTrainer.train(
        input=str(ALICE),
        model_prefix=str(prefix),
        vocab_size=400,
        byte_fallback=True,
        character_coverage=1.0,
        minloglevel=2,
    )
    return prefix.with_suffix(".model")


@functools.cache
def huggingface_file() -> Path:
    """A byte-level BPE of 500 tokens, as GPT-2's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    model = Tokenizer(models.BPE())
    model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    model.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=500,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    model.train([str(ALICE)], trainer)
    path = Path(_folder().name) / "alice.json"
    model.save(str(path))
    return path


@functools.cache
def tokenizer(kind: str) -> tokenizers.Tokenizer:
    """One of KINDS."""
    files = {"sentencepiece": sentencepiece_file, "huggingface": huggingface_file}
    return tokenizers.load(files[kind]() if kind in files else kind)
