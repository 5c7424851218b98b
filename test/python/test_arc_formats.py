# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC data on disk: the files of TRM and HRM, the native ones, and the command that writes them."""

import hashlib
import json
import struct
import zlib

import numpy as np
import pytest

from jpmhc.data import arc, cli
from jpmhc.data.arc import native_format, preview, trm_format
from jpmhc.data.output import OutputFolder
from jpmhc.errors import DataError, OutputError
from jpmhc.eval.arc_votes import Judge

GOLDEN_TRM = "6cf81e36398e383c9f4ce4daea157fc3c6639be62e9a16887003e026cf764215"
CANVAS = 5


def puzzles_of(**options):
    grids = np.random.default_rng(3).integers(0, 10, (12, 3, 2))
    pairs = [(g, g.T) for g in grids]
    sets = arc.TaskSets(
        (arc.Task.from_grids("a", pairs[:2], pairs[2:3]),),
        (
            arc.Task.from_grids("b", pairs[3:6], pairs[6:8]),
            arc.Task.from_grids("c", pairs[8:9], [(pairs[9][0], None)]),
        ),
        "made up",
    )
    return arc.ArcPuzzles(sets, **{"variants": 6, "canvas": CANVAS, "seed": 4, **options})


def write(folder, puzzles, module):
    with OutputFolder(folder, {"any": 1}) as output:
        module.write(output, puzzles)
    return folder


def equal(a, b):
    names = ("tokens", "labels", "puzzle_ids", "rows")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in names)


# ---- the files of TRM and HRM ----


