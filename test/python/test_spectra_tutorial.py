# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The code of the tutorial on spectra runs, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "spectra-tutorial.md"


def test_code_prints_what_the_page_says():
    pytest.importorskip("jpmhc.manifolds", exc_type=ImportError)  # the page draws mixers
    blocks = re.findall(r"```(python|text)\n(.*?)```", PAGE.read_text(), re.S)
    assert [kind for kind, _ in blocks] == ["python", "text"] * (len(blocks) // 2)
    names: dict[str, object] = {}
    for (_, code), (_, expected) in zip(blocks[::2], blocks[1::2], strict=True):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(PAGE), "exec"), names)
        assert printed.getvalue() == expected, code


def test_pictures_are_there():
    for picture in re.findall(r"!\[.*?\]\((.*?)\)", PAGE.read_text()):
        assert (PAGE.parent / picture).read_bytes().startswith(b"\x89PNG"), picture
