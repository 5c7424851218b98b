# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures of scores over training steps and over lengths, with intervals over seeds."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from jpmhc.errors import DataError
from jpmhc.eval.statistics import Interval, bootstrap, interval_text
from jpmhc.eval.tables import short_length
from jpmhc.plotting import new_figure, save_figure

__all__ = ["accuracy_over_length", "learning_curves"]

_COLOURS = ("#1f5fa8", "#c8531c", "#2d7d46", "#7a4fa3", "#8c6d1f", "#444444")
_MARKERS = "osD^vP"
_INK = "#222222"
_SIZE = (8.5, 4.8)

Scores = Mapping[float, Sequence[float]]


def learning_curves(
    path: str | os.PathLike,
    runs: Mapping[str, Sequence[tuple[Sequence[float], Sequence[float]]]],
    *,
    title: str,
    ylabel: str = "accuracy",
    **options: object,
) -> None:
    """Draws the mean over seeds at each step, with its interval as a band.

    Args:
        path: the PNG file.
        runs: by model, for each seed its steps and the values at them; the seeds of a model have
            the same steps.
        title: what it is; n and the kind of interval are added.
        ylabel: of the values.
        **options: of `bootstrap`; by default 2000 resamples.

    Raises:
        DataError: no run, or runs of a model with other steps.
        MissingDependencyError: matplotlib is not installed.
        OutputError: the file cannot be written.
    """
    curves = {name: _by_step(name, seeds) for name, seeds in runs.items()}
    _draw(path, curves, title, "step", ylabel, "seeds", options)


def accuracy_over_length(
    path: str | os.PathLike,
    results: Mapping[str, Scores],
    *,
    title: str,
    ylabel: str = "accuracy",
    unit: str = "seeds",
    **options: object,
) -> None:
    """Draws the mean at each length, with its interval as a bar, over a logarithmic axis.

    Args:
        path: the PNG file.
        results: by model, by length, a score for each seed (or instance).
        title: what it is; n and the kind of interval are added.
        ylabel: of the scores.
        unit: what a score was got for: "seeds", or such as "instances".
        **options: of `bootstrap`; by default 2000 resamples.

    Raises:
        DataError: no scores, or one that is not finite.
        MissingDependencyError: matplotlib is not installed.
        OutputError: the file cannot be written.
    """
    _draw(path, results, title, "length (tokens)", ylabel, unit, options)


def _by_step(name: str, seeds: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Scores:
    if not seeds:
        raise DataError("no run", where=name)
    steps = list(seeds[0][0])
    for number, (other, values) in enumerate(seeds):
        if list(other) != steps or len(values) != len(steps):
            given = f"{len(values)} values at {len(other)} steps in run {number}"
            expected = "the steps of run 0 and a value at each"
            raise DataError("bad run", expected=expected, given=given, where=name)
    return {step: [values[k] for _, values in seeds] for k, step in enumerate(steps)}


def _draw(
    path: str | os.PathLike,
    series: Mapping[str, Scores],
    title: str,
    xlabel: str,
    ylabel: str,
    unit: str,
    options: Mapping,
) -> None:
    options = {"resamples": 2000, **options}
    found = {
        name: {x: bootstrap(values, **options) for x, values in sorted(scores.items())}
        for name, scores in series.items()
    }
    if not any(found.values()):
        raise DataError("no scores", where=title)
    figure = new_figure(_SIZE)
    axes = figure.subplots()
    over_length = xlabel.startswith("length")
    for number, (name, intervals) in enumerate(found.items()):
        _draw_series(axes, number, name, intervals, bars=over_length)
    if over_length:
        _label_lengths(axes, sorted({x for intervals in found.values() for x in intervals}))
    everything = [interval for part in found.values() for interval in part.values()]
    heading = f"{title}\nmean and {interval_text(everything, unit)}"
    axes.set_title(heading, loc="left", fontsize=11, color=_INK)
    axes.set_xlabel(xlabel, color=_INK)
    axes.set_ylabel(ylabel, color=_INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.legend(frameon=False, fontsize=9)
    save_figure(figure, path)


def _draw_series(
    axes, number: int, name: str, intervals: Mapping[float, Interval], *, bars: bool
) -> None:
    colour = _COLOURS[number % len(_COLOURS)]
    style = {"color": colour, "marker": _MARKERS[number % len(_MARKERS)], "markersize": 4}
    x = np.array(list(intervals), dtype=float)
    middle, low, high = (
        np.array([getattr(interval, name) for interval in intervals.values()])
        for name in ("estimate", "low", "high")
    )
    if bars:
        # A bootstrap interval need not hold the mean of a few values: no bar is negative.
        reach = np.maximum([middle - low, high - middle], 0)
        axes.errorbar(x, middle, reach, capsize=3, linewidth=1.8, label=name, **style)
    else:
        axes.plot(x, middle, linewidth=1.8, label=name, **style)
        axes.fill_between(x, low, high, color=colour, alpha=0.18, linewidth=0)


def _label_lengths(axes, lengths: Sequence[float]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_xticks(lengths, [short_length(length) for length in lengths])
    axes.minorticks_off()