def test_files_have_the_fields_and_types_of_the_scripts(tmp_path):
    puzzles = puzzles_of()
    folder = write(tmp_path / "data", puzzles, trm_format)
    metadata = json.loads((folder / "train/dataset.json").read_text())
    assert metadata == {
        "pad_id": 0,
        "ignore_label_id": 0,
        "blank_identifier_id": 0,
        "vocab_size": 12,
        "seq_len": 25,
        "num_puzzle_identifiers": 19,
        "total_groups": 3,
        "mean_puzzle_examples": pytest.approx((3 + 3 + 1) / 3),
        "total_puzzles": 18,
        "sets": ["all"],
    }
    for split, examples, puzzle_count in (("train", 42, 18), ("test", 18, 12)):
        arrays = {p.stem: np.load(p) for p in (folder / split).glob("all__*.npy")}
        assert {name: (a.dtype.name, a.shape) for name, a in arrays.items()} == {
            "all__inputs": ("uint8", (examples, 25)),
            "all__labels": ("uint8", (examples, 25)),
            "all__puzzle_identifiers": ("int32", (puzzle_count,)),
            "all__puzzle_indices": ("int32", (puzzle_count + 1,)),
            "all__group_indices": ("int32", (puzzle_count // 6 + 1,)),
        }
    names = json.loads((folder / "identifiers.json").read_text())
    assert names[0] == "<blank>" and names[1] == "a" and names[2].startswith("a|||t")
    tests = json.loads((folder / "test_puzzles.json").read_text())
    assert list(tests) == ["b", "c"] and tests["c"]["test"][0]["output"] == [[0]]


def test_stored_examples_are_the_pairs_of_the_tasks(tmp_path):
    """Read as the scripts do: by identifier, name and inverse, without this project's readers."""
    puzzles = puzzles_of(translate=False)
    folder = write(tmp_path / "data", puzzles, trm_format)
    names = json.loads((folder / "identifiers.json").read_text())
    tasks = {task.id: task for task in puzzles.tasks}
    for split in ("train", "test"):
        load = {f: np.load(folder / f"{split}/all__{f}.npy") for f in ("inputs", "labels")}
        starts = np.load(folder / f"{split}/all__puzzle_indices.npy")
        for place, identifier in enumerate(
            np.load(folder / f"{split}/all__puzzle_identifiers.npy")
        ):
            name, turn, colours = (*names[identifier].split("|||"), "t0", "0123456789")[:3]
            task = tasks[name]
            pairs = task.tests if split == "test" else task.pairs
            pairs = task.demonstrations if name != "a" and split == "train" else pairs
            for row, pair in zip(range(starts[place], starts[place + 1]), pairs, strict=True):
                for field, grid in (("inputs", pair.input), ("labels", pair.output)):
                    if grid is None:
                        assert not load[field][row].any()
                        continue
                    mapped = np.array([int(c) for c in colours])[grid]
                    turned = [
                        mapped,
                        np.rot90(mapped, 1),
                        np.rot90(mapped, 2),
                        np.rot90(mapped, 3),
                        np.fliplr(mapped),
                        np.flipud(mapped),
                        mapped.T,
                        np.fliplr(np.rot90(mapped, 1)),
                    ][int(turn[1])]
                    square = load[field][row].reshape(CANVAS, CANVAS)
                    rows, columns = turned.shape
                    np.testing.assert_array_equal(square[:rows, :columns], turned + 2)
                    assert (square[rows, :columns] == 1).all() and (
                        square[:rows, columns] == 1
                    ).all()
                    assert (square >= 1).sum() == rows * columns + rows + columns


def test_what_is_written_is_read_and_sampled_the_same(tmp_path):
    puzzles = puzzles_of()
    data = trm_format.TrmFolder(write(tmp_path / "data", puzzles, trm_format))
    assert data.identifiers == puzzles.identifiers()
    assert [task.id for task in data.tests] == ["b", "c"]
    for stored, own in ((data.training, puzzles.training), (data.evaluation, puzzles.evaluation)):
        for size, seed in ((2, 0), (3, 5)):
            a, b = (arc.TrainingBatches(table, size, seed=seed) for table in (stored, own))
            assert all(equal(a.at_step(k), b.at_step(k)) for k in range(8))
    for a, b in zip(
        arc.EvaluationBatches(data.evaluation, 4),
        arc.EvaluationBatches(puzzles.evaluation, 4),
        strict=True,
    ):
        assert equal(a, b)
    assert isinstance(data.training.inputs, np.memmap)


def test_a_split_without_examples_is_left_out(tmp_path):
    sets = puzzles_of().sets
    puzzles = arc.ArcPuzzles(arc.TaskSets(sets.training, ()), variants=3, canvas=CANVAS)
    assert len(puzzles.evaluation) == 0 and not list(arc.EvaluationBatches(puzzles.evaluation, 4))
    assert len(puzzles.evaluation.materialise()) == 0
    folder = write(tmp_path / "data", puzzles, trm_format)
    assert not (folder / "test").exists()
    assert trm_format.TrmFolder(folder).evaluation is None
    assert len(native_format.read(write(tmp_path / "n", puzzles, native_format)).evaluation) == 0


def test_stored_examples_are_judged(tmp_path):
    data = trm_format.TrmFolder(write(tmp_path / "data", puzzles_of(), trm_format))
    judge = Judge(data.tests[:1], data.identifiers, CANVAS)
    rows = np.flatnonzero(data.evaluation.puzzle_ids[data.evaluation.puzzles_of(range(18))] < 13)
    batch = data.evaluation.batch(rows)
    judge.add(batch, np.where(batch.labels == arc.IGNORE, 0, batch.labels))
    assert judge.result().pass_at_votes(1) == 1.0


def scripted(folder, separator="|||", sets=("all",), metadata=()):
    """A folder as the scripts write one: two groups, of two and of one puzzle."""
    (folder / "train").mkdir(parents=True)
    tokens = np.zeros((5, 9), np.uint8)
    tokens[:, 0] = [3, 4, 5, 6, 7]
    tokens[:, [1, 3]] = 1
    names = ["<blank>", "a", separator.join(["a", "t1", "0213456789"]), "b"]
    (folder / "identifiers.json").write_text(json.dumps(names))
    description = {
        "pad_id": 0,
        "ignore_label_id": 0,
        "blank_identifier_id": 0,
        "vocab_size": 12,
        "seq_len": 9,
        "num_puzzle_identifiers": 4,
        "total_groups": 2,
        "mean_puzzle_examples": 5 / 3,
        "sets": list(sets),
        **dict(metadata),
    }
    (folder / "train/dataset.json").write_text(json.dumps(description))
    arrays = {
        "inputs": tokens,
        "labels": tokens,
        "puzzle_identifiers": np.array([1, 2, 3], np.int32),
        "puzzle_indices": np.array([0, 2, 4, 5], np.int32),
        "group_indices": np.array([0, 2, 3], np.int32),
    }
    for name in sets:
        for field, array in arrays.items():
            np.save(folder / f"train/{name}__{field}.npy", array)
    return folder


def test_a_folder_of_the_scripts_is_read(tmp_path):
    data = trm_format.TrmFolder(scripted(tmp_path / "x", separator="_", sets=("all", "more")))
    assert data.evaluation is None and data.tests == ()
    assert arc.parse_name(data.identifiers[2])[1].dihedral == 1
    batch = arc.TrainingBatches(data.training, 3, seed=0).at_step(0)
    assert batch.tokens.dtype == np.int32 and (batch.labels[:, 8] == arc.IGNORE).all()
    assert trm_format.TrmFolder(tmp_path / "x", "more").training.num_groups == 2


def spoil_array(field, array):
    def spoil(folder):
        np.save(folder / f"train/all__{field}.npy", array)

    return spoil


def spoil_json(name, change):
    def spoil(folder):
        path = folder / name
        value = json.loads(path.read_text())
        change(value)
        path.write_text(json.dumps(value))

    return spoil


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "identifiers.json").unlink(), "identifiers.json: cannot read"),
        (lambda f: (f / "identifiers.json").write_text("{}"), "expected a list, got an object"),
        (lambda f: (f / "identifiers.json").write_text("["), "identifiers.json: no JSON"),
        (lambda f: (f / "train/all__inputs.npy").unlink(), "all__inputs.npy: cannot read"),
        (lambda f: (f / "train/all__labels.npy").write_bytes(b"x"), "labels.npy: no NumPy array"),
        (spoil_json("identifiers.json", lambda v: v.pop()), "expected 4 names, got 3"),
        (spoil_json("train/dataset.json", lambda v: v.pop("seq_len")), "bad field 'seq_len'"),
        (spoil_json("train/dataset.json", lambda v: v.update(seq_len=8)), "a square .*got 8"),
        (spoil_json("train/dataset.json", lambda v: v.update(vocab_size=13)), "not of ARC"),
        (spoil_json("train/dataset.json", lambda v: v.update(sets=[])), "bad field 'sets'"),
        (spoil_array("inputs", np.zeros((5, 8), np.uint8)), r"inputs.npy.*got uint8 \[5, 8\]"),
        (spoil_array("labels", np.zeros((4, 9), np.uint8)), "labels.npy: bad array"),
        (spoil_array("labels", np.zeros((5, 9))), "labels.npy: .*got float64"),
        (spoil_array("puzzle_indices", np.array([0, 2, 2, 5])), "rising from 0 to 5"),
        (spoil_array("puzzle_indices", np.array([0, 2, 4, 6])), "rising from 0 to 5, got 0 to 6"),
        (spoil_array("group_indices", np.array([0, 4])), "group_indices.npy: .*0 to 3"),
        (spoil_array("group_indices", np.zeros((0,), int)), "group_indices.npy"),
        (spoil_array("puzzle_identifiers", np.array([1, 2])), "puzzle_identifiers.npy"),
        (spoil_array("puzzle_identifiers", np.array([1, 2, 4])), r"expected 0\.\.3, got 1\.\.4"),
    ],
)
def test_a_malformed_folder_is_named_with_file_and_field(tmp_path, spoil, message):
    folder = scripted(tmp_path / "x")
    spoil(folder)
    with pytest.raises(DataError, match=message) as caught:
        trm_format.TrmFolder(folder)
    assert str(folder) in str(caught.value)


