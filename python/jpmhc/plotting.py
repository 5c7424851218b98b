# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The picture of a training run on ARC grids: loss, accuracy and a few predictions."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc._libraries import missing
from jpmhc.data.arc import NUM_COLOURS
from jpmhc.errors import ConfigError, OutputError
from jpmhc.files import replacing

__all__ = ["COLOURS", "Sample", "new_figure", "report", "save_figure"]

# The colours 0..9 of the ARC web page.
COLOURS = (
    "#000000",
    "#0074d9",
    "#ff4136",
    "#2ecc40",
    "#ffdc00",
    "#aaaaaa",
    "#f012be",
    "#ff851b",
    "#7fdbff",
    "#870c25",
)

_INK, _FAINT, _BLUE, _ORANGE = "#222222", "#999999", "#1f5fa8", "#c8531c"
_BASELINE_STYLES = (":", "--", "-.")
_MOST_SAMPLES = 8
_MARGIN, _NARROWEST = 0.4, 3.4  # around a grid and least of a column, in cells
_SMOOTHING = 50  # the neighbourhood of the smoothed line reaches 1/50 of the curve either way


@dataclass(frozen=True, eq=False)
class Sample:
    """A task's grids to show, each integers 0..9 [rows, columns]; a prediction may be empty."""

    name: str
    input: np.ndarray
    truth: np.ndarray
    prediction: np.ndarray


def report(
    path: str | os.PathLike,
    records: Sequence[Mapping],
    *,
    baselines: Mapping[str, float] | None = None,
    samples: Sequence[Sample] = (),
    title: str = "",
    accuracy: str = "cell_accuracy",
) -> None:
    """Draw a run as a PNG file.

    Args:
        path: the file, replaced as a whole.
        records: such as `jpmhc.training.read_metrics` gives: those with "loss" make the curve
            of the loss, those with `accuracy` that of held-out accuracy.
        baselines: accuracies by name, drawn as level lines.
        samples: grids to show, of which the first 8 are.
        title: one line above all.
        accuracy: the name of the accuracy in the records.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigError: a sample has a colour outside 0..9.
        OutputError: the file cannot be written.
    """
    samples = list(samples)[:_MOST_SAMPLES]
    for sample in samples:
        _check(sample)
    height = 9 if samples else 4.4
    figure = new_figure((11, height))
    figure.get_layout_engine().set(w_pad=0.12, h_pad=0.08)
    if title:
        figure.suptitle(title, fontsize=14, color=_INK)
    curves = figure
    if samples:
        curves, grids = figure.subfigures(2, 1, height_ratios=(1, 1.15), hspace=0.04)
        _draw_samples(grids, samples)
    left, right = curves.subplots(1, 2, sharex=True)
    _draw_loss(left, records)
    _draw_accuracy(right, records, accuracy, baselines or {})
    save_figure(figure, path)


def _check(sample: Sample) -> None:
    for name in ("input", "truth", "prediction"):
        grid = np.asarray(getattr(sample, name))
        wrong = grid[(grid < 0) | (grid >= NUM_COLOURS)]
        if wrong.size:
            where, expected = f"sample {sample.name}, {name}", f"colours 0..{NUM_COLOURS - 1}"
            raise ConfigError("bad grid", expected=expected, given=wrong[0], where=where)


