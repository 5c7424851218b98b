# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.packing and jpmhc.data.instructions."""

from __future__ import annotations

import hashlib
import itertools
import json

import numpy as np
import pytest
from corpora_fixtures import ALICE, KINDS, tokenizer
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import instructions, packing
from jpmhc.data.instructions import Example, read_alpaca, tokenize
from jpmhc.data.output import OutputFolder
from jpmhc.data.packing import (
    IGNORE,
    Batch,
    Documents,
    PackedDataset,
    Position,
    attention_mask,
    encode_text,
    read_documents,
    write_documents,
)
from jpmhc.errors import ConfigError, DataError, RangeError

GOLDEN = {"split": "b3590aaf40e8977e", "whole": "bc85bf88c1f7d02d", "single": "4bca1e8c838efa64"}


def numbered(sizes: list[int]) -> Documents:
    """Documents whose tokens tell document and place: 1000 * document + place."""
    return Documents.from_arrays(1000 * k + np.arange(size) for k, size in enumerate(sizes))


SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=30)


def rows_of(dataset: PackedDataset, epoch: int) -> list[Batch]:
    return [dataset.row(epoch, index) for index in range(dataset.rows(epoch))]


@settings(max_examples=60, deadline=None)
@given(
    SIZES, st.integers(1, 50), st.sampled_from(packing.MODES), st.integers(0, 2**64 - 1),
    st.integers(0, 3), st.booleans(),
)  # fmt: skip
def test_every_row_is_pieces_of_documents(sizes, length, mode, seed, epoch, shuffle):
    documents = numbered(sizes)
    if mode == "split" and sum(sizes) < length:
        with pytest.raises(DataError, match="too few documents"):
            PackedDataset(documents, length=length, mode=mode)
        return
    dataset = PackedDataset(
        documents, length=length, mode=mode, seed=seed, shuffle=shuffle, padding=-7
    )
    seen: list[int] = []
    for batch in rows_of(dataset, epoch):
        assert all(a.shape == (1, length) and a.dtype == np.int32 for a in vars(batch).values())
        tokens, labels, segments, positions = (array[0] for array in vars(batch).values())
        real = segments >= 0
        assert (tokens[~real] == -7).all() and (labels[~real] == IGNORE).all()
        assert not real[np.argmin(real) :].any() or real.all()  # filling is at the end
        seen += tokens[real].tolist()
        for segment in range(segments.max() + 1):
            inside = segments == segment
            text = tokens[inside]
            assert (np.diff(text) == 1).all() and (np.diff(np.flatnonzero(inside)) == 1).all()
            assert positions[inside].tolist() == list(range(text.size))
            document, last = divmod(int(text[-1]), 1000)
            ended = last + 1 == sizes[document]
            wanted = text + 1
            wanted[-1] = IGNORE if ended else wanted[-1]
            assert (labels[inside] == wanted).all()
    assert len(seen) == len(set(seen))
    everything = set(documents.tokens.tolist())
    missing = everything - set(seen)
    assert set(seen) <= everything
    assert len(missing) == (sum(sizes) % length if mode == "split" else 0)


