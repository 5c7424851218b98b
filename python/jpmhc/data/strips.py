# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A picture of where pieces of texts lie: one strip a text, its pieces in colour."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from jpmhc._libraries import missing
from jpmhc.errors import ConfigError, OutputError
from jpmhc.files import replacing

__all__ = ["Strip", "draw"]

_INK, _PAPER = "#222222", "#e8e8e8"
_PALETTE = ("#c8531c", "#1f5fa8", "#8fb3d9", "#2e8b57", "#d9b34a", "#7b4fa3")
_LEAST = 0.004  # of a strip, what a piece is drawn wide at least


@dataclass(frozen=True)
class Strip:
    """A text.

    Attributes:
        label: beside the strip.
        size: of the text.
        pieces: (begin, end, kind) within it.
        note: at the end of the strip.
    """

    label: str
    size: int
    pieces: tuple[tuple[int, int, str], ...]
    note: str = ""


def draw(
    path: str | os.PathLike,
    strips: Sequence[Strip],
    kinds: Sequence[str],
    *,
    title: str,
    unit: str,
) -> None:
    """Draws strips, all on one scale, into a picture file.

    Args:
        path: of the picture, in PNG.
        strips: from the top.
        kinds: of pieces, for colours and legend; pieces of the first cover others.
        title: above.
        unit: of sizes and pieces.

    Raises:
        MissingDependencyError: matplotlib is not installed.
        ConfigError: no strips.
        OutputError: the file cannot be written.
    """
    try:
        from matplotlib.figure import Figure
        from matplotlib.patches import Patch
    except ImportError as error:
        raise missing("matplotlib", "the picture") from error
    if not strips:
        raise ConfigError("no strips to draw")
    colours = {kind: _PALETTE[k % len(_PALETTE)] for k, kind in enumerate(kinds)}
    longest = max(strip.size for strip in strips)
    figure = Figure(figsize=(9.5, 1.2 + 0.34 * len(strips)), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    for row, strip in enumerate(strips):
        axes.barh(row, strip.size, height=0.62, color=_PAPER, linewidth=0)
        for begin, end, kind in sorted(strip.pieces, key=lambda p: -kinds.index(p[2])):
            width = max(end - begin, _LEAST * longest)
            axes.barh(row, width, left=begin, height=0.62, color=colours[kind], linewidth=0)
        axes.text(strip.size + 0.008 * longest, row, strip.note, va="center", color=_INK, size=8)
    axes.set_yticks(range(len(strips)), [strip.label for strip in strips], size=8)
    axes.invert_yaxis()
    axes.set_xlim(0, longest * 1.12)
    axes.set_xlabel(unit, size=8)
    axes.tick_params(axis="x", labelsize=8)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(title, size=10, color=_INK)
    handles = [Patch(color=colours[kind], label=kind) for kind in kinds]
    place = "outside lower center"
    figure.legend(handles=handles, loc=place, ncols=len(kinds), fontsize=8, frameon=False)
    try:
        with replacing(path) as file:
            figure.savefig(file, format="png", metadata={"Software": None})
    except OSError as error:
        message = "cannot write the picture"
        raise OutputError(message, given=error.strerror or error, where=path) from error
