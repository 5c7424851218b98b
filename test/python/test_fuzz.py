# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The fuzzers of files in short; `make check-long` runs each for ten minutes."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest

FUZZERS = Path(__file__).parents[1] / "fuzz" / "files.py"
COUNTS = {"checkpoints": 300, "cases": 100, "programs": 10}


@pytest.fixture(scope="module")
def files():
    spec = importlib.util.spec_from_file_location("fuzz_files", FUZZERS)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up there
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("target", COUNTS)
def test_no_input_is_more_than_refused(files, target, tmp_path):
    if target == "programs" and "JPMHC_BUILD" not in os.environ:
        pytest.skip("JPMHC_BUILD names no build that has a jpmhc-opt")
    count = COUNTS[target] + len(list((files.CORPUS / target).iterdir()))
    tried, wrong = files.fuzz(target, tmp_path, count=count, seed=0)
    assert tried == count
    assert wrong == {}


def test_a_finding_is_kept_and_named(files, tmp_path, monkeypatch):
    def fails(path):
        raise KeyError(path.name)

    target = files.TARGETS["checkpoints"]
    monkeypatch.setitem(
        files.TARGETS, "checkpoints", files.Target("checkpoints", ".x", target.seeds,
                                                   target.mutate, fails)
    )  # fmt: skip
    tried, wrong = files.fuzz("checkpoints", tmp_path, count=2)
    assert tried == len(wrong) == len(list(tmp_path.iterdir())) == 2
    assert all("KeyError" in text for text in wrong.values())
