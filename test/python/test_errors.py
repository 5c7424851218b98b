# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.errors."""

import pathlib
import re
import tomllib

import pytest

from jpmhc import _libraries, errors


def test_the_text_has_the_parts_that_were_given():
    full = errors.ShapeError("bad x", expected=[2], given=[3], where="f.py:7", hint="transpose it")
    assert str(full) == "f.py:7: bad x: expected [2], got [3] (transpose it)"
    assert str(errors.ShapeError("bad x", given=0)) == "bad x: got 0"
    assert str(errors.ShapeError("bad x")) == "bad x"
    assert (full.expected, full.given, full.where) == ([2], [3], "f.py:7")


@pytest.mark.parametrize(
    ("kind", "builtin"),
    [
        (errors.ShapeError, ValueError),
        (errors.DTypeError, TypeError),
        (errors.LayoutError, ValueError),
        (errors.RangeError, IndexError),
        (errors.ConfigError, ValueError),
        (errors.DataError, ValueError),
        (errors.MissingDependencyError, ImportError),
        (errors.CheckpointError, RuntimeError),
        (errors.OutputError, RuntimeError),
        (errors.CompileError, RuntimeError),
        (errors.InternalError, RuntimeError),
    ],
)
def test_each_error_is_also_the_builtin_one_expects(kind, builtin):
    error = kind("wrong", expected=1, given=2)
    assert isinstance(error, errors.JpmhcError) and isinstance(error, builtin)
    assert str(error).endswith("wrong: expected 1, got 2")


def test_an_internal_error_says_whose_fault_it_is_and_where_the_reproducer_lies():
    error = errors.InternalError("pass failed", where="a.py:1", reproducer="r.mlir")
    assert str(error) == (
        "internal failure of jpmhc: a.py:1: pass failed; reproducer written to r.mlir"
    )


def test_unknown_names_suggest_the_nearest():
    error = errors.unknown_name("manifold", "stiefl", ["stiefel", "birkhoff"], where="m.py:3")
    assert isinstance(error, errors.ConfigError)
    assert str(error) == (
        "m.py:3: unknown manifold: expected one of birkhoff, stiefel, got 'stiefl' "
        "(did you mean 'stiefel'?)"
    )
    assert "mean" not in str(errors.unknown_name("manifold", "zzz", ["stiefel"]))
    assert "expected none" in str(errors.unknown_name("manifold", "zzz", []))


def test_the_extras_that_errors_name_exist():
    root = pathlib.Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    sources = (path.read_text() for path in (root / "python/jpmhc").rglob("*.py"))
    named = {extra for text in sources for extra in re.findall(r"'jpmhc\[(\w+)\]'", text)}
    extras = project["optional-dependencies"]
    assert "ptx" in named <= set(extras)
    for package, (extra, _) in _libraries.EXTRAS.items():
        assert any(re.match(rf"{package}\b", requirement) for requirement in extras[extra]), package
