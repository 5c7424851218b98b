# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The documented panel: four mixers at three depths, theory over Monte Carlo.

It stands for figure 1 of JPmHC, whose own random mixers are not published: these four are fixed.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError
from jpmhc.spectra import output
from jpmhc.spectra.automatic import singular_value_density
from jpmhc.spectra.distance import Distance, density_distance, sample_distance
from jpmhc.spectra.model import Layers
from jpmhc.spectra.operators import integer
from jpmhc.spectra.sampling import MonteCarlo, monte_carlo
from jpmhc.spectra.solvers import DomainWarning, z1_map

__all__ = ["Cell", "Panel", "panel", "panel_mixers"]

_DRAWN_ETA = 2e-3  # smoothing of the drawn curve; narrower than a bin of the histogram
_DEEP = 10  # from this depth on the distance is smoothed by the second of the two widths
_WIDTHS = 5e-4, 1e-3


def panel_mixers() -> dict[str, np.ndarray]:
    """The four mixers [4, 4] by name.

    identity; bistochastic, with a zero in each row; orthogonal, the Cayley transform
    (I - B)⁻¹ (I + B) of a skew B; gaussian, sin(1 + 3i + 4j + ij) scaled to ‖A‖_F² = 4.
    """
    bistochastic = np.array(
        [[0.5, 0.5, 0, 0], [0.2, 0.4, 0.3, 0.1], [0, 0, 0.7, 0.3], [0.3, 0.1, 0, 0.6]]
    )
    skew = np.zeros((4, 4))
    skew[np.triu_indices(4, 1)] = 0.5, -0.3, 0.8, 0.2, -0.6, 0.4
    skew -= skew.T
    i, j = np.indices((4, 4))
    free = np.sin(1 + 3 * i + 4 * j + i * j)
    return {
        "identity": np.eye(4),
        "bistochastic": bistochastic,
        "orthogonal": np.linalg.solve(np.eye(4) - skew, np.eye(4) + skew),
        "gaussian": free * np.sqrt(4 / np.sum(free * free)),
    }


@dataclass(frozen=True)
class Cell:
    """One mixer at one depth.

    Attributes:
        mixer: its name.
        depth: L.
        sigma2: variance of each layer.
        sampled: the Monte Carlo.
        singular_values: [points] of the curve.
        density: [points], the theory there; NaN where it did not converge.
        distance: W₁ between theory and samples, both smoothed by `eta`.
        floor: W₁ between the samples and as many others.
        eta: width of the smoothing.
        theory_seconds: for the curve.
        scalar: [points], what the z₁-map says; right for multiples of orthogonal mixers alone.
        scalar_distance: W₁ between that and the samples.
    """

    mixer: str
    depth: int
    sigma2: float
    sampled: MonteCarlo
    singular_values: np.ndarray
    density: np.ndarray
    distance: Distance
    floor: Distance
    eta: float
    theory_seconds: float
    scalar: np.ndarray
    scalar_distance: Distance


