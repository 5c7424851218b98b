# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every reader of files against every kind of bad file: a typed error that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import arc, instructions, packing, questions, tokenizers
from jpmhc.data.arc import native_format, trm_format
from jpmhc.data.filler import Filler
from jpmhc.data.output import OutputFolder
from jpmhc.data.text import read_tokens
from jpmhc.errors import DataError
from jpmhc.eval import arc_votes, multiple_choice

TASK = {"train": [{"input": [[1]], "output": [[2]]}], "test": [{"input": [[3]], "output": [[4]]}]}


def puzzles() -> arc.ArcPuzzles:
    task = arc.Task.from_json("a", TASK)
    return arc.ArcPuzzles(arc.TaskSets((), (task,)), variants=2, canvas=3)


def arc_folder(module):
    """Makes a folder of good files; gives its name and that of the file to be spoilt."""

    def make(folder: Path, name: str) -> Path:
        with OutputFolder(folder / "data", {}) as output:
            module.write(output, puzzles())
        return folder / "data" / name

    return make


def documents(folder: Path, name: str) -> Path:
    made = tokenizers.ByteTokenizer()
    with OutputFolder(folder / "data", {}) as output:
        packing.write_documents(
            output, ["Alice"], lambda text: packing.encode_text(text, made), made, sources=[]
        )
    return folder / "data" / name


def alone(folder: Path, name: str) -> Path:
    return folder / name


def mmlu(folder: Path, name: str) -> Path:
    (folder / "test").mkdir()
    return folder / "test" / name


# What reads a file of a name, and what makes the files around it.
JSON_READERS = {
    "task": (alone, "a.json", lambda p: arc.read_folder(p.parent)),
    "challenges": (alone, "x_challenges.json", arc.read_kaggle),
    "native": (arc_folder(native_format), "dataset.json", lambda p: native_format.read(p.parent)),
    "trm names": (arc_folder(trm_format), "identifiers.json",
                  lambda p: trm_format.TrmFolder(p.parent)),
    "trm tests": (arc_folder(trm_format), "test_puzzles.json",
                  lambda p: trm_format.TrmFolder(p.parent)),
    "trm description": (arc_folder(trm_format), "train/dataset.json",
                        lambda p: trm_format.TrmFolder(p.parent.parent)),
    "submission": (alone, "s.json", arc_votes.read_submission),
    "questions": (alone, "q.json", questions.read_questions),
    "alpaca": (alone, "a.json", instructions.read_alpaca),
    "filler": (alone, "f.json", Filler.from_file),
    "documents": (alone, "d.jsonl", lambda p: list(packing.read_documents(p))),
    "hellaswag": (alone, "h.jsonl", multiple_choice.read_hellaswag),
    "manifest": (documents, "manifest.json", lambda p: packing.Documents.open(p.parent)),
}  # fmt: skip
OTHER_READERS = {
    "mmlu": (mmlu, "x_test.csv", lambda p: multiple_choice.read_mmlu(p.parent.parent, shots=0)),
    "text": (alone, "t.txt", lambda p: list(packing.read_documents(p))),
    "filler text": (alone, "t.txt", Filler.from_file),
    "sentencepiece": (alone, "t.model", tokenizers.load),
    "huggingface": (alone, "t.json", tokenizers.load),
}
ARRAY_READERS = {
    **{name: (arc_folder(native_format), name, lambda p: native_format.read(p.parent))
       for name in ("variants.npy", "variants_of.npy")},
    **{name: (arc_folder(trm_format), f"train/all__{name}.npy",
              lambda p: trm_format.TrmFolder(p.parent.parent))
       for name in ("inputs", "labels", "puzzle_identifiers", "puzzle_indices", "group_indices")},
}  # fmt: skip