def test_a_folder_without_data_or_set(tmp_path):
    (tmp_path / "identifiers.json").write_text("[]")
    with pytest.raises(DataError, match="no data"):
        trm_format.TrmFolder(tmp_path)
    with pytest.raises(DataError, match="no such set.*got other"):
        trm_format.TrmFolder(scripted(tmp_path / "x"), "other")


def test_stopped_writing_goes_on_to_the_same_files(tmp_path, monkeypatch):
    monkeypatch.setattr(trm_format, "ROWS_AT_ONCE", 5)
    whole = write(tmp_path / "whole", puzzles_of(), trm_format)

    def stopping(steps, total):
        for number in steps:
            if number == 7:
                raise KeyboardInterrupt
            yield number

    with pytest.raises(KeyboardInterrupt):
        with OutputFolder(tmp_path / "parts", {"any": 1}) as output:
            trm_format.write(output, puzzles_of(), stopping)
    with open(tmp_path / "parts.partial/train/all__inputs.npy", "ab") as file:
        file.write(b"what was written after the last step")
    totals = []
    with OutputFolder(tmp_path / "parts", {"any": 1}) as output:
        trm_format.write(output, puzzles_of(), lambda s, total: totals.append(total) or s)
    assert totals == [13 - 7]
    files = {p.relative_to(whole): p.read_bytes() for p in whole.rglob("*") if p.is_file()}
    again = tmp_path / "parts"
    assert files == {p.relative_to(again): p.read_bytes() for p in again.rglob("*") if p.is_file()}