@dataclass(frozen=True)
class Panel:
    """All cells, with how they were made."""

    cells: list[Cell]
    channels: int
    samples: int
    seed: int
    noise: float

    def text(self) -> str:
        """A table of the distances and their noise floors."""
        rows = [
            [
                c.mixer,
                c.depth,
                c.distance.w1,
                f"{c.distance.low:.4f}..{c.distance.high:.4f}",
                c.floor.w1,
                c.distance.w1 - c.floor.w1,
                c.scalar_distance.w1,
                1e3 * c.theory_seconds,
                c.sampled.seconds,
            ]
            for c in self.cells
        ]
        names = ["mixer", "L", "W1", "95 % interval", "floor", "excess", "z1-map",
                 "theory ms", "sampling s"]  # fmt: skip
        return "\n".join([output.table(names, rows), *self.failures()])

    def failures(self) -> list[str]:
        """A line for each cell with points that did not converge, which names them."""
        lines = []
        for cell in self.cells:
            failed = cell.singular_values[~np.isfinite(cell.density)]
            if failed.size or not np.isfinite(cell.distance.w1):
                points = ", ".join(f"{s:.4g}" for s in failed[:5]) or "only of the distance"
                lines.append(
                    f"{cell.mixer}, L = {cell.depth}: {failed.size} of {cell.density.size} points "
                    f"did not converge: {points}"
                )
        return lines

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single samples, for JSON."""
        cells = [
            {**vars(c), "sampled": c.sampled.as_dict(), "distance": vars(c.distance),
             "floor": vars(c.floor), "scalar_distance": vars(c.scalar_distance)}
            for c in self.cells
        ]  # fmt: skip
        return {**vars(self), "cells": cells}

    def figure(self) -> Any:
        """Histograms with the theory's curves, a row a depth, a column a mixer.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        mixers = list(dict.fromkeys(cell.mixer for cell in self.cells))
        depths = list(dict.fromkeys(cell.depth for cell in self.cells))
        size = self.cells[0].sampled.size
        title = (
            f"Singular values of J = Y_L … Y₁,  Y = A ⊗ I + σX,  Lσ² = {self.noise:g}\n"
            f"exact theory (N → ∞) over {self.samples} samples at N = {size}"
        )
        figure = output.new_figure(2.9 * len(mixers) + 0.6, 2.35 * len(depths) + 1.3, title)
        grid = figure.subplots(len(depths), len(mixers), squeeze=False)
        for cell in self.cells:
            row, column = depths.index(cell.depth), mixers.index(cell.mixer)
            axes = grid[row, column]
            _draw(axes, cell)
            output.dress(
                axes,
                cell.mixer if row == 0 else "",
                "singular value" if row == len(depths) - 1 else "",
                f"L = {cell.depth}\ndensity" if column == 0 else "",
            )
            axes.grid(False)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
        return figure

    def files(self) -> dict[str, bytes]:
        """The picture as PNG and SVG, curves and histograms as CSV, and all as JSON."""
        figure = self.figure()
        curves = [
            [c.mixer, c.depth, *row]
            for c in self.cells
            for row in zip(c.singular_values, c.density, c.scalar, strict=True)
        ]
        bins = [
            [c.mixer, c.depth, low, high, d, e]
            for c in self.cells
            for low, high, d, e in zip(
                c.sampled.edges[:-1],
                c.sampled.edges[1:],
                c.sampled.density,
                c.sampled.density_error,
                strict=True,
            )
        ]
        return {
            "panel.png": output.picture_bytes(figure, "png"),
            "panel.svg": output.picture_bytes(figure, "svg"),
            "theory.csv": output.csv_bytes(["mixer", "L", "s", "density", "z1_map"], curves),
            "sampled.csv": output.csv_bytes(
                ["mixer", "L", "from", "to", "density", "standard_error"], bins
            ),
            "panel.json": output.json_bytes("panel", self.as_dict()),
        }

    def write(self, folder: str | os.PathLike) -> list[Path]:
        """Write `files` into a folder, all or none.

        Raises:
            OutputError: they cannot be written.
            MissingDependencyError: matplotlib is not installed.
        """
        return output.write_files(folder, self.files())


