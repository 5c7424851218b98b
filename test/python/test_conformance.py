# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The conformance runner: the format, the measure of error, the command line; then all cases."""

import copy
import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from jpmhc import errors
from jpmhc.conformance import __main__ as command
from jpmhc.conformance import load_cases, run_case
from jpmhc.conformance.runner import error_of


def case(**changes):
    content = {
        "id": "norm",
        "op": "rms_norm",
        "attrs": {"eps": 1e-5},
        "inputs": {"x": {"type": "float", "shape": [1, 2], "data": [3.0, 4.0]}},
        "outputs": {
            "out": {"type": "float", "shape": [1, 2], "data": [0.848528, 1.131370]},
        },
        "scale": {"out": 1.0},
        "tolerance": {"f32": {"out": 1e-5, "grad": 1e-5}},
    }
    content.update(changes)
    return content


def write(path, *cases, form=1):
    path.write_text(json.dumps({"format": form, "cases": list(cases)}))
    return str(path)


def test_a_right_case_passes_and_the_count_closes(tmp_path, capsys):
    out = tmp_path / "out.json"
    status = command.main([write(tmp_path / "c.json", case()), "--json", str(out)])
    assert status == 0
    assert capsys.readouterr().out.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"
    written = json.loads(out.read_text())
    assert written["passed"] == 1 and written["cases"][0]["errors"]["out"] < 1e-5


def test_a_wrong_case_fails_with_error_and_bound(tmp_path, capsys):
    wrong = case()
    wrong["outputs"]["out"]["data"][0] = 0.9
    assert command.main([write(tmp_path / "c.json", wrong, case(id="right"))]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("failed: norm: out error 0.0515 > 1e-05")
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_a_skip_names_the_missing_thing(tmp_path, capsys):
    cases = [case(id="a", op="warp"), case(id="b", dtypes=["bf16"])]
    assert command.main([write(tmp_path / "c.json", *cases)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "op 'warp'" in lines[0] and "bf16" in lines[1]
    assert lines[-1] == "0 passed, 0 failed, 2 skipped"


def test_only_chooses_by_regular_expression(tmp_path, capsys):
    path = write(tmp_path / "c.json", case(id="one"), case(id="two"))
    assert command.main([path, "--only", "^t"]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed, 0 skipped\n"


def test_gzip_is_read(tmp_path):
    path = tmp_path / "c.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"format": 1, "cases": [case()]}).encode()))
    assert load_cases(path)[0].id == "norm"


def change(path, value):
    def apply(content):
        node = content
        for key in path[:-1]:
            node = node[key]
        if value is None:
            del node[path[-1]]
        else:
            node[path[-1]] = value
        return content

    return apply


@pytest.mark.parametrize(
    "path, value, text",
    [
        (["id"], 3, "id"),
        (["op"], None, "op"),
        (["inputs"], [], "inputs"),
        (["inputs", "x", "type"], "complex", "complex"),
        (["inputs", "x", "shape"], [1, -2], "shape"),
        (["inputs", "x", "shape"], [1, 3], "expected 3 numbers, got 2"),
        (["inputs", "x", "data"], [1.0, "many"], "many"),
        (["inputs", "x", "data"], [1.0, True], "True"),
        (["outputs"], None, "outputs"),
        (["scale"], {}, "an entry for out"),
        (["scale"], {"out": "big"}, "big"),
        (["tolerance", "f32", "out"], -1, "-1"),
        (["grads"], {"y": {"type": "float", "shape": [], "data": [0.0]}}, "one of an input"),
        (["grads"], {"x": {"type": "float", "shape": [], "data": [0.0]}}, "shape (1, 2)"),
        (["cotangents"], {"z": {"type": "float", "shape": [], "data": [0.0]}}, "got z"),
        (["dtypes"], "f32", "dtypes"),
    ],
)
def test_malformed_cases_are_typed(tmp_path, path, value, text):
    content = change(path, value)(copy.deepcopy(case()))
    with pytest.raises(errors.DataError) as caught:
        load_cases(write(tmp_path / "c.json", content))
    assert text in str(caught.value) and "c.json" in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 2, "cases": []}', '{"format": 1}'])
def test_malformed_files_are_typed(tmp_path, text, capsys):
    path = tmp_path / "c.json"
    path.write_text(text)
    with pytest.raises(errors.DataError):
        load_cases(path)
    assert command.main([str(path)]) == 2
    assert "DataError" in capsys.readouterr().err


def test_error_measure():
    inf, nan = np.inf, np.nan
    one = np.float64(1)
    assert error_of(np.array([1.0, 2.0]), np.array([1.0, 3.0]), np.float64(2)) == 0.5
    assert error_of(np.array([1.0, 2.0]), np.array([0.0, 3.0]), np.array([4.0, 1.0])) == 1.0
    assert error_of(np.array([inf, nan]), np.array([inf, nan]), one) == 0
    assert error_of(np.array([-inf]), np.array([inf]), one) == inf
    assert error_of(np.array([nan]), np.array([1.0]), one) == inf
    assert error_of(np.zeros((2,)), np.zeros((3,)), one) == inf
    assert error_of(np.array([0.0]), np.array([0.0]), np.array([0.0])) == 0
    assert error_of(np.array([1e-9]), np.array([0.0]), np.array([0.0])) == inf
    assert error_of(np.zeros((0, 3)), np.zeros((0, 3)), one) == 0


def test_missing_attribute_is_a_failure_not_a_crash(tmp_path):
    path = write(tmp_path / "c.json", case(op="box", attrs={}))
    outcome = run_case(load_cases(path)[0])
    assert outcome.status == "failed" and "width" in outcome.reason


VECTORS = sorted((Path(__file__).parents[1] / "data" / "vectors").glob("*.json.gz"))


@pytest.mark.parametrize("path", VECTORS, ids=lambda path: path.name.split(".")[0])
def test_every_case_holds_in_f32(path, capsys):
    """A minute on two cores, nearly all of it compilation."""
    status = command.main([str(path), "--jobs", "2"])
    lines = capsys.readouterr().out.splitlines()
    assert status == 0, "\n".join(lines)
    assert int(lines[-1].split()[0]) > 0