def test_files_stay_what_they_are(tmp_path):
    folder = write(tmp_path / "x", puzzles_of(), trm_format)
    digest = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file()):
        digest.update(path.relative_to(folder).as_posix().encode() + path.read_bytes())
    assert digest.hexdigest() == GOLDEN_TRM


# ---- the native files ----


def test_native_files_give_the_same_puzzles(tmp_path):
    puzzles = puzzles_of()
    read = native_format.read(write(tmp_path / "x", puzzles, native_format))
    assert read.identifiers() == puzzles.identifiers()
    assert read.sets.origin == "made up" and read.seed == 4
    for a, b in ((read.training, puzzles.training), (read.evaluation, puzzles.evaluation)):
        assert equal(a.batch(np.arange(len(a))), b.batch(np.arange(len(b))))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: (f / "dataset.json").unlink(), "dataset.json: cannot read"),
        (lambda f: (f / "variants.npy").write_bytes(b"x"), "malformed"),
        (spoil_json("dataset.json", lambda v: v.update(version=2)), "other format"),
        (
            spoil_json("dataset.json", lambda v: v.pop("canvas")),
            "bad field 'canvas': expected a whole number",
        ),
        (spoil_json("dataset.json", lambda v: v["training"]["a"].pop("train")), "task a"),
        (lambda f: np.save(f / "variants_of.npy", [6, 6]), "bad numbers of variants"),
        (lambda f: np.save(f / "variants_of.npy", [6, 6, 7]), "expected uint8"),
        (lambda f: np.save(f / "variants.npy", np.ones((18, 11), np.uint8)), "in row 0"),
    ],
)
def test_malformed_native_files(tmp_path, spoil, message):
    folder = write(tmp_path / "x", puzzles_of(), native_format)
    spoil(folder)
    with pytest.raises(DataError, match=message) as caught:
        native_format.read(folder)
    assert str(folder) in str(caught.value)


# ---- pictures ----


def test_a_canvas_as_text():
    canvas = arc.encode_grid(np.array([[0, 7]], np.uint8), 3).reshape(3, 3)
    labels = np.where(canvas == arc.PAD, arc.IGNORE, canvas.astype(int))
    assert preview.text([canvas, labels], coloured=False) == (
        "0 7 |   0 7 |\n| | .   | | .\n. . .   . . ."
    )
    coloured = preview.text([canvas], coloured=True)
    assert coloured.count("\x1b[48;2;") == 9 and "\x1b[48;2;255;133;27m  " in coloured  # orange


