# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spectra's cases of ``python -m jpmhc.bench --only spectra``.

The peer is the same equations in plain NumPy, batched over the points: continuation in η from 1,
and at each level eight damped iterations and Newton's method with a dense Jacobian. The work is the
documented panel, 4 mixers × 3 depths at L σ² = 0.05: the density of singular values at 400 points a
cell, with half width 5e-4 (1e-3 at L = 10).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from jpmhc.bench.cases import Case, Growth, Maker, Prepared
from jpmhc.spectra.automatic import singular_value_density
from jpmhc.spectra.figure_one import panel_mixers
from jpmhc.spectra.model import Layers
from jpmhc.spectra.solvers import block_chain

__all__ = ["PANEL", "cases", "growths", "numpy_density", "panel_cells"]


#: The panel's mixers.
PANEL = panel_mixers()
DEPTHS = (1, 2, 10)
NOISE = 0.05


@dataclass(frozen=True)
class Cell:
    """One cell of the panel: mixers, the variance of a layer, singular values, half width."""

    mixers: list[NDArray[np.float64]]
    sigma2: float
    s: NDArray[np.float64]
    eta: float


def panel_cells(points: int) -> list[Cell]:
    """The 12 cells with so many points each."""
    found = []
    for depth in DEPTHS:
        for mixer in PANEL.values():
            layers = Layers.of([mixer] * depth, NOISE / depth)
            eta = 1e-3 if depth == 10 else 5e-4
            # The support of each cell ends below this.
            top = 1.8 * np.sqrt(layers.first_moment) + 0.6
            s = np.linspace(top / points, top, points)
            found.append(Cell([mixer] * depth, NOISE / depth, s, eta))
    return found


class _NumpyChain:
    """The chain's equations at all points at once, in arrays over the points."""

    def __init__(self, mixers: list[NDArray[np.float64]], sigma2: float) -> None:
        self.size, self.count = mixers[0].shape[0], 2 * len(mixers)
        self.pair = np.arange(self.count) ^ 1
        self.sigma2 = sigma2
        identity = np.eye(self.size)
        self.lower: list[NDArray[np.float64]] = []
        for mixer in mixers:
            self.lower += [-mixer, identity]
        self.lower.pop()

    def traces(self, z: NDArray, t: NDArray, jacobian: bool) -> tuple[NDArray, NDArray | None]:
        """The map, and its derivative by the self energies if that is wanted."""
        q, n, identity = self.size, self.count, np.eye(self.size)
        d = -self.sigma2 * t[:, self.pair]
        d[:, 0] += z
        d[:, -1] += 1
        d = d[:, :, None, None] * identity
        left, right, blocks = [None] * n, [None] * n, []
        left[0] = np.linalg.inv(d[:, 0])
        for i in range(1, n):
            a = self.lower[i - 1]
            left[i] = np.linalg.inv(d[:, i] - a @ left[i - 1] @ a.T)
        right[-1] = np.linalg.inv(d[:, -1])
        for i in range(n - 2, -1, -1):
            a = self.lower[i]
            right[i] = np.linalg.inv(d[:, i] - a.T @ right[i + 1] @ a)
        for i in range(n):
            block = d[:, i]
            if i > 0:
                block = block - self.lower[i - 1] @ left[i - 1] @ self.lower[i - 1].T
            if i < n - 1:
                block = block - self.lower[i].T @ right[i + 1] @ self.lower[i]
            blocks.append(np.linalg.inv(block))
        mapped = np.stack([np.trace(block, axis1=1, axis2=2) / q for block in blocks], 1)
        if not jacobian:
            return mapped, None
        derivative = np.zeros((len(z), n, n), complex)
        for i in range(n):
            block = blocks[i]
            derivative[:, i, i] = (block * block.transpose(0, 2, 1)).sum((1, 2)) / q
            for j in range(i + 1, n):
                block = -(block @ self.lower[j - 1].T) @ right[j]
                derivative[:, i, j] = derivative[:, j, i] = (block * block).sum((1, 2)) / q
        return mapped, derivative

    def damped(self, z: NDArray, t: NDArray, steps: int, goal: float) -> NDArray:
        for _ in range(steps):
            mapped, _ = self.traces(z, t, False)
            if (np.abs(t - mapped) / (1 + np.abs(t))).max() < goal:
                break
            t = (t + mapped) / 2
        return t

    def newton(self, z: NDArray, t: NDArray) -> tuple[NDArray, NDArray]:
        for _ in range(30):
            mapped, derivative = self.traces(z, t, True)
            matrix = np.eye(self.count) - self.sigma2 * derivative[:, :, self.pair]
            step = np.linalg.solve(matrix, (t - mapped)[:, :, None])[:, :, 0]
            length = np.ones(len(z))
            for _ in range(6):
                outside = ((t - length[:, None] * step).imag > 1e-12 * np.abs(t)).any(1)
                if not outside.any():
                    break
                length[outside] /= 2
            residual = (np.abs(t - mapped) / (1 + np.abs(t))).max(1)
            t = t - length[:, None] * step
            if residual.max() < 1e-13:
                break
        return t, residual

    def solve(self, s: NDArray, eta: float) -> NDArray:
        """G at (s + iη)²."""
        level = 1.0
        z = (s + 1j * level) ** 2
        t = self.damped(z, np.full((len(s), self.count), -1j), 300, 1e-6)
        t, residual = self.newton(z, t)
        while level > eta:
            level = max(0.35 * level, eta)
            z = (s + 1j * level) ** 2
            t, residual = self.newton(z, self.damped(z, t, 8, 1e-10))
            for attempt in range(6):
                bad = residual > 1e-10
                if not bad.any():
                    break
                pushed = t[bad] - 1e-3j * np.abs(t[bad])
                pushed = self.damped(z[bad], pushed, 200 * 4**attempt, 1e-9)
                t[bad], residual[bad] = self.newton(z[bad], pushed)
        return t[:, 0]


