# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What TRSP's theory says of a side path, and where it stops holding.

The skeleton is the Cayley graph of ℤ_T with the offsets ±2^ℓ (theorem C.1); its Laplacian is
circulant, so that a Fourier transform of the offsets gives its spectrum (equation 9). μ₂, the
least eigenvalue of a mode k ≠ 0, says how fast differences between tokens can decay.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError
from jpmhc.spectra import output
from jpmhc.spectra.operators import (
    ATTENTION,
    SidePathOperator,
    integer,
    singular_values,
    tribox_norms,
)

__all__ = [
    "SidePathTheory",
    "algebraic_connectivity",
    "causal_connectivity",
    "full_depth",
    "gate_factor",
    "kernel_energy",
    "side_path",
    "skeleton_spectrum",
]

_MOST_CAUSAL = 2048  # tokens of the causal superposition, whose Laplacian is dense
_CHECKED_LENGTHS = range(2, 1025)


def full_depth(tokens: int) -> int:
    """⌊log₂ T⌋ + 1, the layers ℓ = 0 … L of the theory."""
    return integer("tokens", tokens, 2).bit_length()


def skeleton_spectrum(
    tokens: int, layers: int | None = None, *, as_set: bool = False
) -> np.ndarray:
    """Eigenvalues [T] of the skeleton's Laplacian by Fourier mode (TRSP, equation 9):
    ``μ_k = 2 Σ_ℓ (1 - cos(2^ℓ θ_k))``, ``θ_k = 2πk/T``.

    Args:
        tokens: T ≥ 2.
        layers: offsets ±2^ℓ for ℓ < layers; ⌊log₂T⌋ + 1 by default.
        as_set: count an offset once where several coincide mod T, and none that is 0, as the
            set S of theorem C.1 would. The formula counts each; at T = 2^L the last two are +T/2
            and -T/2, equal, and 0.

    Raises:
        ConfigError: a number is out of range.
    """
    tokens = integer("tokens", tokens, 2)
    layers = full_depth(tokens) if layers is None else integer("layers", layers, 1)
    offsets = [pow(2, level, tokens) for level in range(layers)]
    places = [sign * offset % tokens for offset in offsets for sign in (1, -1)]
    if as_set:
        places = sorted(set(places) - {0})
    weights = np.bincount(places, minlength=tokens).astype(np.float64)
    eigenvalues = weights.sum() - np.fft.fft(weights).real
    return np.maximum(eigenvalues, 0.0)


def algebraic_connectivity(
    tokens: int, layers: int | None = None, *, as_set: bool = False
) -> float:
    """μ₂ of the skeleton, the least eigenvalue of a mode k ≠ 0. Raises as `skeleton_spectrum`."""
    return float(skeleton_spectrum(tokens, layers, as_set=as_set)[1:].min())


@functools.lru_cache(maxsize=64)
def causal_connectivity(tokens: int, layers: int | None = None) -> float:
    """μ₂ of what the layers really connect: Σ_ℓ (M + Mᵀ)/2 with M = triBox of width 2^ℓ.

    Causal windows do not wrap around, and triBox's weight is spread over its window.

    Raises:
        ConfigError: T is not in 2 … 2048 (its Laplacian is dense), or layers < 1.
    """
    tokens = integer("tokens", tokens, 2)
    layers = full_depth(tokens) if layers is None else integer("layers", layers, 1)
    if tokens > _MOST_CAUSAL:
        raise ConfigError("tokens", expected=f"at most {_MOST_CAUSAL}", given=tokens)
    weights = np.zeros((tokens, tokens))
    for level in range(layers):
        width = min(2**level, tokens)
        operator = SidePathOperator(tokens, width, 1.0, residual=0.0, row_stochastic=False)
        matrix = operator.dense()
        weights += 0.5 * (matrix + matrix.T)
    np.fill_diagonal(weights, 0.0)
    return float(np.linalg.eigvalsh(np.diag(weights.sum(1)) - weights)[1])


def kernel_energy(width: int) -> float:
    """E_b = ‖h_b‖² = (2b² + 1)/(3b³), energy of a full window's weights (TRSP, equation 13).

    Raises:
        ConfigError: b < 1.
    """
    b = integer("width", width, 1)
    return (2 * b * b + 1) / (3 * b**3)


def gate_factor(width: int, tokens: int, exponent: float) -> float:
    """r^φ with r = min(b, T)/T, the factor of the gate that depends on coverage (equation 7).

    Raises:
        ConfigError: a number is out of range.
    """
    width, tokens = integer("width", width, 1), integer("tokens", tokens, 1)
    if not (np.isfinite(exponent) and exponent > 0):
        raise ConfigError("exponent", expected="a finite number > 0", given=exponent)
    return float((min(width, tokens) / tokens) ** exponent)


