# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The benchmark at sizes that take no time: what it prints and writes, and whether all agree."""

import importlib.util
import json
import sys

import numpy as np
import pytest

from jpmhc.bench import __main__ as command
from jpmhc.bench import families, runner
from jpmhc.bench.cases import Case, Growth, Prepared
from jpmhc.errors import MissingDependencyError

TINY = {case.name: case for case in families.cases(tiny=True)}


@pytest.fixture(autouse=True)
def quick():
    """Inductor takes minutes for all peers; what they compute does not depend on it."""
    if importlib.util.find_spec("torch"):
        from jpmhc.bench.peers import support

        support.use_quick_backend()


@pytest.fixture
def tiny(monkeypatch):
    """The command line runs tiny cases."""
    full, growths = families.cases, families.growths
    monkeypatch.setattr(families, "cases", lambda: full(tiny=True))
    monkeypatch.setattr(families, "growths", lambda: growths(tiny=True))


# The chain of the panel has no peer of its own: it is timed beside the panel's.
ALONE = {"spectra/panel/chain"}


@pytest.mark.parametrize("name", sorted(set(TINY) - ALONE))
def test_every_peer_agrees_with_us(name):
    pytest.importorskip("torch")
    case = TINY[name]
    found = runner.differences(case)
    assert len(found) >= (1 if name.startswith("spectra/") else 2)
    assert max(found.values()) <= case.tolerance, found


def test_a_peer_that_disagrees_is_found():
    def maker(value):
        return lambda dtype: Prepared(lambda: value, lambda result: [np.float32([result])])

    case = Case("wrong", maker(1.0), lambda: {"near": maker(1.00001), "far": maker(1.1)})
    pytest.importorskip("torch")
    found = runner.differences(case)
    assert found["near"] < 1e-4 < found["far"]


def test_the_json_file_has_a_row_an_implementation(tiny, tmp_path, capsys):
    pytest.importorskip("torch")
    out = tmp_path / "out.json"
    chosen = ["--only", "^rms_norm|growth/side_path/T", "--rounds", "3", "--seconds", "0"]
    assert command.main([*chosen, "--json", str(out)]) == 0
    content = json.loads(out.read_text())
    keys = {"case", "impl", "dtype", "threads", "median_ms", "min_ms", "bytes_floor", "flops"}
    rows = content["results"]
    assert [row["impl"] for row in rows] == ["jpmhc", "rms_norm/eager", "rms_norm/compile"]
    for row in rows:
        assert keys | {"compile_s"} <= row.keys()
        assert 0 < row["min_ms"] <= row["median_ms"]
        assert row["bytes_floor"] == 64 * 32 * 4 * 5
    assert rows[0]["compile_s"] > rows[0]["compile_cached_s"] > 0
    assert rows[1]["compile_s"] == 0 < rows[2]["compile_s"]
    assert content["machine"]["cores"] >= 1
    assert [row["name"] for row in content["exponents"]] == ["growth/side_path/T"]
    text = capsys.readouterr()
    assert "x the best peer, target 2x" in text.out and "exponent" in text.out
    assert "[1/1] rms_norm" in text.err


def test_half_precision_halves_the_floor(tiny, tmp_path):
    out = tmp_path / "out.json"
    arguments = ["--only", "^rms_norm|adam", "--dtype", "bf16", "--no-peers", "--rounds", "1"]
    assert command.main([*arguments, "--seconds", "0", "--json", str(out)]) == 0
    rows = json.loads(out.read_text())["results"]
    assert [(r["case"], r["dtype"]) for r in rows] == [("rms_norm/64x32", "bf16")]
    assert rows[0]["bytes_floor"] == 64 * 32 * 2 * 5


def test_list_needs_no_torch_and_a_run_without_it_says_what_to_install(tiny, monkeypatch, capsys):
    for name in list(sys.modules):
        if name.startswith("jpmhc.bench.peers"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert command.main(["--list"]) == 0
    assert "side_path/" in capsys.readouterr().out
    assert command.main(["--only", "^rms_norm"]) == 1
    assert "pip install 'jpmhc[torch]'" in capsys.readouterr().err
    with pytest.raises(MissingDependencyError):
        runner.prepare(TINY["rms_norm/64x32"], "f32", with_peers=True)


def test_no_such_case(tiny, capsys):
    assert command.main(["--only", "nothing like it"]) == 1
    assert "no case matches 'nothing like it'" in capsys.readouterr().err


def test_the_exponent_is_the_slope_of_the_logarithms():
    growth = Growth("g", (1, 2, 4), lambda size: None)
    assert runner.Exponent(growth, [3.0, 12.0, 48.0]).value == pytest.approx(2)


def test_peers_are_given_up_only_when_they_cannot_be_the_best():
    timings = {
        name: runner.Timing(name, 0.0, None, [ms])
        for name, ms in (("jpmhc", 1.0), ("a", 5.0), ("b", 9.0), ("c", 11.0))
    }
    assert runner._hopeful(list(timings), timings) == ["jpmhc", "a", "b"]