def new_figure(size: tuple[float, float]):
    """An empty matplotlib figure of so many inches, for `save_figure`.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("matplotlib", "the picture") from error
    return Figure(figsize=size, dpi=120, facecolor="white", layout="constrained")


def save_figure(figure, path: str | os.PathLike) -> None:
    """Writes a figure as a PNG file, replaced as a whole.

    Raises:
        OutputError: the file cannot be written.
    """
    try:
        with replacing(path) as file:
            # Without the name of the program, so that equal runs make equal files.
            figure.savefig(file, format="png", metadata={"Software": None})
    except OSError as error:
        given = error.strerror or error
        raise OutputError("cannot write the picture", given=given, where=path) from error


def _series(records: Sequence[Mapping], name: str) -> tuple[np.ndarray, np.ndarray]:
    """Steps and values of the records that have a value of this name."""
    pairs = [(record["step"], record[name]) for record in records if name in record]
    steps, values = zip(*pairs, strict=True) if pairs else ((), ())
    return np.array(steps, dtype=float), np.array(values, dtype=float)


def _smooth(values: np.ndarray) -> np.ndarray:
    """The mean of what is finite around each value: unlike a running mean it does not lag."""
    finite = np.isfinite(values)
    sums = np.concatenate([[0.0], np.cumsum(np.where(finite, values, 0.0))])
    counts = np.concatenate([[0], np.cumsum(finite)])
    k, reach = np.arange(len(values)), len(values) // _SMOOTHING
    first, last = np.maximum(k - reach, 0), np.minimum(k + reach + 1, len(values))
    count = (counts[last] - counts[first]).astype(float)
    count[count == 0] = np.nan
    return (sums[last] - sums[first]) / count


def _dress(axes, heading: str) -> None:
    axes.set_title(heading, loc="left", fontsize=11, color=_INK)
    axes.set_xlabel("step", color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)


def _draw_loss(axes, records: Sequence[Mapping]) -> None:
    steps, values = _series(records, "loss")
    if len(values) >= 20:
        axes.plot(steps, values, color=_BLUE, alpha=0.25, linewidth=0.8, label="each record")
        axes.plot(steps, _smooth(values), color=_BLUE, linewidth=1.8, label="smoothed")
        axes.legend(frameon=False, fontsize=9, loc="upper right")
    else:
        axes.plot(steps, values, color=_BLUE, linewidth=1.8, marker="o", markersize=3)
    axes.set_ylim(bottom=0)
    _dress(axes, "Training loss")


def _draw_accuracy(
    axes, records: Sequence[Mapping], name: str, baselines: Mapping[str, float]
) -> None:
    steps, values = _series(records, name)
    axes.plot(steps, values, color=_ORANGE, linewidth=1.8, marker="o", markersize=3, label="model")
    for k, (baseline, level) in enumerate(baselines.items()):
        style = _BASELINE_STYLES[k % len(_BASELINE_STYLES)]
        label = f"{baseline} ({level:.3f})"
        axes.axhline(level, color=_INK, linewidth=1.2, linestyle=style, label=label)
    if len(values):
        axes.annotate(
            f"{values[-1]:.3f}",
            (steps[-1], values[-1]),
            xytext=(-2, 7),
            textcoords="offset points",
            ha="right",
            color=_ORANGE,
        )
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    _dress(axes, f"Held-out {name.replace('_', ' ')}")


def _draw_samples(figure, samples: Sequence[Sample]) -> None:
    kinds = ("input", "truth", "prediction")
    grids = [[np.asarray(getattr(sample, kind)) for sample in samples] for kind in kinds]
    # Each row and column as large as its largest grid: all cells are drawn equally large.
    heights = [max(grid.shape[0] for grid in row) + _MARGIN for row in grids]
    widths = [
        max(grid.shape[1] for grid in column) + _MARGIN for column in zip(*grids, strict=True)
    ]
    widths = [max(width, _NARROWEST) for width in widths]  # room for the text above and below
    axes = figure.subplots(
        len(kinds), len(samples), squeeze=False, height_ratios=heights, width_ratios=widths
    )
    for row, kind in enumerate(kinds):
        axes[row, 0].set_ylabel(kind, fontsize=11, color=_INK)
        for column in range(len(samples)):
            _draw_grid(axes[row, column], grids[row][column], heights[row], widths[column])
    for column, sample in enumerate(samples):
        axes[0, column].set_title(sample.name, fontsize=9, color=_INK)
        verdict, colour = _verdict(sample)
        axes[-1, column].set_xlabel(verdict, fontsize=9, color=colour)


def _draw_grid(axes, grid: np.ndarray, height: float, width: float) -> None:
    """Draw a grid in the middle of a space of that many cells."""
    from matplotlib.colors import ListedColormap

    rows, columns = grid.shape
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    axes.set_aspect("equal")
    axes.set_xlim((columns - width) / 2, (columns + width) / 2)
    axes.set_ylim((rows + height) / 2, (rows - height) / 2)
    if grid.size == 0:
        axes.text(columns / 2, rows / 2, "no grid", ha="center", va="center", color=_FAINT)
        return
    axes.pcolormesh(
        np.arange(columns + 1),
        np.arange(rows + 1),
        grid,
        cmap=ListedColormap(COLOURS),
        vmin=-0.5,
        vmax=NUM_COLOURS - 0.5,
        edgecolors="#555555",
        linewidth=0.6,
    )


def _verdict(sample: Sample) -> tuple[str, str]:
    """What to write below a prediction, and in which colour."""
    truth, prediction = np.asarray(sample.truth), np.asarray(sample.prediction)
    if truth.shape != prediction.shape:
        return "wrong size", _INK
    wrong = int((truth != prediction).sum())
    if wrong == 0:
        return "exact", "#1a7f37"
    return f"{wrong} of {truth.size} wrong", _INK
