# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `jpmhc-data` and the folders it writes."""

import json
import subprocess
import sys

import pytest

from jpmhc.data import cli
from jpmhc.data.output import Card, OutputFolder, progress, sha256
from jpmhc.errors import ConfigError, OutputError

CARD = Card("Numbers", "jpmhc-data numbers", "counted", "public domain", {"numbers": 3})


def write(path, request, upto, total=6):
    """Numbers, one a line; fails after `upto`."""
    with OutputFolder(path, request) as output:
        for k in range(output.done, total):
            output.append("part/numbers.txt", b"%d\n" % k)
            if k == upto:
                output.file("junk").write_bytes(b"junk")
                raise KeyboardInterrupt
            output.advance(k + 1)
        output.write_card(CARD)


def test_a_stopped_folder_is_continued_and_then_renamed(tmp_path):
    path = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write(path, {"seed": 1}, upto=3)
    assert not path.exists()
    write(path, {"seed": 1}, upto=None)
    assert (path / "part/numbers.txt").read_text() == "0\n1\n2\n3\n4\n5\n"
    names = sorted(p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
    assert names == ["README.md", "card.json", "part/numbers.txt"]
    card = json.loads((path / "card.json").read_text())
    assert card["hashes"] == {"part/numbers.txt": sha256(path / "part/numbers.txt")}
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_another_request_begins_anew(tmp_path):
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "out", {"seed": 1}, upto=3)
    with OutputFolder(tmp_path / "out", {"seed": 2}) as output:
        assert output.done == 0 and not any(output.folder.glob("part"))


def test_a_folder_that_exists_is_not_touched(tmp_path):
    (tmp_path / "out").mkdir()
    with OutputFolder(tmp_path / "out", {}) as output:  # empty: taken
        output.write_text("a", "b")
    with pytest.raises(OutputError, match="exists already"):
        write(tmp_path / "out", {}, upto=None)
    assert (tmp_path / "out/a").read_text() == "b"


def test_what_cannot_be_written_is_a_typed_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot write"):
        write(tmp_path / "file/out", {}, upto=None)


def test_progress_passes_items_on(capsys):
    assert list(progress(iter("abc"), 3, "letters")) == ["a", "b", "c"]
    assert "letters: 3 in" in capsys.readouterr().err
    assert list(progress([], 0, "nothing", quiet=True)) == []
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError):
        list(progress([], -1, "nothing"))


def test_command_says_errors_in_one_line(capsys):
    assert cli.main(["arc", "--preview", "-1"]) == 1
    assert capsys.readouterr().err == "error: --preview: expected at least 0, got -1\n"


def test_command_and_data_need_no_compiled_part():
    script = (
        "import sys, jpmhc.data.cli, jpmhc.data.arc, jpmhc.eval.arc; jpmhc.data.cli.parser();"
        "sys.exit('jpmhc._core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
    help = subprocess.run([sys.executable, "-m", "jpmhc.data", "--help"], capture_output=True)
    assert help.returncode == 0 and b"arc" in help.stdout