def _draw(axes: Any, cell: Cell) -> None:
    sampled = cell.sampled
    axes.stairs(sampled.density, sampled.edges, fill=True, color="#c9d3df", label="Monte Carlo")
    axes.plot(
        cell.singular_values,
        cell.density,
        color=output.RED,
        linewidth=1.1,
        label=f"exact theory, smoothed by η = {_DRAWN_ETA:g}",
    )
    axes.plot(
        cell.singular_values,
        cell.scalar,
        color=output.INK,
        linewidth=1.0,
        linestyle=(0, (1, 1.6)),
        label="z₁-map (scalar theory)",
    )
    # A divergence at 0 would flatten the rest: what stands out of the frame is mass near 0.
    inner = sampled.edges[1:] > 0.05 * sampled.edges[-1]
    top = float(sampled.density[inner].max())
    axes.set_ylim(0, 1.45 * top)
    axes.set_xlim(0, sampled.edges[-1])
    text = (
        f"W₁ = {cell.distance.w1:.4f}\nfloor {cell.floor.w1:.4f}\n"
        f"z₁-map {cell.scalar_distance.w1:.4f}"
    )
    left = float(np.sum(sampled.density[: len(inner) // 2])) > 0.5 * float(sampled.density.sum())
    axes.text(
        0.97 if left else 0.03,
        0.95,
        text,
        transform=axes.transAxes,
        fontsize=8,
        color=output.INK,
        va="top",
        ha="right" if left else "left",
    )


def panel(
    *,
    mixers: Mapping[str, Any] | None = None,
    depths: Sequence[int] = (1, 2, 10),
    noise: float = 0.05,
    channels: int = 25,
    samples: int = 300,
    points: int = 400,
    seed: int = 2026,
    progress: Callable[[int, int], None] | None = None,
) -> Panel:
    """Theory against Monte Carlo for each mixer at each depth, the same mixer in all layers.

    Args:
        mixers: [q, q] by name; `panel_mixers()` by default.
        depths: L of the rows.
        noise: Lσ².
        channels: p, so that N = qp.
        samples: of the Monte Carlo, and as many again for the noise floor.
        points: of the theory's curve.
        seed: of the samples; the others have the next one.
        progress: called with samples drawn and all, those of the floor counted.

    Raises:
        ConfigError, ShapeError, DTypeError: an option does not fit.
    """
    mixers = panel_mixers() if mixers is None else dict(mixers)
    depths = [integer("depth", depth, 1) for depth in depths]
    if not mixers or not depths:
        raise ConfigError("panel", expected="at least one mixer and depth", given="none")
    points = integer("points", points, 2)
    checked = {name: Layers.of([mixer], noise).mixers[0] for name, mixer in mixers.items()}
    cells = []
    for depth in depths:
        for name, mixer in checked.items():
            layers = np.stack([mixer] * depth)
            told = _reporting(progress, len(cells), len(mixers) * len(depths))
            cells.append(_cell(name, layers, noise / depth, channels, samples, points, seed, told))
    return Panel(cells, channels, samples, seed, noise)


def _reporting(
    progress: Callable[[int, int], None] | None, cell: int, cells: int
) -> list[Callable[[int, int], None] | None]:
    """What the two Monte Carlo runs of a cell call."""

    def part(number: int) -> Callable[[int, int], None]:
        return lambda done, all_: progress((2 * cell + number) * all_ + done, 2 * cells * all_)

    return [part(0), part(1)] if progress else [None, None]


def _cell(
    name: str,
    layers: np.ndarray,
    sigma2: float,
    channels: int,
    samples: int,
    points: int,
    seed: int,
    progress: Sequence[Callable[[int, int], None] | None],
) -> Cell:
    def density(s: np.ndarray, eta: float) -> np.ndarray:
        return singular_value_density(layers, sigma2, s, eta)

    def scalar(s: np.ndarray, eta: float) -> np.ndarray:
        return _scalar_density(layers[0], sigma2, len(layers), s, eta)

    sampled, other = (
        monte_carlo(
            layers, sigma2, channels=channels, samples=samples, seed=seed + k, progress=progress[k]
        )
        for k in (0, 1)
    )
    eta = _WIDTHS[len(layers) >= _DEEP]
    s = np.linspace(0, sampled.edges[-1], points + 1)[1:]
    began = time.perf_counter()
    curve = density(s, _DRAWN_ETA)
    seconds = time.perf_counter() - began
    return Cell(
        name,
        len(layers),
        sigma2,
        sampled,
        s,
        curve,
        density_distance(density, sampled.values, eta, seed=seed),
        sample_distance(sampled.values, other.values, eta, seed=seed),
        eta,
        seconds,
        scalar(s, _DRAWN_ETA),
        density_distance(scalar, sampled.values, eta, seed=seed),
    )


def _scalar_density(
    mixer: np.ndarray, sigma2: float, depth: int, s: np.ndarray, eta: float
) -> np.ndarray:
    """The z₁-map's density at s ≥ 0, also where it does not apply: the panel shows by how much."""
    w = s + 1j * eta
    z = w**2
    z = np.where(z.imag > 0, z, z.real + 1j * np.finfo(float).tiny)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DomainWarning)
        found = z1_map(mixer, sigma2, depth, z)
    return -2 / np.pi * (w * found.value).imag
