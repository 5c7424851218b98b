# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tutorial of jpmhc.torch: its scripts agree, and the page shows what they contain."""

import pathlib
import re
import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="the extra jpmhc[torch] is not installed")

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "examples" / "torch"


def test_losses_are_equal_and_the_speed_is_printed():
    options = ["--steps=6", "--rows=64", "--dim=16", "--threads=1"]
    command = [sys.executable, SCRIPTS / "compare.py", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    difference = float(re.search(r"difference of a loss: (\S+)", done.stdout)[1])
    # Five steps of AdamW apart, in float32.
    assert difference < 1e-5
    assert float(re.search(r"speed: (\S+) times", done.stdout)[1]) > 0


def test_page_shows_the_scripts():
    page = (ROOT / "docs" / "torch.md").read_text()
    code = re.search(r"```python\n(def layer.*?)```", page, re.S)[1]
    for name in ("before.py", "after.py"):
        assert code in (SCRIPTS / name).read_text()
    old, new = (re.search(rf"^\{sign}(from .*)$", page, re.M)[1] for sign in ("-", "+"))
    assert (SCRIPTS / "before.py").read_text().count(old + "\n") == 1
    assert (SCRIPTS / "after.py").read_text().count(new + "\n") == 1