DEEP = "[" * 100_000
BAD_JSON = {
    "nothing": b"",
    "blanks": b" \n\n",
    "cut": b'{"a": [1, 2',
    "deep": DEEP.encode(),
    "deep object": b'{"a":' * 100_000,
    "number": b"7",
    "text": b'"x"',
    "null": b"null",
    "true": b"true",
    "not a number": b"NaN",
    "empty list": b"[]",
    "empty object": b"{}",
    "list of numbers": b"[1, 2]",
    "list of null": b"[null]",
    "object of null": b'{"a": null}',
    "object of NaN": b'{"a": NaN}',
    "huge number": b'{"a": 1' + b"0" * 10_000 + b"}",
    "one name twice": b'{"a": 1, "a": 2}',
    "not UTF-8": b'{"a": "\xff"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "zeros": bytes(64),
    "two values": b"{} {}",
    "half a character": rb'{"a": "\ud800"}',
}
# What is no fault of these: an empty list of names, no tests, no attempts, no documents.
RIGHT = {
    ("trm tests", "empty object"),
    ("submission", "empty object"),
    ("documents", "nothing"),
    ("documents", "blanks"),
}


def names_the_file(action, path: Path) -> None:
    with pytest.raises(DataError) as caught:
        action(path)
    text = str(caught.value)
    assert path.parent.name in text or path.name in text, text
    assert len(text) < 1000, "an error is read by people"


@pytest.mark.parametrize("kind", BAD_JSON)
@pytest.mark.parametrize("reader", JSON_READERS)
def test_bad_json(tmp_path, reader, kind):
    make, name, read = JSON_READERS[reader]
    path = make(tmp_path, name)
    path.write_bytes(BAD_JSON[kind])
    if (reader, kind) in RIGHT:
        read(path)
    else:
        names_the_file(read, path)


@pytest.mark.parametrize("reader", {**JSON_READERS, **OTHER_READERS, **ARRAY_READERS})
def test_files_that_are_missing_or_are_folders(tmp_path, reader):
    make, name, read = {**JSON_READERS, **OTHER_READERS, **ARRAY_READERS}[reader]
    path = make(tmp_path, name)
    path.unlink(missing_ok=True)
    if reader != "trm tests":  # these may be missing
        names_the_file(read, path)
    path.mkdir()
    names_the_file(read, path)


@pytest.mark.parametrize("content", [b"\xff\xfe\xff", bytes(range(256)), b'"' * 9, b"\x00" * 99])
@pytest.mark.parametrize("reader", ["mmlu", "sentencepiece", "huggingface"])
def test_files_of_other_formats(tmp_path, reader, content):
    make, name, read = OTHER_READERS[reader]
    path = make(tmp_path, name)
    path.write_bytes(content)
    names_the_file(read, path)


@pytest.mark.parametrize("reader", ["text", "filler text", "documents", "hellaswag", "mmlu"])
def test_texts_that_are_not_utf8(tmp_path, reader):
    make, name, read = {**JSON_READERS, **OTHER_READERS}[reader]
    path = make(tmp_path, name)
    path.write_bytes("Käse, a, b, c, d, A\n".encode("latin-1"))
    names_the_file(read, path)


ARRAYS = {
    "nothing": b"",
    "text": b"x" * 200,
    "magic alone": b"\x93NUMPY\x01\x00",
    "cut": None,
    "pickle": np.array([{}], dtype=object),
    "texts": np.array(["a"]),
    "fractions": np.zeros((4, 9)),
    "number": np.array(3),
    "empty": np.zeros(0, np.int32),
    "negative": np.full(3, -1, np.int32),
    "huge": np.full(3, 2**62),
    "three dimensions": np.zeros((1, 1, 1), np.int32),
}


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("reader", ARRAY_READERS)
def test_bad_arrays(tmp_path, reader, kind):
    make, name, read = ARRAY_READERS[reader]
    path = make(tmp_path, name)
    content = ARRAYS[kind]
    if content is None:
        path.write_bytes(path.read_bytes()[:-1])
    elif isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.save(path, content, allow_pickle=True)
    names_the_file(read, path)


def test_an_archive_of_arrays_is_no_array(tmp_path):
    path = arc_folder(native_format)(tmp_path, "variants.npy")
    with open(path, "wb") as file:
        np.savez(file, np.zeros(3))
    names_the_file(lambda p: native_format.read(p.parent), path)


def test_tokens_out_of_range_are_named_with_file_and_row(tmp_path):
    path = arc_folder(trm_format)(tmp_path, "train/all__labels.npy")
    labels = np.load(path)
    labels[1, 4] = 12
    np.save(path, labels)
    table = trm_format.TrmFolder(tmp_path / "data").training
    table.batch(np.array([0]))
    with pytest.raises(DataError, match=r"all__labels\.npy: row 1: bad token: .*0\.\.11, got 12"):
        table.batch(np.array([0, 1]))


