# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.plotting: that what should be in the picture is there."""

import io
import math
import os
import sys

import numpy as np
import pytest

from jpmhc.errors import ConfigError, MissingDependencyError, OutputError

pytest.importorskip("matplotlib")
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread

from jpmhc import plotting


def records(count=60):
    losses = [{"step": step, "loss": 2 / step} for step in range(1, count)]
    return losses + [{"step": step, "cell_accuracy": step / count} for step in range(10, count, 10)]


def sample(prediction=None):
    grid = np.arange(10).reshape(2, 5)
    return plotting.Sample("a1b2c3d4", grid, grid, grid if prediction is None else prediction)


@pytest.fixture
def drawn(tmp_path, monkeypatch):
    """Draws a report and returns the figure that was saved, and the picture's pixels."""
    figures = []
    save = Figure.savefig

    def spy(figure, file, **options):
        figures.append(figure)
        save(figure, file, **options)

    monkeypatch.setattr(Figure, "savefig", spy)

    def draw(*arguments, **options):
        plotting.report(tmp_path / "report.png", *arguments, **options)
        assert os.listdir(tmp_path) == ["report.png"]
        return figures[-1], imread(tmp_path / "report.png")

    return draw


def texts(figure):
    from matplotlib.text import Text

    return [text.get_text() for text in figure.findobj(Text)]


def has_colour(pixels, colour):
    return (np.abs(pixels[..., :3] - to_rgb(colour)).max(axis=-1) < 0.01).sum() > 50


def test_curves_baselines_and_grids_are_drawn(drawn):
    baselines = {"copy the input": 0.25, "commonest colour": 0.5}
    figure, pixels = drawn(records(), baselines=baselines, samples=[sample()], title="a run")
    shown = texts(figure)
    for text in ("a run", "Training loss", "Held-out cell accuracy", "a1b2c3d4", "exact"):
        assert text in shown
    assert {"input", "truth", "prediction"} <= set(shown)
    assert {"copy the input (0.250)", "commonest colour (0.500)"} <= set(shown)
    lines = figure.subfigs[0].axes[1].get_lines()
    assert [line.get_ydata()[0] for line in lines[1:]] == [0.25, 0.5]
    assert all(has_colour(pixels, colour) for colour in plotting.COLOURS)


@pytest.mark.parametrize(
    ("prediction", "verdict"),
    [
        (np.zeros((2, 5), int), "9 of 10 wrong"),
        (np.zeros((2, 4), int), "wrong size"),
        (np.zeros((0, 0), int), "no grid"),
    ],
)
def test_wrong_predictions_are_told(drawn, prediction, verdict):
    figure, _ = drawn(records(), samples=[sample(prediction)])
    assert verdict in texts(figure)
    assert "exact" not in texts(figure)


def test_a_run_without_anything_to_show_is_drawn(drawn):
    _, pixels = drawn([])
    assert pixels.shape[0] < pixels.shape[1]
    drawn([{"step": 1, "loss": math.nan}])


def test_equal_runs_make_equal_files(tmp_path):
    for name in ("a", "b"):
        plotting.report(tmp_path / name, records(), samples=[sample()])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_smoothed_curve_follows_a_slope_and_passes_over_gaps():
    line = np.arange(200.0)
    smooth = plotting._smooth(line)
    np.testing.assert_allclose(smooth[4:-4], line[4:-4])  # the neighbourhood is 4 on each side
    line[100] = math.nan
    assert np.isfinite(plotting._smooth(line)).all()
    assert np.isnan(plotting._smooth(np.full(60, math.nan))).all()
    np.testing.assert_array_equal(plotting._smooth(np.array([3.0])), [3.0])


def test_missing_matplotlib_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingDependencyError, match=r"jpmhc\[plot\]"):
        plotting.report(tmp_path / "r.png", [])


def test_a_colour_outside_the_palette_is_named(tmp_path):
    with pytest.raises(ConfigError, match="sample a1b2c3d4, prediction: .*0..9, got 10"):
        plotting.report(tmp_path / "r.png", [], samples=[sample(np.array([[10]]))])
    assert os.listdir(tmp_path) == []


def test_a_picture_that_cannot_be_written_is_a_typed_error(tmp_path):
    with pytest.raises(OutputError, match="No such file"):
        plotting.report(tmp_path / "none" / "r.png", [])


def test_the_picture_can_be_read_back_at_its_size(tmp_path):
    plotting.report(tmp_path / "r.png", records(), samples=[sample()] * 20)
    pixels = imread(io.BytesIO((tmp_path / "r.png").read_bytes()))
    assert pixels.shape[:2] == (1080, 1320)
