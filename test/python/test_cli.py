# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `jpmhc`."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

from jpmhc import _libraries, cli, knobs
from jpmhc.errors import MissingDependencyError
from jpmhc.training import MetricsWriter

VECTORS = pathlib.Path(__file__).parents[1] / "data" / "vectors" / "side_path.json.gz"


def test_version(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("jpmhc 0.")


def test_help_without_a_command(capsys):
    assert cli.main([]) == 1
    assert "jpmhc doctor" in capsys.readouterr().out


def test_doctor_says_what_is_found(capsys):
    assert cli.main(["doctor", "--json"]) == 0
    findings = {finding["name"]: finding for finding in json.loads(capsys.readouterr().out)}
    assert {"processor", "llvm", "blas", "ptxas", "cuda driver", "cache"} <= set(findings)
    assert findings["llvm"]["value"].startswith("22.")
    assert cli.main(["doctor"]) == 0
    assert "ok" in capsys.readouterr().out


def test_doctor_does_not_believe_a_wrong_ptxas(capsys):
    with knobs.scope(ptxas="/nonexistent/ptxas"):
        cli.main(["doctor"])
    assert "expected JPMHC_PTXAS to name an executable file" in capsys.readouterr().out


def test_knobs_lists_every_variable(capsys):
    assert cli.main(["knobs", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["variable"] for row in rows} == {k.variable for k in knobs.KNOBS.values()}
    assert cli.main(["knobs"]) == 0
    text = capsys.readouterr().out
    assert "JPMHC_SANITIZE_KERNELS" in text and "part of the key" in text


def test_missing_library_names_the_package():
    error = _libraries.explained(ImportError("libMLIR.so.22.1: cannot open shared object file"))
    assert isinstance(error, MissingDependencyError)
    assert "apt-get install libmlir-22 libllvm22" in str(error)
    other = ImportError("something else")
    assert _libraries.explained(other) is other


@pytest.fixture
def run(tmp_path):
    with MetricsWriter(tmp_path / "metrics.jsonl") as metrics:
        for step in range(1, 30):
            metrics.write(step, loss=1.0 / step)
        metrics.write(
            29,
            cell_accuracy=0.5,
            gradient_norms={"block.mix": 0.25, "head": 1.5},
            kernel_seconds={"attention_0": 0.002, "gemm": 0.001},
        )
    return tmp_path


@pytest.mark.parametrize("name", ["report.html", "report.png"])
def test_report(run, name, capsys):
    pytest.importorskip("matplotlib")
    assert cli.main(["report", str(run), "-o", str(run / name)]) == 0
    content = (run / name).read_bytes()
    if name.endswith("html"):
        assert b"attention_0" in content and b"cell_accuracy" in content
    else:
        assert content.startswith(b"\x89PNG")


def test_report_of_nothing(tmp_path, capsys):
    assert cli.main(["report", str(tmp_path)]) == 1
    assert "cannot read metrics" in capsys.readouterr().err


def test_report_of_another_kind(run, capsys):
    assert cli.main(["report", str(run), "-o", str(run / "report.pdf")]) == 1
    assert "expected a .html or .png file" in capsys.readouterr().err
    assert not (run / "report.pdf").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["jpmhc", "knobs"],
        ["jpmhc.data", "needle", "--help"],
        ["jpmhc.spectra", "generating-sets", "3", "2", "--quiet"],
        ["jpmhc.bench", "--list"],
        ["jpmhc.conformance", os.fspath(VECTORS)],
    ],
    ids=lambda command: command[0],
)
def test_a_reader_that_has_seen_enough_ends_a_command(command):
    read, write = os.pipe()
    os.close(read)
    script = [sys.executable, "-m", *command]
    done = subprocess.run(script, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "")