@settings(max_examples=30, deadline=None)
@given(SIZES, st.integers(1, 40), st.sampled_from(["whole", "single"]))
def test_documents_that_fit_are_not_cut(sizes, length, mode):
    dataset = PackedDataset(numbered(sizes), length=length, mode=mode)
    pieces: dict[int, int] = {}
    for batch in rows_of(dataset, 0):
        found = {int(t) // 1000 for t in batch.tokens[batch.segments >= 0]}
        assert mode == "whole" or len(found) == 1
        for document in found:
            pieces[document] = pieces.get(document, 0) + 1
    assert pieces == {k: -(-size // length) for k, size in enumerate(sizes)}


def test_rows_are_filled_in_order_without_shuffling():
    dataset = PackedDataset(numbered([3, 4, 2]), length=4, shuffle=False)
    assert dataset.row(0, 0).tokens.tolist() == [[0, 1, 2, 1000]]
    assert dataset.row(0, 0).labels.tolist() == [[1, 2, IGNORE, 1001]]
    assert dataset.row(0, 0).segments.tolist() == [[0, 0, 0, 1]]
    assert dataset.row(0, 1).tokens.tolist() == [[1001, 1002, 1003, 2000]]
    assert dataset.row(0, 1).positions.tolist() == [[0, 1, 2, 0]]
    whole = PackedDataset(numbered([3, 4, 2]), length=6, mode="whole", shuffle=False)
    assert [whole.rows(0), whole.row(0, 1).tokens.tolist()] == [
        2, [[1000, 1001, 1002, 1003, 2000, 2001]],
    ]  # fmt: skip


def test_masks_show_what_may_be_seen():
    mask = attention_mask(np.array([[0, 0, 1, -1]]))
    assert mask[0].astype(int).tolist() == [[1, 0, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def alice(mode: str = "split", length: int = 64, **options) -> PackedDataset:
    paragraphs = ALICE.read_text().split("\n\n")
    documents = Documents.from_arrays(tokenizer("byte").encode(p) for p in paragraphs)
    return PackedDataset(documents, length=length, mode=mode, seed=3, **options)


def flat(batches) -> list[list[int]]:
    return [batch.tokens.reshape(-1).tolist() for _, batch in batches]


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_change_nothing(workers):
    dataset = alice()
    once = list(dataset.batches(5, epochs=2))
    again = list(dataset.batches(5, epochs=2, workers=workers))
    assert [p for p, _ in once] == [p for p, _ in again] and flat(once) == flat(again)
    assert len(once) == 2 * dataset.steps(0, 5)


@pytest.mark.parametrize("mode", packing.MODES)
def test_runs_go_on_where_they_were_stopped(mode):
    whole = list(alice(mode).batches(7, epochs=3))
    for stop in (0, 1, len(whole) // 2, len(whole) - 2):
        position = whole[stop][0]
        rest = list(alice(mode).batches(7, start=position, epochs=3, workers=2))
        assert flat(rest) == flat(whole[stop + 1 :])


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_shards_are_disjoint_and_cover_all(shards):
    dataset = PackedDataset(numbered([10] * 60), length=10, mode="single")
    parts = [flat(dataset.batches(2, epochs=1, shard=k, shards=shards)) for k in range(shards)]
    tokens = [t for part in parts for row in part for t in row]
    assert len(tokens) == len(set(tokens)) == 600
    assert len({len(part) for part in parts}) == 1


def test_epochs_and_seeds_differ():
    dataset = alice()
    first, second = (dataset.batch(Position(e), 4).tokens for e in (0, 1))
    assert (first != second).any()
    other = PackedDataset(dataset.documents, length=64, seed=4).batch(Position(), 4).tokens
    assert (first != other).any()


@pytest.mark.parametrize("mode", packing.MODES)
def test_rows_stay_as_they_are(mode):
    batch = alice(mode).batch(Position(1, 2), 8)
    digest = hashlib.sha256(b"".join(array.tobytes() for array in vars(batch).values()))
    assert digest.hexdigest()[:16] == GOLDEN[mode]


def test_bad_options_are_named():
    with pytest.raises(ConfigError, match="unknown mode: .*did you mean 'split'"):
        alice("splt")
    with pytest.raises(ConfigError, match="bad length"):
        alice(length=0)
    dataset = alice()
    with pytest.raises(RangeError, match=r"no such row: expected 0\.\.\d+, got -1"):
        dataset.row(0, -1)
    with pytest.raises(RangeError, match="no such step"):
        dataset.batch(Position(0, 10**6), 4)
    with pytest.raises(ConfigError, match=r"bad shard: expected 0\.\.1, got 2"):
        dataset.batch(Position(), 4, shard=2, shards=2)
    with pytest.raises(ConfigError, match="bad batch_size"):
        dataset.batch(Position(), 0)
    with pytest.raises(ConfigError, match="batch larger than the data"):
        next(dataset.batches(10**6))
    with pytest.raises(DataError, match="document 1: empty document"):
        Documents.from_arrays([[1], []])
    with pytest.raises(DataError, match="no documents"):
        Documents.from_arrays([])
    with pytest.raises(DataError, match="do not add up: expected 3, got 2"):
        Documents(np.arange(3), np.array([1, 1]))


# On disk.


def encoder(made):
    return lambda text: encode_text(text, made)


def write(folder, kind="byte", texts=("Alice", "", "the White Rabbit"), request=None):
    with OutputFolder(folder, request or {"kind": kind}) as output:
        return write_documents(output, texts, encoder(tokenizer(kind)), tokenizer(kind),
                               sources=[{"name": "test"}])  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_written_documents_are_read_back(tmp_path, kind):
    manifest = write(tmp_path / "out", kind)
    documents = Documents.open(tmp_path / "out")
    made = tokenizer(kind)
    assert len(documents) == manifest["documents"] == 2  # an empty one is left out
    for index, text in enumerate(["Alice", "the White Rabbit"]):
        assert documents.document(index).tolist() == [*made.encode(text), made.end]
    assert manifest["tokens"] == documents.tokens.size
    assert manifest["tokenizer"]["sha256"] == made.fingerprint
    PackedDataset(documents, length=4).batch(Position(), 1)


def test_writing_goes_on_after_a_stop(tmp_path, monkeypatch):
    monkeypatch.setattr(packing, "_DOCUMENTS_PER_SAVE", 3)
    texts = [f"document {k}" for k in range(10)]
    write(tmp_path / "whole", texts=texts)
    seen = []

    class Counting(type(tokenizer("byte"))):
        def encode(self, text):
            seen.append(text)
            return super().encode(text)

    def stopping():
        yield from texts[:8]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), OutputFolder(tmp_path / "out", {}) as output:
        write_documents(output, stopping(), encoder(Counting()), Counting(), sources=[])
    assert not (tmp_path / "out").exists()
    seen.clear()
    with OutputFolder(tmp_path / "out", {}) as output:
        write_documents(output, texts, encoder(Counting()), Counting(), sources=[])
    assert seen == texts[6:]
    for name in ("tokens.bin", "sizes.bin", "answers.bin"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_damage_is_found(tmp_path):
    write(tmp_path / "out")
    with pytest.raises(DataError, match="none/manifest.json: cannot read the documents"):
        Documents.open(tmp_path / "none")
    tokens = tmp_path / "out" / "tokens.bin"
    tokens.write_bytes(tokens.read_bytes()[:-2])
    with pytest.raises(DataError, match="damaged documents: expected 2 documents of 23 tokens"):
        Documents.open(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text('{"format": "x"}')
    with pytest.raises(DataError, match="unknown format: expected jpmhc-documents-1, got x"):
        Documents.open(tmp_path / "out")
    (tmp_path / "out" / "manifest.json").write_text("[")
    with pytest.raises(DataError, match="manifest.json: no JSON"):
        Documents.open(tmp_path / "out")
    with pytest.raises(DataError, match="no document has a token: got 2 documents"):
        write(tmp_path / "empty", texts=["", ""])


def test_documents_are_read_from_text_and_json_lines(tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("one\ntwo\n---\nthree")
    assert list(read_documents(text)) == ["one\ntwo\n---\nthree"]
    assert list(read_documents(text, separator="---")) == ["one\ntwo\n", "three"]
    lines = tmp_path / "a.jsonl"
    lines.write_text('{"text": "one", "body": "eins"}\n\n{"text": "two", "body": "zwei"}\n')
    assert list(read_documents(lines)) == ["one", "two"]
    assert list(read_documents(lines, field="body")) == ["eins", "zwei"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"text": "a"}\n{', r"a\.jsonl: line 2: no JSON"),
        (b'{"txt": "a"}', r"line 1: bad field 'text': expected a text, got nothing"),
        (b"[1]", "line 1: bad record: expected an object, got a list"),
        (b'{"text": 1}', r"line 1: bad field 'text': expected a text, got a whole number"),
        (b"\xff", r"a\.jsonl: line 1: byte 0: not UTF-8"),
    ],
)
def test_bad_lines_are_named(tmp_path, content, message):
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(DataError, match=message):
        list(read_documents(tmp_path / "a.jsonl"))
    with pytest.raises(DataError, match=r"none\.txt: cannot read the documents"):
        list(read_documents(tmp_path / "none.txt"))


# Instructions.

RECORDS = [
    {"instruction": "Name a colour.", "input": "", "output": "Red."},
    {"instruction": "Add.", "input": "2 and 3", "output": "5"},
    {"instruction": "Say yes.", "output": "Yes."},
]


def test_alpaca_records_become_prompts(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(RECORDS))
    examples = read_alpaca(tmp_path / "a.json")
    assert [example.answer for example in examples] == ["Red.", "5", "Yes."]
    assert examples[0].prompt.endswith("### Instruction:\nName a colour.\n\n### Response:\n")
    assert "### Input:\n2 and 3\n\n### Response:\n" in examples[1].prompt
    assert "Input" not in examples[0].prompt + examples[2].prompt


@pytest.mark.parametrize(("mode", "kind"), list(itertools.product(["whole", "single"], KINDS)))
def test_the_loss_is_on_answers_alone(tmp_path, mode, kind):
    (tmp_path / "a.json").write_text(json.dumps(RECORDS))
    made = tokenizer(kind)
    documents = tokenize(read_alpaca(tmp_path / "a.json"), made, length=700)
    dataset = PackedDataset(documents, length=700, mode=mode, shuffle=False)
    found = []
    for batch in rows_of(dataset, 0):
        for segment in range(batch.segments.max() + 1):
            labels = batch.labels[batch.segments == segment]
            found.append(labels[labels != IGNORE].tolist())
    assert found == [[*made.encode(record["output"]), made.end] for record in RECORDS]


def test_instructions_keep_their_answers_on_disk(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(RECORDS))
    examples = read_alpaca(tmp_path / "a.json")
    made = tokenizer("byte")

    def encode(example):
        return instructions.encode_example(example, made, length=300)

    with OutputFolder(tmp_path / "out", {}) as output:
        write_documents(output, examples, encode, made, sources=[])
    stored, fresh = (
        PackedDataset(documents, length=300, mode="single", seed=1).batch(Position(), 3)
        for documents in (Documents.open(tmp_path / "out"), tokenize(examples, made, length=300))
    )
    assert (stored.tokens == fresh.tokens).all() and (stored.labels == fresh.labels).all()
    with pytest.raises(DataError, match=r"a\.json: record 0: prompt too long"):
        tokenize(examples, made, length=50)


def test_long_answers_are_cut_and_long_prompts_named():
    examples = [Example("p" * 10, "a" * 10), Example("p" * 20, "a")]
    documents = tokenize(examples[:1], tokenizer("byte"), length=15)
    assert documents.document(0).tolist() == [*b"p" * 10, *b"a" * 5]
    with pytest.raises(DataError, match="example: prompt too long: expected below 15 tokens"):
        tokenize(examples, tokenizer("byte"), length=15)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", r"a\.json: no JSON"),
        ("{}", "bad file: expected a list, got an object"),
        ("[]", "no instructions: expected a list of objects"),
        ("[3]", r"a\.json: record 0: bad record: expected an object"),
        ('[{"instruction": "x"}]', "record 0: bad field 'output'"),
        (
            '[{"instruction": "x", "output": "y", "input": 5}]',
            "bad field 'input': .* got a whole number",
        ),
    ],
)
def test_bad_instructions_are_named(tmp_path, content, message):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(DataError, match=message):
        instructions.read_alpaca(tmp_path / "a.json")
    with pytest.raises(DataError, match="cannot read the instructions"):
        instructions.read_alpaca(tmp_path / "none.json")
