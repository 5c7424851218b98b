# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the subcommands needle, ruler and pack of `jpmhc-data`."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from corpora_fixtures import ALICE, huggingface_file, tokenizer

from jpmhc.data import needle, ruler
from jpmhc.data.cli import main
from jpmhc.data.packing import Documents

NEEDLE = ["needle", str(ALICE), "--lengths", "1200", "1600", "--hops", "1", "--quiet"]
RULER = ["ruler", "--tasks", "niah_single_1", "fwe", "--lengths", "2048", "--quiet"]


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def files(folder: Path) -> dict[str, bytes]:
    """All data files; the card has the command line in it."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    named = {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}
    return {k: v for k, v in named.items() if k not in ("card.json", "README.md")}


def test_needle_writes_proved_instances_and_a_card(tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--train", "2", "--test", "3", "--kinds", "bridged", "no_bridge"]
    assert main([*NEEDLE, *options, "--licence", "public domain", "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    names = {f"{s}-{k}-{n}.jsonl" for s in ("train", "test") for k in ("bridged", "no_bridge")
             for n in (1200, 1600)}  # fmt: skip
    assert set(files(out)) == names | {"manifest.json"}
    for name in names:
        split, kind, length = name.removesuffix(".jsonl").split("-")
        records = lines(out / name)
        assert len(records) == (2 if split == "train" else 3)
        for index, record in enumerate(records):
            needle.check(record)
            assert (record["index"], record["split"], record["kind"]) == (index, split, kind)
            text = record["prompt"] + record["completion"]
            assert tokenizer("byte").encode(text).size == int(length) == record["length"]
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"]["train-bridged-1200.jsonl"]["instances"] == 2
    assert (
        manifest["files"]["train-bridged-1200.jsonl"]["filler"]["sha256"]
        == hashlib.sha256(ALICE.read_bytes()).hexdigest()
    )
    card = json.loads((out / "card.json").read_text())
    assert card["licence"] == "public domain" and card["command_line"].startswith("jpmhc-data need")
    for name, digest in card["hashes"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert set(card["hashes"]) == names | {"manifest.json"}
    assert "## Files (SHA-256)" in (out / "README.md").read_text()


@pytest.mark.parametrize("command", [[*NEEDLE, "--test", "12"], [*RULER, "--count", "12"]])
def test_workers_and_restarts_change_nothing(tmp_path, monkeypatch, command):
    assert main([*command, "-o", str(tmp_path / "one")]) == 0
    assert main([*command, "-o", str(tmp_path / "two"), "--workers", "3"]) == 0
    assert files(tmp_path / "one") == files(tmp_path / "two")
    owner = needle.NeedleCorpus if command[0] == "needle" else ruler.RulerTask
    whole, calls = owner.instance, []

    def stopping(self, index):
        calls.append(index)
        if len(calls) == 20:
            raise KeyboardInterrupt
        return whole(self, index)

    monkeypatch.setattr(owner, "instance", stopping)
    assert main([*command, "-o", str(tmp_path / "three")]) == 130
    assert not (tmp_path / "three").exists()
    assert main([*command, "-o", str(tmp_path / "three")]) == 0
    assert len(calls) == 20 + 8  # the first 16 of 24 were kept
    assert files(tmp_path / "one") == files(tmp_path / "three")


def test_needle_shows_and_counts(capsys):
    assert main([*NEEDLE, "--preview", "1", "--stats"]) == 0
    shown = capsys.readouterr().out
    record = needle.NeedleCorpus(
        needle.Filler.from_file(ALICE), tokenizer("byte"), length=1200, hops=1, split="test"
    ).instance(0)
    for statement in record.statements:
        kind = "other" if statement.chain else ("needle", "bridge")[statement.level]
        assert f"[{kind}: {statement.text}]" in shown
    assert f"[answer: {record.completion}]" in shown
    assert "test-bridged-1200.jsonl: 100 instances of 1200 tokens; of the first 100: " in shown
    assert "100 proved; chance 0.250" in shown


def test_ruler_writes_the_files_of_its_own_scripts(tmp_path, capsys):
    squad = tmp_path / "squad.json"
    paragraphs = [
        {"context": text, "qas": [{"question": "What?", "answers": [{"text": "It"}]}]}
        for text in ("It is long. " * 300, "It is short.", "It is not long.")
    ]
    squad.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    out = tmp_path / "out"
    command = ["ruler", "--lengths", "2048", "--count", "3", "--squad", str(squad), "--tasks",
               "vt", "qa_1", "--tokenizer", str(huggingface_file()), "-o", str(out)]  # fmt: skip
    command += ["--template", "<u>{task}\\n<a>"]
    assert main([*command, "--preview", "1", "--stats"]) == 0
    shown = capsys.readouterr().out
    assert "vt, instance 0" in shown and "[needle: VAR " in shown and "[answer: " in shown
    # The first question's document alone is too long, so the second and third are asked.
    assert "2048/qa_1/test.jsonl: 2 instances; tokens of the first 2: " in shown
    assert [record["index"] for record in lines(out / "2048/qa_1/test.jsonl")] == [1, 2]
    for record in lines(out / "2048/vt/test.jsonl"):
        assert {"index", "input", "outputs", "length", "answer_prefix"} <= set(record)
        text = record["input"] + record["answer_prefix"]
        assert text.startswith("<u>Memorize") and record["input"].endswith(".\n<a>")
        size = tokenizer("huggingface").encode(text).size
        assert record["length"] == size + 30 <= 2048
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["files"]["2048/qa_1/test.jsonl"]["source"]["name"] == "squad.json"


def test_ruler_takes_the_tasks_that_the_files_allow(tmp_path, capsys):
    assert main(["ruler", "--lengths", "8192", "--count", "1"]) == 0
    found = capsys.readouterr().out.splitlines()
    assert [line.split("/")[1] for line in found] == [
        "niah_single_1", "niah_multikey_2", "niah_multikey_3", "vt", "cwe", "fwe",
    ]  # fmt: skip


def test_pack_tokenizes_documents(tmp_path, capsys):
    source = tmp_path / "a.jsonl"
    source.write_text("".join(json.dumps({"text": f"text {k} " * 9}) + "\n" for k in range(20)))
    out = tmp_path / "out"
    command = ["pack", str(source), str(ALICE), "--length", "128", "-o", str(out)]
    assert main([*command, "--preview", "1", "--stats"]) == 0
    shown, said = capsys.readouterr()
    assert "documents: 21\n" in shown and "row 0, 128 tokens, 0 of them filling" in shown
    assert "documents: 21 in " in said
    documents = Documents.open(out)
    assert tokenizer("byte").decode(documents.document(7)) == "text 7 " * 9
    card = json.loads((out / "card.json").read_text())
    assert card["counts"] == {"documents": 21, "tokens": documents.tokens.size}
    assert main(["pack", str(source), "--length", "64", "--mode", "whole"]) == 0
    assert "filling of the first rows: 0." in capsys.readouterr().out


def test_pack_takes_instructions(tmp_path, capsys):
    source = tmp_path / "alpaca.json"
    records = [{"instruction": f"Say {k}.", "output": f"{k}!"} for k in range(5)]
    source.write_text(json.dumps(records))
    command = ["pack", str(source), "--alpaca", "--length", "200", "--stats", "--quiet"]
    assert main(command) == 0
    shown = capsys.readouterr().out
    # Of 200 places each row predicts a digit, a mark and the end.
    assert "tokens to be predicted in the first rows, of all: 0.015\n" in shown
    assert main([*command, "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == shown
    (tmp_path / "bad.json").write_text("[{}]")
    assert main(["pack", str(tmp_path / "bad.json"), "--alpaca"]) == 1
    assert "bad.json: record 0: bad field 'instruction'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        [*NEEDLE, "--preview", "2"],
        RULER,
        ["pack", str(ALICE), "--length", "128", "--preview", "3"],
    ],
)
def test_pictures_show_where_things_are(tmp_path, capsys, command):
    path = tmp_path / "picture.png"
    assert main([*command, "--png", str(path)]) == 0
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG") and len(content) > 5_000
    assert main([*command, "--png", str(path)]) == 0
    assert path.read_bytes() == content
    assert main([*command, "--png", str(tmp_path / "none" / "picture.png")]) == 1
    assert "cannot write the picture: got No such file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["needle", "none.txt"], "error: none.txt: cannot read the filler"),
        ([*NEEDLE, "--test", "-1"], "error: --test: expected at least 0, got -1"),
        ([*NEEDLE, "--test", "0"], "error: no instances"),
        ([*NEEDLE, "--hops", "5"], "error: bad hops: expected 1..3, got 5"),
        ([*NEEDLE, "--tokenizer", "x"], "error: unknown tokenizer"),
        ([*NEEDLE, "--workers", "0", "-o", "out"], "error: bad workers: expected 1..256, got 0"),
        (["needle", str(ALICE), "--lengths", "100"], "error: instance 0: length too short"),
        (["ruler", "--first", "-1"], "error: --first: expected at least 0, got -1"),
        (["ruler", "--template", "x"], "error: bad template: expected one {task}"),
        (["ruler", "--count", "0"], "error: --count: expected at least 1, got 0"),
        (["ruler", "--tasks", "qa_2"], "error: qa_2 needs questions"),
        (["ruler", "--squad", "none.json"], "error: none.json: cannot read the questions"),
        (
            ["ruler", "--tasks", "fwe", "--lengths", "90"],
            "error: lengths too short: got 90 for fwe, which needs at least 250 tokens (",
        ),
        (["pack", "none.txt", "-o", "out"], "error: none.txt: cannot read the documents"),
        (["pack", str(ALICE), "--length", "0"], "error: --length: expected at least 1"),
        (["pack", str(ALICE), "--length", "99999"], "error: too few documents"),
    ],
)
def test_errors_are_one_line(tmp_path, monkeypatch, capsys, command, message):
    monkeypatch.chdir(tmp_path)
    assert main(command) == 1
    said = capsys.readouterr().err
    assert said.startswith(message) and said.count("\n") == 1


def test_ruler_says_all_lengths_that_are_too_short_before_it_makes_any(tmp_path, capsys):
    out = tmp_path / "out"
    assert main(["ruler", "--lengths", "4096", "8192", "600", "-o", str(out)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: lengths too short: got 4096 for cwe, which needs at least 71")
    assert "; 600 for vt, which needs at least " in said and "8192 for" not in said
    assert not list(tmp_path.iterdir())


def test_ruler_needs_no_options(capsys):
    assert main(["ruler", "--preview", "1"]) == 0
    assert capsys.readouterr().out.count("tokens of 8192\n") == 6