# The report.


@dataclass(frozen=True)
class SidePathTheory:
    """The theory's numbers, its claims checked, and singular values by layer.

    Attributes:
        tokens, layers, gate, exponent, attention: as asked for.
        coverage: a dictionary for each T of `contexts`: what is needed and reached.
        claims: a dictionary for each claim: name, holds, and the numbers that say so.
        bands: a dictionary for each layer: width, coverage, norms, E_b, and quantiles of the
            singular values of the row-stochastic operator (only the largest for T > 4096).
    """

    tokens: int
    layers: int
    gate: float
    exponent: float
    attention: str
    coverage: list[dict[str, Any]]
    claims: list[dict[str, Any]]
    bands: list[dict[str, Any]]

    def as_dict(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return dict(vars(self))

    def text(self) -> str:
        """Tables of the coverage, the claims and the layers."""
        coverage = output.table(
            ["T", "layers needed", "mu2, all layers", f"mu2, {self.layers} layers",
             f"mu2 causal, {self.layers}", "gate factor b=64"],
            [
                [r["tokens"], r["layers_needed"], r["mu2_full"], r["mu2_layers"],
                 r["mu2_causal"], r["gate_factor"]]
                for r in self.coverage
            ],
        )  # fmt: skip
        claims = output.table(
            ["claim", "holds", "evidence"],
            [[c["claim"], c["holds"], c["evidence"]] for c in self.claims],
        )
        bands = output.table(
            ["layer", "b", "b/T", "E_b", "|M|_F^2/T", "|M|_1", "|M|_2", "sigma_1", "sigma_2"],
            [
                [b["layer"], b["width"], b["coverage"], b["kernel_energy"], b["energy"],
                 b["norm_one"], b["norm_two"], b["largest"][0], b["largest"][1]]
                for b in self.bands
            ],
        )  # fmt: skip
        return f"{coverage}\n\n{claims}\n\n{bands}"

    def figure(self) -> Any:
        """Skeleton, coverage, bands by layer and the gate's factor.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        title = f"Side path of {self.layers} layers, T = {self.tokens}, attention: {self.attention}"
        figure = output.new_figure(11, 7.6, title)
        (skeleton, coverage), (bands, factor) = figure.subplots(2, 2)
        self._draw_skeleton(skeleton)
        self._draw_coverage(coverage)
        self._draw_bands(bands)
        self._draw_factor(factor)
        return figure

    def _draw_skeleton(self, axes: Any) -> None:
        half = self.tokens // 2 + 1
        for layers, colour in (
            (full_depth(self.tokens), output.BLUE),
            (self.layers, output.ORANGE),
        ):
            spectrum = skeleton_spectrum(self.tokens, layers)[:half]
            label = f"{layers} layers: μ₂ = {spectrum[1:].min():.3g}"
            axes.plot(np.arange(half), spectrum, color=colour, linewidth=0.7, label=label)
            if layers == self.layers == full_depth(self.tokens):
                break
        axes.axhline(
            2, color=output.INK, linestyle=":", linewidth=1.1, label="bound of theorem C.6"
        )
        axes.set_ylim(0, axes.get_ylim()[1] * 1.22)
        axes.legend(frameon=False, fontsize=8.5, loc="upper right", ncols=2)
        output.dress(axes, "Skeleton's Laplacian (equation 9)", "Fourier mode k", "μ_k")

    def _draw_coverage(self, axes: Any) -> None:
        lengths = [row["tokens"] for row in self.coverage]
        for key, label, colour, marker in (
            ("mu2_full", "skeleton, ⌊log₂T⌋+1 layers", output.BLUE, "o"),
            ("mu2_layers", f"skeleton, {self.layers} layers", output.ORANGE, "s"),
            ("mu2_causal", f"causal superposition, {self.layers} layers", output.GREEN, "^"),
        ):
            pairs = [
                (t, row[key])
                for t, row in zip(lengths, self.coverage, strict=True)
                if row[key] is not None
            ]
            if pairs:
                axes.plot(
                    *zip(*pairs, strict=True),
                    color=colour,
                    marker=marker,
                    markersize=4,
                    label=label,
                )
        axes.axhline(2, color=output.INK, linestyle=":", linewidth=1.1)
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize=8.5, loc="lower left")
        output.dress(axes, "μ₂ as the context grows: the bound needs log₂T layers", "T", "μ₂")

    def _draw_bands(self, axes: Any) -> None:
        layers = np.array([band["layer"] for band in self.bands])
        quantiles = [band["quantiles"] for band in self.bands]
        if quantiles[0] is not None:
            low, quarter, middle, three, high = np.array(quantiles).T
            axes.fill_between(layers, low, high, color=output.BLUE, alpha=0.15, label="5–95 %")
            axes.fill_between(layers, quarter, three, color=output.BLUE, alpha=0.3, label="25–75 %")
            axes.plot(layers, middle, color=output.BLUE, linewidth=1.5, label="median")
        for k, (name, colour) in enumerate((("σ₁", output.RED), ("σ₂", output.ORANGE))):
            values = [band["largest"][k] for band in self.bands]
            axes.plot(layers, values, color=colour, marker="o", markersize=3.5, label=name)
        axes.set_xticks(layers)
        axes.set_yscale("log")
        axes.legend(frameon=False, fontsize=8.5, ncols=3, loc="best")
        output.dress(
            axes, f"Singular values of the row-stochastic layer, g = {self.gate:g}", "layer ℓ", "σ"
        )

    def _draw_factor(self, axes: Any) -> None:
        lengths = 2 ** np.arange(6, 21)
        for exponent, colour in ((self.exponent, output.BLUE), (0.1, output.ORANGE)):
            values = [gate_factor(64, int(t), exponent) for t in lengths]
            axes.plot(lengths, values, color=colour, marker="o", markersize=3.5,
                      label=f"φ = {exponent:.3g}")  # fmt: skip
        axes.set_xscale("log", base=2)
        axes.set_ylim(0, 1.02)
        axes.legend(frameon=False, fontsize=8.5)
        output.dress(axes, "Gate's factor (b/T)^φ at b = 64 falls as T grows", "T", "r^φ")


def side_path(
    tokens: int = 512,
    layers: int = 8,
    *,
    gate: float = 0.5,
    exponent: float = float(np.log(2)),
    attention: str = "sink",
    contexts: Sequence[int] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SidePathTheory:
    """TRSP's theory for a model: spectrum, coverage as T grows, claims, bands by layer.

    Args:
        tokens: T of the bands, ≥ 2.
        layers: D ≥ 1; layer ℓ has width min(2^ℓ, T).
        gate: g of the bands.
        exponent: φ of the gate, softplus(0) = ln 2 at the start of training.
        attention: pattern of the bands: "none", "sink", "uniform" or "local".
        contexts: lengths T of the coverage; powers of two from 64 to 2²⁰ by default.
        progress: called with layers done and all.

    Raises:
        ConfigError: a number is out of range or the pattern unknown.
    """
    tokens, layers = integer("tokens", tokens, 2), integer("layers", layers, 1)
    contexts = [2**k for k in range(6, 21, 2)] if contexts is None else list(contexts)
    if attention not in ATTENTION:
        SidePathOperator(tokens, attention=attention)  # raises, with the nearest name
    bands = []
    for layer in range(layers):
        bands.append(_band(layer, tokens, gate, attention))
        if progress:
            progress(layer + 1, layers)
    return SidePathTheory(
        tokens,
        layers,
        gate,
        exponent,
        attention,
        [_coverage(integer("context", t, 2), layers, exponent) for t in contexts],
        _claims(layers, exponent),
        bands,
    )


def _coverage(tokens: int, layers: int, exponent: float) -> dict[str, Any]:
    small = tokens <= _MOST_CAUSAL
    return {
        "tokens": tokens,
        "layers_needed": full_depth(tokens),
        "mu2_full": algebraic_connectivity(tokens),
        "mu2_layers": algebraic_connectivity(tokens, layers),
        "mu2_causal": causal_connectivity(tokens, layers) if small else None,
        "normalized_gap": algebraic_connectivity(tokens) / (2 * full_depth(tokens)),
        "widest_coverage": min(2 ** (layers - 1), tokens) / tokens,
        "gate_factor": gate_factor(64, tokens, exponent),
    }


def _band(layer: int, tokens: int, gate: float, attention: str) -> dict[str, Any]:
    width = min(2**layer, tokens)
    operator = SidePathOperator(tokens, width, gate, attention)
    found = singular_values(operator, 8, tolerance=1e-6)
    dense = found.method == "dense"
    norms = tribox_norms(tokens, width)
    return {
        "layer": layer,
        "width": width,
        "coverage": width / tokens,
        "kernel_energy": kernel_energy(width),
        "energy": norms["energy"],
        "norm_one": norms["one"],
        "norm_two": norms["two"],
        "method": found.method,
        "largest": found.values[:8].tolist() if len(found.values) > 1 else [found.values[0]] * 2,
        "residuals": found.residuals[:8].tolist(),
        "quantiles": np.quantile(found.values, [0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        if dense
        else None,
        "stable_rank": operator.frobenius_squared() / float(found.values[0]) ** 2,
        "eigenvalue_range": [
            float(operator.eigenvalues().min()),
            float(operator.eigenvalues().max()),
        ],
    }


def _claims(layers: int, exponent: float) -> list[dict[str, Any]]:
    """Each claim of the paper that can be decided by a number."""
    return [
        _claim_bound(),
        _claim_degree(),
        _claim_fixed_depth(layers),
        _claim_causal(),
        _claim_energy(),
        _claim_column_sums(),
        _claim_sign(exponent),
    ]


def _claim(text: str, holds: bool, evidence: str, **numbers: Any) -> dict[str, Any]:
    return {"claim": text, "holds": holds, "evidence": evidence, "numbers": numbers}


def _claim_bound() -> dict[str, Any]:
    values = {t: algebraic_connectivity(t) for t in _CHECKED_LENGTHS}
    least = min(values.values())
    where = [t for t, value in values.items() if value < least + 1e-9]
    return _claim(
        "mu2 >= 2 for every T (C.6), ⌊log2 T⌋+1 layers",
        least >= 2,
        f"least {least:.4f}, at T = {', '.join(map(str, where[:3]))}, … of 2..{max(values)}",
        least=least,
        at=where,
    )


def _claim_degree() -> dict[str, Any]:
    tokens = 1024
    offsets = {pow(2, level, tokens) for level in range(full_depth(tokens))}
    degree = len((offsets | {-offset % tokens for offset in offsets}) - {0})
    stated = 2 * full_depth(tokens)
    least = algebraic_connectivity(2, as_set=True), algebraic_connectivity(3, as_set=True)
    return _claim(
        "the skeleton is 2(L+1)-regular",
        degree == stated,
        f"degree {degree}, not {stated}, at T = {tokens}; as a set mu2 = {least[0]:.0f} at T = 2",
        degree=degree,
        stated=stated,
        least_as_set=min(least),
    )


def _claim_fixed_depth(layers: int) -> dict[str, Any]:
    tokens = 2 ** (layers + 4)
    value = algebraic_connectivity(tokens, layers)
    return _claim(
        "connectivity does not depend on T for a given model",
        value >= 2,
        f"mu2 = {value:.3g} with {layers} layers at T = {tokens}",
        mu2=value,
        tokens=tokens,
        layers=layers,
    )


def _claim_causal() -> dict[str, Any]:
    full, fewer = causal_connectivity(1024), causal_connectivity(1024, 8)
    return _claim(
        "the causal superposition has the skeleton's mu2 >= 2",
        min(full, fewer) >= 2,
        f"{full:.3f} with 11 layers, {fewer:.3f} with 8, at T = 1024",
        full_depth=full,
        eight_layers=fewer,
    )


def _claim_energy() -> dict[str, Any]:
    tokens, width = 256, 64
    energy, stated = tribox_norms(tokens, width)["energy"], kernel_energy(width)
    return _claim(
        "|M|_F^2 = T E_b (12)",
        bool(np.isclose(energy, stated)),
        f"{energy:.5f} > E_b = {stated:.5f} at T = {tokens}, b = {width}: first rows hold more",
        energy=energy,
        kernel_energy=stated,
    )


def _claim_column_sums() -> dict[str, Any]:
    widths = [16, 32, 64, 128, 256, 512]
    norms = [tribox_norms(2 * b, b)["one"] for b in widths]
    # Second differences in log₂ b vanish for c·log b and settle at a constant for c·log² b.
    second = np.diff(norms, 2)
    return _claim(
        "|M|_1 = O(log b)",
        bool(second[-1] < 0.1 * second[0]),
        f"{norms[-2]:.2f} at b = 256; second differences over log2 b "
        f"{second[0]:.3f} … {second[-1]:.3f}: log^2 b",
        widths=widths,
        norms=norms,
    )


def _claim_sign(exponent: float) -> dict[str, Any]:
    values = [gate_factor(64, t, exponent) for t in (1024, 8192, 65536)]
    return _claim(
        "phi > 0 raises the side path's share as T grows",
        values[-1] > values[0],
        f"(64/T)^{exponent:.3g} = {values[0]:.4f}, {values[1]:.4f}, {values[2]:.4f} "
        "at T = 1K, 8K, 64K",
        factors=values,
    )
