# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every command that writes data is stopped in every way, and goes on to the same files."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from corpora_fixtures import ALICE

from jpmhc.data import cli, output
from jpmhc.data.output import OutputFolder
from jpmhc.errors import OutputError

TASK = {
    "train": [{"input": [[k, 1], [2, 3]], "output": [[k]]} for k in range(4)],
    "test": [{"input": [[5, 6]], "output": [[7]]}],
}
COMMANDS = {
    "arc trm": ["arc", "--source", "tasks", "--augmentations", "400", "--format", "trm"],
    "arc native": ["arc", "--source", "tasks", "--augmentations", "20000"],
    "needle": ["needle", str(ALICE), "--hops", "1", "--test", "120", "--kinds", "bridged",
               "no_bridge"],
    "ruler": ["ruler", "--tasks", "niah_multikey_2", "vt", "--lengths", "2048", "--count", "90"],
    "pack": ["pack", "lines.jsonl"],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in, but for what the commands read."""
    monkeypatch.chdir(tmp_path)
    Path("tasks").mkdir()
    Path("tasks/a.json").write_text(json.dumps(TASK))
    with open("lines.jsonl", "w") as file:
        for k in range(20_000):
            file.write(json.dumps({"text": f"Document {k} is here."}) + "\n")
    return tmp_path


def files(name: str) -> dict[str, bytes]:
    """All data files; the card has the command line in it."""
    paths = [path for path in Path(name).rglob("*") if path.is_file()]
    found = {path.relative_to(name).as_posix(): path.read_bytes() for path in paths}
    return {k: v for k, v in found.items() if k not in ("card.json", "README.md")}


def run(command: str, name: str, *more: str) -> int:
    return cli.main([*COMMANDS[command], "-o", name, "--quiet", *more])


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_is_a_typed_error_and_nothing_is_lost(folder, command, capsys):
    """The limit on the size of files gives the error that a full disk gives, of another number."""
    assert run(command, "whole") == 0
    largest = max(map(len, files("whole").values()))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest - 1, before[1]))
    try:
        assert run(command, "out") == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    said = capsys.readouterr().err
    assert said.startswith("error: ") and said.count("\n") == 1
    assert "cannot write: got File too large" in said and ".partial" in said
    assert not Path("out").exists()
    assert run(command, "out") == 0
    assert files("out") == files("whole")
    assert not Path("out.partial").exists()


@pytest.mark.parametrize("command", ["arc trm", "needle", "ruler", "pack"])
def test_killed_again_and_again_it_comes_to_the_same_files(folder, command):
    assert run(command, "whole") == 0
    script = [sys.executable, "-m", "jpmhc.data", *COMMANDS[command], "-o", "out", "--quiet"]
    draws = random.Random(7)
    for _ in range(4):
        process = subprocess.Popen(script, stderr=subprocess.DEVNULL)
        while process.poll() is None and not Path("out.partial/.progress.json").exists():
            time.sleep(0.005)
        time.sleep(draws.uniform(0, 0.2))
        process.kill()
        process.wait()
        if Path("out").exists():
            break
    assert Path("out").exists() or subprocess.run(script).returncode == 0
    assert files("out") == files("whole")


@pytest.mark.parametrize("workers", ["1", "3"])
def test_an_interrupted_command_says_one_line(folder, workers):
    script = [sys.executable, "-m", "jpmhc.data", *COMMANDS["needle"], "--lengths", "8192"]
    script += ["--test", "5000", "-o", "out", "--quiet", "--workers", workers]
    process = subprocess.Popen(script, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while process.poll() is None and not Path("out.partial/test-bridged-8192.jsonl").exists():
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers too
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert said == "interrupted; the same command goes on where this one stopped\n"
    assert Path("out.partial/.progress.json").exists() and not Path("out").exists()


@pytest.mark.parametrize("loss", ["shorter", "missing", "state", "empty state"])
def test_what_the_disk_has_lost_is_made_again(folder, loss):
    """After a loss of power a file may be shorter than the state says."""
    with pytest.raises(KeyboardInterrupt), OutputFolder("out", {"a": 1}) as made:
        made.append("x", b"0123456789")
        made.advance(1)
        raise KeyboardInterrupt
    lost = Path("out.partial/x")
    if loss == "shorter":
        os.truncate(lost, 5)
    elif loss == "missing":
        lost.unlink()
    else:
        state = Path("out.partial/.progress.json")
        state.write_bytes(b"" if loss == "empty state" else state.read_bytes()[:-9])
    with OutputFolder("out", {"a": 1}) as made:
        assert made.done == 0 and not lost.exists()
        made.append("x", b"again")
    assert files("out") == {"x": b"again"}


def test_what_a_killed_process_had_not_renamed_is_removed(folder):
    with pytest.raises(KeyboardInterrupt), OutputFolder("out", {"a": 1}) as made:
        made.write_text("d/x", "whole")
        made.advance(1)
        raise KeyboardInterrupt
    for name in ("..progress.json", ".card.json", "d/.y"):
        Path(f"out.partial/{name}.0123456789abcdef.tmp").write_bytes(b"ha")
    with OutputFolder("out", {"a": 1}) as made:
        assert made.done == 1
    assert files("out") == {"d/x": b"whole"}


def test_a_process_may_be_killed_before_its_first_state_is_there(folder):
    Path("out.partial").mkdir()
    Path("out.partial/..progress.json.0123456789abcdef.tmp").write_bytes(b"ha")
    with OutputFolder("out", {"a": 1}) as made:
        made.append("x", b"1")
    assert files("out") == {"x": b"1"}


def test_two_at_once_do_not_write_into_each_other(folder):
    with OutputFolder("out", {"a": 1}) as first:
        first.append("x", b"first")
        with pytest.raises(OutputError, match="out.partial: another process is writing"):
            OutputFolder("out", {"a": 1}).__enter__()
        first.append("x", b" alone")
    assert files("out") == {"x": b"first alone"}


def test_a_folder_of_that_name_that_is_not_of_this_kind_is_kept(folder):
    Path("out.partial").mkdir()
    Path("out.partial/thesis.tex").write_text("dear")
    with pytest.raises(OutputError, match="no data in the making"):
        OutputFolder("out", {}).__enter__()
    assert Path("out.partial/thesis.tex").read_text() == "dear"


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a/..", "a\0b"])
def test_names_that_no_new_folder_can_have(folder, name, capsys):
    assert run("pack", name) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: cannot write: expected the name of a new folder, got ")


def test_an_empty_folder_and_a_link_to_one_are_taken(folder):
    Path("empty").mkdir()
    Path("link").symlink_to("empty")
    with OutputFolder("link", {}) as made:
        made.append("x", b"1")
    assert files("empty") == {"x": b"1"} and Path("link").is_symlink()


def test_folders_that_are_not_there_are_made(folder):
    with OutputFolder("a/b/c", {}) as made:
        made.append("d/e", b"1")
        assert made.size("d/e") == 1 and made.size("none") == 0
    assert files("a/b/c") == {"d/e": b"1"}


def test_progress_is_said_where_there_is_no_terminal(monkeypatch, capsys):
    monkeypatch.setitem(output._PAUSES, False, -1)
    assert list(output.progress("abc", 3, "letters")) == list("abc")
    said = capsys.readouterr().err.splitlines()
    assert said[:3] == ["letters: 1 of 3", "letters: 2 of 3", "letters: 3 of 3"]
    assert said[3].startswith("letters: 3 in ")
    assert list(output.progress("abc", 3, "letters", quiet=True)) == list("abc")
    assert capsys.readouterr().err == ""