# One field of a good record at a time is of another kind.

WRONG = (None, 3, -1, True, 1.5, float("nan"), [], {}, [1], {"a": 1}, "\ud800", [[]], 10**30)
RECORDS = {
    "task": ("task", TASK),
    "challenges": ("challenges", {"a": TASK}),
    "submission": ("submission", {"a": [{"attempt_1": [[1]], "attempt_2": [[1, 2]]}]}),
    "squad": (
        "questions",
        {"data": [{"paragraphs": [{"context": "C", "qas": [
            {"question": "Q", "answers": [{"text": "A"}]}]}]}]},
    ),
    "hotpotqa": (
        "questions", [{"question": "Q", "answer": "A", "context": [["T", ["S. ", "U."]]]}],
    ),
    "alpaca": ("alpaca", [{"instruction": "I", "input": "", "output": "O"}]),
    "filler": ("filler", {"text": "Some text."}),
    "documents": ("documents", {"text": "Some text."}),
    "hellaswag": (
        "hellaswag",
        {"activity_label": "A", "ctx_a": "B", "ctx_b": "c", "endings": ["d", "e"], "label": 1},
    ),
}  # fmt: skip


def places(value, path=()):
    """Every place in a JSON value."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(
        value, list) else ()  # fmt: skip
    for key, part in items:
        yield from places(part, (*path, key))


def replaced(value, path, other):
    if not path:
        return other
    value = dict(value) if isinstance(value, dict) else list(value)
    value[path[0]] = replaced(value[path[0]], path[1:], other)
    return value


@pytest.mark.parametrize("record", RECORDS)
def test_one_wrong_value_anywhere(tmp_path, record):
    """It is read, where the value will do, or the error is typed and names the file."""
    reader, good = RECORDS[record]
    _, name, read = JSON_READERS[reader]
    path = tmp_path / name
    path.write_text(json.dumps(good))
    read(path)
    rejected = 0
    for place in places(good):
        for other in WRONG:
            path.write_text(json.dumps(replaced(good, place, other)))
            try:
                read(path)
            except DataError as error:
                rejected += 1
                assert name in str(error) and len(str(error)) < 1000
    assert rejected > len(WRONG)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(list(JSON_READERS)), st.binary(max_size=60))
def test_any_bytes(tmp_path_factory, reader, content):
    make, name, read = JSON_READERS[reader]
    path = make(tmp_path_factory.mktemp("any"), name)
    path.write_bytes(content)
    try:
        read(path)
    except DataError as error:
        assert str(path.parent) in str(error)


def test_names_that_no_file_can_have():
    for read in (arc.read_kaggle, Filler.from_file, read_tokens, tokenizers.load,
                 questions.read_questions, arc.read_source):  # fmt: skip
        with pytest.raises(DataError):
            read("a\0b.json")


def test_a_mark_at_the_beginning_is_no_text(tmp_path):
    """Editors of Windows begin UTF-8 with a byte order mark."""
    mark = b"\xef\xbb\xbf"
    (tmp_path / "a.json").write_bytes(mark + json.dumps(TASK).encode())
    assert arc.read_folder(tmp_path).evaluation[0].same_as(arc.Task.from_json("a", TASK))
    (tmp_path / "d.jsonl").write_bytes(mark + b'{"text": "x"}\r\n{"text": "y"}')
    assert list(packing.read_documents(tmp_path / "d.jsonl")) == ["x", "y"]
    (tmp_path / "t.txt").write_bytes(mark + b"Alice")
    assert list(packing.read_documents(tmp_path / "t.txt")) == ["Alice"]
    assert Filler.from_file(tmp_path / "t.txt").sentences == ("Alice",)


def test_lines_end_at_new_lines_alone(tmp_path):
    """Not at the separators of Unicode, which JSON may have within a text."""
    record = {"activity_label": "A", "ctx_a": "B\u2028C", "ctx_b": "\x85d", "endings": ["e", "f"]}
    path = tmp_path / "h.jsonl"
    path.write_text(json.dumps({**record, "label": "1"}, ensure_ascii=False), encoding="utf-8")
    assert "B\u2028C" in multiple_choice.read_hellaswag(path)[0].context
