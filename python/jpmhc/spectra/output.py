# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results as files: JSON, CSV and pictures, of which all are written or none."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc._libraries import missing
from jpmhc.errors import OutputError
from jpmhc.files import replacing

__all__ = ["csv_bytes", "json_bytes", "new_figure", "picture_bytes", "table", "write_files"]

FORMAT, VERSION = "jpmhc-spectra", 1

INK, FAINT, GRID = "#222222", "#8a8a8a", "#e6e6e6"
BLUE, ORANGE, GREEN, PURPLE, RED, BROWN = (
    "#1f5fa8",
    "#d2691e",
    "#2e8b57",
    "#7b4ea3",
    "#b3283d",
    "#7a5c3e",
)
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, RED, BROWN)


def plain(value: Any) -> Any:
    """NumPy's values as Python's, complex numbers as [real, imaginary], and numbers that JSON does
    not know as the strings "nan", "inf" and "-inf"."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, complex):
        value = [value.real, value.imag]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return value


def json_bytes(kind: str, content: Mapping[str, Any]) -> bytes:
    """A JSON object with the name and version of the format, its kind and the content."""
    whole = {"format": FORMAT, "version": VERSION, "kind": kind, **plain(content)}
    return (json.dumps(whole, indent=1, allow_nan=False) + "\n").encode()


def csv_bytes(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> bytes:
    """A CSV file with a line of names; floats with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(plain(list(rows)))
    return text.getvalue().encode()


def table(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """Columns of text; numbers to the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [
        all(not isinstance(row[k], str) for row in rows) if rows else False
        for k in range(len(names))
    ]

    def line(parts: Sequence[str]) -> str:
        padded = [
            part.rjust(width) if right else part.ljust(width)
            for part, width, right in zip(parts, widths, numeric, strict=True)
        ]
        return "  ".join(padded).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(list(names)), rule, *map(line, cells)])


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        size = abs(value)
        if size and (size < 1e-3 or size >= 1e5):
            return f"{value:.2e}"
        return f"{value:.4f}"
    return str(value)


def new_figure(width: float, height: float, title: str = "") -> Any:
    """An empty figure, sizes in inches, laid out by matplotlib.

    Raises:
        MissingDependencyError: matplotlib is not installed.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise missing("matplotlib", "the picture") from error
    figure = Figure(figsize=(width, height), dpi=130, facecolor="white", layout="constrained")
    figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    if title:
        figure.suptitle(title, fontsize=13, color=INK)
    return figure


def dress(axes: Any, heading: str = "", x: str = "", y: str = "") -> None:
    """Headings and lines of the same look everywhere."""
    axes.set_title(heading, loc="left", fontsize=10.5, color=INK)
    axes.set_xlabel(x, fontsize=9.5, color=INK)
    axes.set_ylabel(y, fontsize=9.5, color=INK)
    axes.tick_params(labelsize=8.5, colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=GRID, linewidth=0.7)
    axes.set_axisbelow(True)


def picture_bytes(figure: Any, kind: str) -> bytes:
    """The figure as a "png" or "svg" file; equal figures give equal bytes."""
    import matplotlib

    stamps = {"png": {"Software": None}, "svg": {"Date": None, "Creator": None}}
    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": "jpmhc", "svg.fonttype": "path"}):
        figure.savefig(buffer, format=kind, metadata=stamps[kind])
    return buffer.getvalue()


def check_folder(folder: str | os.PathLike) -> None:
    """Whether a folder can be made or written to, as far as that shows before anything is written.

    Raises:
        OutputError: it or what it would lie in is no folder, or not ours to write to.
    """
    there = Path(folder).absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise OutputError("cannot write the results", expected="a folder", given=there)
    if not os.access(there, os.W_OK | os.X_OK):
        given = "no permission to write"
        raise OutputError("cannot write the results", given=given, where=there)


def write_files(folder: str | os.PathLike, files: Mapping[str, bytes]) -> list[Path]:
    """Write files into a folder, which is made if need be: all of them or none.

    All are on disk under other names before the first one takes its own.

    Returns:
        their paths.

    Raises:
        OutputError: one cannot be written; old files of these names are as they were.
    """
    folder = Path(folder)
    paths = [folder / name for name in files]
    made = [] if folder.exists() else [folder]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            for path, content in zip(paths, files.values(), strict=True):
                file = stack.enter_context(replacing(path))
                file.write(content)
                # What the disk cannot take shows now, while nothing has its name yet.
                file.flush()
                os.fsync(file.fileno())
    except OSError as error:
        for empty in made:
            with contextlib.suppress(OSError):
                empty.rmdir()
        raise OutputError(
            "cannot write the results", given=error.strerror or error, where=folder
        ) from error
    return paths
