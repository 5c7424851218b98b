# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""``python -m jpmhc.spectra.measurements`` prints the figures of docs/spectra.md."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from jpmhc.spectra.acceleration import aaa, hutch_plus_plus, richardson
from jpmhc.spectra.automatic import greens_function, singular_value_density
from jpmhc.spectra.bench import PANEL, panel_cells
from jpmhc.spectra.solvers import block_chain
from jpmhc.spectra.spectrum import spectrum


def _residuals() -> str:
    worst = max(
        block_chain(cell.mixers, cell.sigma2, (cell.s + 1j * cell.eta) ** 2).residual.max()
        for cell in panel_cells(400)
    )
    return f"largest residual over the 12 cells, 400 points each: {worst:.1e}"


def _sweeps() -> str:
    z = (np.linspace(0.01, 3.5, 50) + 1e-3j) ** 2
    counts = []
    for iteration in ("damped", "anderson", "newton"):
        found = block_chain([PANEL["gaussian"]] * 10, 0.005, z, iteration=iteration)
        counts.append(f"{iteration} {found.sweeps.mean():.0f} (most {found.sweeps.max()})")
    return "sweeps a point, gaussian, L = 10, half width 1e-3: " + ", ".join(counts)


def _edges() -> str:
    edges = [
        edge
        for name in PANEL
        for depth in (1, 2)
        for interval in spectrum([PANEL[name]] * depth, 0.05 / depth).intervals
        for edge in (interval.lower, interval.upper)
        if edge.kind == "soft"
    ]
    worst = max(edge.error for edge in edges)
    return f"soft edges at L = 1, 2: {len(edges)}, the two estimates at most {worst:.1e} apart"


def _deep() -> str:
    times = []
    for name in ("bistochastic", "gaussian"):
        began = time.perf_counter()
        found = spectrum([PANEL[name]] * 100, 0.05 / 100)
        seconds = time.perf_counter() - began
        worst = max(max(i.lower.error, i.upper.error) for i in found.intervals)
        times.append(f"{name} {seconds:.1f} s, edges to {worst:.0e}")
    return f"whole spectrum at L = 100: {'; '.join(times)}"


def _sizes() -> Iterator[str]:
    generator = np.random.default_rng(0)
    for depth, size, count in ((1000, 4, 50), (10, 64, 4)):
        mixers = generator.standard_normal((depth, size, size)) / np.sqrt(size)
        mixers = np.stack([np.linalg.qr(mixer)[0] + 0.1 * mixer for mixer in mixers])
        z = np.linspace(0.2, 1.2, count) + 0.02j
        began = time.perf_counter()
        found = block_chain(mixers, 0.05 / depth, z)
        seconds = time.perf_counter() - began
        yield (
            f"L = {depth}, q = {size}: {1e3 * seconds / count:.0f} ms a point, "
            f"{found.converged.sum()} of {count} converged, residual {found.residual.max():.1e}"
        )


def _limits() -> str:
    mixers, s = [np.array([[1.2, 0.3], [-0.2, 0.7]])] * 3, np.linspace(0.5, 1.0, 6)

    def density(eta: float) -> np.ndarray:
        return singular_value_density(mixers, 0.1, s, eta)

    limit = density(1e-10)
    widths = [0.02, 0.01, 0.005, 0.0025]
    raw = np.abs(density(widths[-1]) - limit).max()
    better = np.abs(richardson([density(eta) for eta in widths]) - limit).max()
    w = np.linspace(0.2, 1.6, 60) + 0.05j
    rational = aaa(w, w * greens_function(mixers, 0.1, w**2), tolerance=1e-10)
    smoothed = np.abs(density(0.05) - limit).max()
    continued = np.abs(-2 / np.pi * rational(s).imag - limit).max()
    return (
        f"error of the density: half width 0.0025 {raw:.1e}, Richardson from 0.02 to 0.0025 "
        f"{better:.1e}; half width 0.05 {smoothed:.1e}, AAA from there to the axis {continued:.1e}"
    )


def _traces() -> str:
    generator = np.random.default_rng(3)
    basis, _ = np.linalg.qr(generator.standard_normal((200, 200)))
    matrix = basis / np.arange(1, 201) ** 1.5 @ basis.T
    ours = [
        hutch_plus_plus(lambda x: matrix @ x, 200, 30, seed=seed, dtype=np.float64).value
        for seed in range(200)
    ]
    signs = generator.integers(0, 2, (200, 200, 30)) * 2.0 - 1
    plain = np.einsum("kij,kij->k", signs, matrix @ signs) / 30
    return (
        f"trace from 30 products, exact {np.trace(matrix):.4f}: Hutchinson {plain.mean():.4f} ± "
        f"{plain.std():.4f}, Hutch++ {np.mean(ours):.4f} ± {np.std(ours):.4f}"
    )


def main() -> None:
    """Prints a line for each figure."""
    for line in (_residuals(), _sweeps(), _edges(), _deep(), *_sizes(), _limits(), _traces()):
        print(line, flush=True)


if __name__ == "__main__":
    main()