def numpy_density(cell: Cell) -> NDArray[np.float64]:
    """The density of a cell in plain NumPy."""
    g = _NumpyChain(cell.mixers, cell.sigma2).solve(cell.s, cell.eta)
    return -2 / np.pi * ((cell.s + 1j * cell.eta) * g).imag


def our_density(cell: Cell) -> NDArray[np.float64]:
    """The density of a cell as the library chooses to compute it."""
    return singular_value_density(cell.mixers, cell.sigma2, cell.s, cell.eta)


def chain_density(cell: Cell) -> NDArray[np.float64]:
    """The density of a cell by the block chain of q×q blocks, whatever the mixers."""
    return singular_value_density(cell.mixers, cell.sigma2, cell.s, cell.eta, method="chain")


def _prepared(function, cells: list[Cell]) -> Prepared:
    def outputs(result: list[NDArray[np.float64]]) -> list[NDArray[np.float32]]:
        return [density.astype(np.float32) for density in result]

    return Prepared(lambda: [function(cell) for cell in cells], outputs)


def cases(tiny: bool = False) -> list[Case]:
    """The panel by the solver that is chosen, and by the block chain alone.

    Only the first has the peer, of which a run takes minutes.
    """
    cells = panel_cells(5 if tiny else 400)[: 5 if tiny else None]

    def peers() -> Mapping[str, Maker]:
        return {"numpy": lambda dtype: _prepared(numpy_density, cells)}

    # Both are accurate to 1e-8 or better; the outputs are compared as f32.
    return [
        Case(
            "spectra/panel",
            lambda dtype: _prepared(our_density, cells),
            peers,
            target=40.0,
            tolerance=1e-5,
            torch=False,
        ),
        Case("spectra/panel/chain", lambda dtype: _prepared(chain_density, cells), torch=False),
    ]


def growths(tiny: bool = False) -> list[Growth]:
    """The time of the block chain over the depth."""

    def case(depth: int) -> Case:
        layers = Layers.of([PANEL["bistochastic"]] * depth, NOISE / depth)
        z = np.linspace(0.1, 1.2, 50) + 0.02j

        def run() -> NDArray[np.complex128]:
            return block_chain(layers, None, z).value

        def outputs(result: NDArray[np.complex128]) -> list[NDArray[np.float32]]:
            return [result.imag.astype(np.float32)]

        return Case(f"spectra/depth/{depth}", lambda dtype: Prepared(run, outputs))

    sizes = (2, 4) if tiny else (10, 30, 100, 300, 1000)
    return [Growth("spectra/depth", sizes, case)]