def test_a_picture_is_a_png_of_the_cells(tmp_path):
    canvas = arc.encode_grid(np.array([[2]], np.uint8), 2).reshape(2, 2)
    image = preview.picture([(canvas, canvas)] * 9)  # two rows of eight
    assert image.shape == (2 * 2 * (2 * 9 + 1 + 18), 8 * (2 * 9 + 1 + 18), 3)
    assert image[9 + 4, 9 + 4].tolist() == [0xFF, 0x41, 0x36]  # red
    preview.write_png(tmp_path / "x.png", image)
    data = (tmp_path / "x.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    assert (height, width, 3) == image.shape
    start = data.index(b"IDAT")
    (length,) = struct.unpack(">I", data[start - 4 : start])
    raw = np.frombuffer(zlib.decompress(data[start + 4 : start + 4 + length]), np.uint8)
    np.testing.assert_array_equal(raw.reshape(height, -1)[:, 1:], image.reshape(height, -1))
    with pytest.raises(OutputError):
        preview.write_png(tmp_path / "no/x.png", image)


# ---- the command ----


@pytest.fixture
def source(tmp_path):
    puzzles = puzzles_of()
    for name, tasks in (
        ("training", puzzles.sets.training),
        ("evaluation", puzzles.sets.evaluation),
    ):
        folder = tmp_path / "tasks" / name
        folder.mkdir(parents=True)
        for task in tasks:
            (folder / f"{task.id}.json").write_text(json.dumps(task.to_json()))
    return str(tmp_path / "tasks")


def test_command_writes_both_formats_of_the_same_data(source, tmp_path, capsys):
    for kind in ("trm", "native"):
        arguments = f"arc --source {source} --augmentations 5 --canvas 5 --seed 4 --format {kind}"
        arguments = [*arguments.split(), "-o", str(tmp_path / kind), "--preview", "4"]
        assert cli.main([*arguments, "--stats", "--licence", "mine"]) == 0
    out, err = capsys.readouterr()
    assert "training examples: 42" in out and "a|||t" in out
    assert "parts of 2048 examples: 2" in err and err.count("tasks varied: ") == 2
    stored = trm_format.TrmFolder(tmp_path / "trm")
    lazy = native_format.read(tmp_path / "native")
    rows = np.arange(42)
    assert equal(stored.training.batch(rows), lazy.training.batch(rows))
    for kind in ("trm", "native"):
        card = json.loads((tmp_path / kind / "card.json").read_text())
        assert card["licence"] == "mine" and card["command_line"].startswith("jpmhc-data arc")
        assert card["counts"]["evaluation examples"] == 18
        assert "preview.png" in card["hashes"] and (tmp_path / kind / "README.md").exists()
        for name, digest in card["hashes"].items():
            assert hashlib.sha256((tmp_path / kind / name).read_bytes()).hexdigest() == digest


def test_command_draws_without_a_preview(source, tmp_path, capsys):
    path = tmp_path / "x.png"
    assert cli.main(["arc", "--source", source, "--augmentations", "5", "--png", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG") and capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-grid", "31"], "bad --max-grid: expected 1..30, got 31"),
        (["--canvas", "1000"], "bad canvas: expected 1..256, got 1000"),
        (["--seed", "-1"], "seed out of range: expected 0 <= value < 2**64, got -1"),
        (["--augmentations", "-1"], "bad --augmentations: expected 0..99999, got -1"),
        (["--max-grid", "1"], "no tasks"),
        (["--canvas", "2"], "grid larger than the canvas"),
        (["--source", "/nothing"], "no such source"),
    ],
)
def test_command_says_what_is_wrong(source, arguments, message, capsys):
    assert cli.main(["arc", "--source", source, *arguments]) == 1
    err = capsys.readouterr().err
    assert err.startswith("error: ") and message in err and err.count("\n") == 1
