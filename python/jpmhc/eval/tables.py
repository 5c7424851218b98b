# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of means with intervals, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence

from jpmhc.data.checks import one_of, whole
from jpmhc.errors import DataError
from jpmhc.eval.statistics import Interval, bootstrap, interval_text

__all__ = ["ResultTable", "escaped_for_latex", "short_length"]

_STYLES = ("plus-minus", "interval")
_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
}


class ResultTable:
    """Scores of models over seeds.

    Args:
        title: one line.
        rows: by model, by metric, the score of each seed. A metric that a model does not have
            is a dash.
        style: "plus-minus" shows `0.314 ± 0.012`, half of the width of the interval;
            "interval" shows `0.314 [0.301, 0.325]`.
        digits: after the point.
        unit: what a score was got for: "seeds", or such as "instances".
        **options: of `bootstrap`.

    Attributes:
        cells: by model, by metric, the interval.

    Raises:
        DataError: no rows, or a score that is not finite; it names the row and the column.
        ConfigError: an unknown style, or as `bootstrap`.
    """

    def __init__(
        self,
        title: str,
        rows: Mapping[str, Mapping[str, Sequence[float]]],
        *,
        style: str = "plus-minus",
        digits: int = 3,
        unit: str = "seeds",
        **options: object,
    ) -> None:
        one_of("style", style, _STYLES)
        self._style, self._digits, self._unit = style, whole("digits", digits, 0, 15), unit
        self._title = title
        self.columns = list(dict.fromkeys(name for row in rows.values() for name in row))
        self.cells: dict[str, dict[str, Interval]] = {
            name: {column: _interval(v, f"{name}, {column}", options) for column, v in row.items()}
            for name, row in rows.items()
        }
        if not self.columns:
            raise DataError("no scores", where=title)

    @property
    def title(self) -> str:
        """The title with n and what the interval is; fewer than 3 seeds are said."""
        cells = [cell for row in self.cells.values() for cell in row.values()]
        shown = "mean ± half" if self._style == "plus-minus" else "mean and ends"
        return f"{self._title} ({shown} of the {interval_text(cells, self._unit)})"

    def _text(self, cell: Interval | None) -> str:
        if cell is None:
            return "–"
        digits = self._digits
        if cell.n == 1:
            return f"{cell.estimate:.{digits}f}"
        if self._style == "plus-minus":
            return f"{cell.estimate:.{digits}f} ± {cell.half_width:.{digits}f}"
        return f"{cell.estimate:.{digits}f} [{cell.low:.{digits}f}, {cell.high:.{digits}f}]"

    def markdown(self) -> str:
        """A table of GitHub's Markdown below its title."""

        def line(cells: Sequence[str]) -> str:
            return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"

        lines = [f"**{self.title}**", "", line(["", *self.columns])]
        lines.append("|---|" + "---:|" * len(self.columns))
        lines += [line([name, *self._row(row)]) for name, row in self.cells.items()]
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A `table` that needs the package booktabs."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(escaped_for_latex(cell) for cell in cells) + r" \\"

        lines = [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{escaped_for_latex(self.title)}}}",
            rf"\begin{{tabular}}{{l{'r' * len(self.columns)}}}",
            r"\toprule",
            line(["", *self.columns]),
            r"\midrule",
            *(line([name, *self._row(row)]) for name, row in self.cells.items()),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
        return "\n".join(lines) + "\n"

    def csv(self) -> str:
        """A line for each cell, with all digits, below a line of names."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["model", "metric", "n", "mean", "low", "high", "confidence", "method"])
        for name, row in self.cells.items():
            for column, cell in row.items():
                numbers = [cell.n, cell.estimate, cell.low, cell.high, cell.confidence]
                writer.writerow([name, column, *numbers, cell.method])
        return file.getvalue()

    def _row(self, row: Mapping[str, Interval]) -> list[str]:
        return [self._text(row.get(column)) for column in self.columns]


def _interval(values: Sequence[float], where: str, options: Mapping) -> Interval:
    try:
        return bootstrap(values, **options)
    except DataError as error:
        raise DataError(
            error.message, expected=error.expected, given=error.given, where=where
        ) from error


def escaped_for_latex(text: str) -> str:
    """A text in which nothing is a command of LaTeX."""
    escaped = "".join(_LATEX.get(letter, letter) for letter in text)
    return escaped.replace("±", r"$\pm$").replace("–", "--")


def short_length(length: float) -> str:
    """A number of tokens for a label: 8K for 8192."""
    return f"{length / 1024:g}K" if length >= 1024 and length % 1024 == 0 else f"{length:g}"
