# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The mixer laboratory: what products of drawn mixers of each manifold do with depth.

Mixers are projected from normal raw numbers by the compiler's own kernels. A bistochastic mixer
contracts every direction but the mean, so that products tend to rank one; an orthogonal one keeps
all; a free one makes gradients grow or vanish exponentially.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError
from jpmhc.spectra import _compiler, output
from jpmhc.spectra.operators import integer
from jpmhc.spectra.sampling import draw_mixers

__all__ = ["Laboratory", "Variant", "mixers"]

_SINKHORN_ROUNDS = 1, 2, 5, 10, 20, 50, 100
_CAYLEY_STEPS = 1, 2, 3, 4
_LOGIT_SCALES = 1.0, 3.0
_MOST_COMPOUND = 6
_FLOOR = 1e-16  # of drawn singular values

# What is compared of a manifold besides its defaults.
_VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "birkhoff": ({"rounds": 1}, {"rounds": 5}, {"rounds": 20}),
    "stiefel": ({"steps": 1}, {"steps": 2}, {"steps": 3}, {"exact": True}),
}


@dataclass(frozen=True)
class Variant:
    """A manifold with parameters, and what its mixers did.

    Attributes:
        name: for people, such as "stiefel, steps 2".
        manifold, parameters: of the registry.
        singular_values: [draws, depth, n], descending, of products of 1 … depth mixers.
        row_error, column_error: median and largest distance of row (column) sums from 1.
        orthogonality: median and largest max |HᵀH - I|.
        smallest_entry: of all mixers; below 0 they are not stochastic.
        gradient: [draws, depth], ‖g_l‖/‖g₀‖ of a random gradient sent back through 1 … depth
            layers with noise.
    """

    name: str
    manifold: str
    parameters: dict[str, Any]
    singular_values: np.ndarray
    row_error: tuple[float, float]
    column_error: tuple[float, float]
    orthogonality: tuple[float, float]
    smallest_entry: float
    gradient: np.ndarray

    def quantiles(self, values: np.ndarray) -> np.ndarray:
        """5 %, 50 % and 95 % over draws: [draws, …] to [3, …]."""
        return np.quantile(values, [0.05, 0.5, 0.95], axis=0)


@dataclass(frozen=True)
class Laboratory:
    """What was compared.

    Attributes:
        n, depth, draws, scale, sigma2, seed: as asked for.
        variants: of every manifold.
        sinkhorn: row errors (median, 95 %) by scale of the logits and rounds.
        cayley: orthogonality errors (median, 95 %) by scale and steps; steps 0 is the exact one.
    """

    n: int
    depth: int
    draws: int
    scale: float
    sigma2: float
    seed: int
    variants: list[Variant]
    sinkhorn: dict[float, dict[int, tuple[float, float]]]
    cayley: dict[float, dict[int, tuple[float, float]]]

    def text(self) -> str:
        """A table of the variants."""
        rows = []
        for v in self.variants:
            final = np.median(v.singular_values[:, -1], axis=0)
            rows.append(
                [v.name, final[0], final[1] if self.n > 1 else None, final[-1],
                 v.row_error[0], v.column_error[0], v.orthogonality[0],
                 float(np.median(v.gradient[:, -1]))]
            )  # fmt: skip
        at = f"at L = {self.depth}"
        names = ["manifold", f"sigma_1 {at}", "sigma_2", "sigma_n", "row sums", "column sums",
                 "orthogonality", f"gradient {at}"]  # fmt: skip
        return output.table(names, rows)

    def as_dict(self) -> dict[str, Any]:
        """Numbers of each variant by depth (quantiles over draws), for JSON."""
        variants = [
            {
                **{k: v for k, v in vars(each).items() if k not in ("singular_values", "gradient")},
                "singular_value_quantiles": each.quantiles(each.singular_values),
                "gradient_quantiles": each.quantiles(each.gradient),
            }
            for each in self.variants
        ]
        return {**vars(self), "variants": variants}

    def figure(self) -> Any:
        """One page: spectra, second singular value, gradients, projections' errors.

        Raises:
            MissingDependencyError: matplotlib is not installed.
        """
        title = (
            f"Products of mixers drawn from N(0, {self.scale:g}²) raw numbers: "
            f"n = {self.n} streams, {self.draws} draws"
        )
        figure = output.new_figure(13, 8.2, title)
        grid = figure.subplots(2, 3)
        styles = self._styles()
        self._draw_spectra(grid[0, 0], styles)
        self._draw_second(grid[0, 1], styles)
        self._draw_gradient(grid[0, 2], styles)
        self._draw_errors(grid[1, 0], styles)
        _draw_projection(
            grid[1, 1], self.sinkhorn, "Sinkhorn: error of row sums", "rounds", "max |row sum − 1|"
        )
        _draw_projection(
            grid[1, 2], self.cayley, "Cayley: error of orthogonality", "steps", "max |HᵀH − I|",
            "exact",
        )  # fmt: skip
        handles, labels = grid[0, 1].get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="outside lower center", ncols=5, frameon=False, fontsize=9
        )
        return figure

    def _styles(self) -> list[dict[str, Any]]:
        """A colour for each manifold, a line style for each of its variants."""
        names = list(dict.fromkeys(v.manifold for v in self.variants))
        seen: dict[str, int] = {}
        styles = []
        for variant in self.variants:
            k = seen[variant.manifold] = seen.get(variant.manifold, -1) + 1
            colour = output.COLOURS[names.index(variant.manifold) % len(output.COLOURS)]
            line = ("-", "--", ":", "-.")[k % 4]
            styles.append({"color": colour, "linestyle": line, "linewidth": 1.5})
        return styles

    def _draw_spectra(self, axes: Any, styles: Sequence[Mapping]) -> None:
        places = np.arange(1, self.n + 1)
        for variant, style in zip(self.variants, styles, strict=True):
            _, middle, _ = variant.quantiles(variant.singular_values[:, -1])
            axes.plot(places, np.maximum(middle, _FLOOR), marker="o", markersize=3, **style)
        axes.set_yscale("log")
        axes.set_ylim(bottom=_FLOOR)
        axes.set_xticks(places)
        output.dress(
            axes, f"Spectrum of products of {self.depth} (median)", "i", "i-th singular value"
        )

    def _draw_second(self, axes: Any, styles: Sequence[Mapping]) -> None:
        depths = np.arange(1, self.depth + 1)
        second = min(1, self.n - 1)
        for variant, style in zip(self.variants, styles, strict=True):
            low, middle, high = variant.quantiles(variant.singular_values[:, :, second])
            axes.plot(depths, np.maximum(middle, _FLOOR), label=variant.name, **style)
            axes.fill_between(
                depths, np.maximum(low, _FLOOR), np.maximum(high, _FLOOR),
                color=style["color"], alpha=0.06, linewidth=0,
            )  # fmt: skip
        axes.set_yscale("log")
        axes.set_ylim(bottom=_FLOOR)
        output.dress(axes, "Second singular value of products", "layers", "σ₂")

    def _draw_gradient(self, axes: Any, styles: Sequence[Mapping]) -> None:
        depths = np.arange(1, self.depth + 1)
        for variant, style in zip(self.variants, styles, strict=True):
            _, middle, _ = variant.quantiles(variant.gradient)
            axes.plot(depths, middle, **style)
        axes.set_yscale("log")
        output.dress(
            axes, f"Gradient norm through layers, σ² = {self.sigma2:.3g}", "layers", "‖g_l‖ / ‖g₀‖"
        )

    def _draw_errors(self, axes: Any, styles: Sequence[Mapping]) -> None:
        places = np.arange(len(self.variants))
        for offset, key, label, marker in (
            (-0.15, "row_error", "row sums", "o"),
            (0.15, "orthogonality", "orthogonality", "s"),
        ):
            for place, variant, style in zip(places, self.variants, styles, strict=True):
                middle, largest = (max(value, 1e-9) for value in getattr(variant, key))
                axes.plot([place + offset] * 2, [middle, largest], color=style["color"],
                          linewidth=1, alpha=0.6)  # fmt: skip
                axes.plot(place + offset, middle, marker=marker, color=style["color"], markersize=5)
            axes.plot([], [], marker=marker, color=output.INK, linestyle="none", label=label)
        axes.set_yscale("log")
        axes.set_ylim(5e-10, None)
        names = [variant.name.replace(", ", "\n") for variant in self.variants]
        axes.set_xticks(places, names, rotation=90)
        axes.legend(frameon=False, fontsize=8.5, loc="lower right")
        output.dress(axes, "Errors of single mixers (median to largest)", "", "error")
        axes.tick_params(axis="x", labelsize=7.5)

    def files(self) -> dict[str, bytes]:
        """The page as PNG and SVG, the curves as CSV, and all as JSON."""
        figure = self.figure()
        rows = []
        for v in self.variants:
            spectrum, gradient = v.quantiles(v.singular_values), v.quantiles(v.gradient)
            for k in range(self.depth):
                rows.append([v.name, k + 1, *spectrum[1, k], *gradient[:, k]])
        names = ["manifold", "layers", *(f"sigma_{i + 1}" for i in range(self.n)),
                 "gradient_low", "gradient_median", "gradient_high"]  # fmt: skip
        return {
            "mixers.png": output.picture_bytes(figure, "png"),
            "mixers.svg": output.picture_bytes(figure, "svg"),
            "mixers.csv": output.csv_bytes(names, rows),
            "mixers.json": output.json_bytes("mixers", self.as_dict()),
        }

    def write(self, folder: str | os.PathLike) -> list[Path]:
        """Write `files` into a folder, all or none.

        Raises:
            OutputError: they cannot be written.
            MissingDependencyError: matplotlib is not installed.
        """
        return output.write_files(folder, self.files())


def _draw_projection(
    axes: Any,
    errors: Mapping[float, Mapping[int, tuple[float, float]]],
    heading: str,
    x: str,
    y: str,
    last: str = "",
) -> None:
    """Errors by number; with `last`, the entry 0 stands for it and is drawn at the end, apart."""
    for (scale, by_number), colour in zip(errors.items(), output.COLOURS, strict=False):
        numbers = [number for number in by_number if number]
        middle, high = np.maximum(np.array([by_number[k] for k in numbers]).T, 1e-9)
        places = np.arange(len(numbers))
        axes.plot(places, middle, color=colour, marker="o", markersize=4,
                  label=f"raw numbers N(0, {scale:g}²)")  # fmt: skip
        axes.plot(places, high, color=colour, linestyle=":", label="95 % quantile")
        if last:
            axes.plot(len(numbers), by_number[0][0], color=colour, marker="o", markersize=4)
        axes.set_xticks(
            range(len(numbers) + bool(last)), [str(k) for k in numbers] + [last] * bool(last)
        )
    axes.set_yscale("log")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * 100)
    axes.legend(frameon=False, fontsize=8.5, ncols=2, loc="upper center")
    output.dress(axes, heading, x, y)


def mixers(
    manifolds: Sequence[str] | None = None,
    *,
    n: int = 4,
    depth: int = 32,
    draws: int = 200,
    scale: float = 1.0,
    noise: float = 0.05,
    channels: int = 25,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Laboratory:
    """Compare manifolds against depth.

    Args:
        manifolds: names of `jpmhc.manifolds`; all that are registered by default.
        n: streams.
        depth: L, layers of the longest product.
        draws: independent products.
        scale: standard deviation of the raw numbers.
        noise: Lσ² of the layers that gradients pass.
        channels: p of the gradients.
        seed: an integer ≥ 0.
        progress: called with parts done and all: the variants, and the errors of the projections.

    Raises:
        ConfigError: a name is unknown (with the nearest known one) or a number out of range.
        CompileError: a projection cannot be compiled.
    """
    n, depth, draws = integer("n", n, 1), integer("depth", depth, 1), integer("draws", draws, 1)
    channels, seed = integer("channels", channels, 1), integer("seed", seed, 0)
    if not (np.isfinite(noise) and noise >= 0):
        raise ConfigError("noise", expected="a finite number ≥ 0", given=noise)
    registry = _compiler.require("the mixer laboratory").manifolds
    names = registry.names() if manifolds is None else list(manifolds)
    wanted = [(name, parameters) for name in names for parameters in _VARIANTS.get(name, ({},))]
    if not wanted:
        raise ConfigError("manifolds", expected="at least one name", given="none")
    for name, parameters in wanted:
        registry.get(name, parameters)  # an unknown name is said before anything has run
    variants = []
    for name, parameters in wanted:
        drawn = draw_mixers(name, n, draws * depth, scale=scale, seed=seed, **parameters)
        drawn = drawn.reshape(draws, depth, n, n)
        variants.append(_variant(name, parameters, drawn, noise / depth, channels, seed))
        if progress:
            progress(len(variants), len(wanted) + 2)
    errors = []
    for name, measure in (("birkhoff", _sinkhorn_errors), ("stiefel", _cayley_errors)):
        errors.append(measure(n, seed) if name in names else {})
        if progress:
            progress(len(variants) + len(errors), len(wanted) + 2)
    return Laboratory(n, depth, draws, scale, noise / depth, seed, variants, *errors)


def _variant(
    manifold: str,
    parameters: dict[str, Any],
    drawn: np.ndarray,
    sigma2: float,
    channels: int,
    seed: int,
) -> Variant:
    rows, columns = np.abs(drawn.sum(-1) - 1).max(-1), np.abs(drawn.sum(-2) - 1).max(-1)
    orthogonality = _orthogonality(drawn)
    detail = "".join(
        f", {key}" if value is True else f", {key} {value}" for key, value in parameters.items()
    )
    return Variant(
        manifold + detail,
        manifold,
        parameters,
        _product_spectra(drawn),
        *((float(np.median(e)), float(e.max())) for e in (rows, columns, orthogonality)),
        float(drawn.min()),
        _gradient_growth(drawn, sigma2, channels, seed),
    )


def _orthogonality(drawn: np.ndarray) -> np.ndarray:
    """max |HᵀH - I| of each mixer."""
    gram = np.swapaxes(drawn, -1, -2) @ drawn
    return np.abs(gram - np.eye(drawn.shape[-1])).max((-1, -2))


def _product_spectra(drawn: np.ndarray) -> np.ndarray:
    """Singular values [draws, depth, n] of the products of the first 1 … depth mixers.

    σ₁ ⋯ σ_k is the largest singular value of the product of k-th compound matrices (of k×k
    minors): each σ_k then is as precise as σ₁, where the product itself would lose whatever is
    below 1e-16 σ₁. Beyond 6 streams there are too many minors, and the product it is.
    """
    n = drawn.shape[-1]
    if n > _MOST_COMPOUND:
        return np.stack([np.linalg.svd(p, compute_uv=False) for p in _products(drawn)], 1)
    volumes = np.stack([_log_norms(_compound(drawn, k)) for k in range(1, n + 1)], -1)
    with np.errstate(invalid="ignore"):  # a volume of 0 beside another
        logarithms = np.diff(volumes, axis=-1, prepend=0.0)
    return np.exp(np.where(np.isnan(logarithms), -np.inf, logarithms))


def _products(drawn: np.ndarray) -> Iterator[np.ndarray]:
    product = np.eye(drawn.shape[-1])
    for k in range(drawn.shape[1]):
        product = drawn[:, k] @ product
        yield product


def _compound(drawn: np.ndarray, order: int) -> np.ndarray:
    """Matrices of all minors of an order: [..., n, n] to [..., C, C], C = n over order."""
    chosen = np.array(list(itertools.combinations(range(drawn.shape[-1]), order)))
    rows, columns = chosen[:, None, :, None], chosen[None, :, None, :]
    return np.linalg.det(drawn[..., rows, columns])


def _log_norms(drawn: np.ndarray) -> np.ndarray:
    """log of the largest singular value [draws, depth] of the products, kept near 1 in size."""
    product = np.eye(drawn.shape[-1])
    total = np.zeros(len(drawn))
    result = np.empty(drawn.shape[:2])
    for k in range(drawn.shape[1]):
        product = drawn[:, k] @ product
        size = np.linalg.norm(product, 2, axis=(-2, -1))
        with np.errstate(divide="ignore"):
            total = total + np.log(size)
        result[:, k] = total
        product = product / np.where(size > 0, size, 1.0)[:, None, None]
    return result


def _gradient_growth(drawn: np.ndarray, sigma2: float, channels: int, seed: int) -> np.ndarray:
    """‖g_l‖/‖g₀‖ [draws, depth] of g_{l-1} = (Aᵀ ⊗ I + σ Xᵀ) g_l.

    A fresh X makes Xᵀg normal with variance ‖g‖²/N an entry, so that X need not be drawn.
    """
    draws, depth, n, _ = drawn.shape
    rng = np.random.Generator(np.random.Philox(key=[seed, 1 << 63]))
    gradient = rng.standard_normal((draws, n, channels))
    gradient /= np.linalg.norm(gradient, axis=(1, 2), keepdims=True)
    norms = np.empty((draws, depth))
    for k in range(depth):
        size = np.linalg.norm(gradient, axis=(1, 2), keepdims=True)
        noise = rng.standard_normal(gradient.shape) * size * np.sqrt(sigma2 / (n * channels))
        gradient = np.swapaxes(drawn[:, depth - 1 - k], 1, 2) @ gradient + noise
        norms[:, k] = np.linalg.norm(gradient, axis=(1, 2))
    return norms


def _middle_and_high(errors: np.ndarray) -> tuple[float, float]:
    return float(np.median(errors)), float(np.quantile(errors, 0.95))


def _sinkhorn_errors(n: int, seed: int) -> dict[float, dict[int, tuple[float, float]]]:
    """Errors of row sums by scale of the logits and rounds (columns are normalised last)."""
    result: dict[float, dict[int, tuple[float, float]]] = {}
    for scale in _LOGIT_SCALES:
        result[scale] = {}
        for rounds in _SINKHORN_ROUNDS:
            drawn = draw_mixers("birkhoff", n, 1000, scale=scale, seed=seed, rounds=rounds)
            result[scale][rounds] = _middle_and_high(np.abs(drawn.sum(-1) - 1).max(-1))
    return result


def _cayley_errors(n: int, seed: int) -> dict[float, dict[int, tuple[float, float]]]:
    """Errors of orthogonality by scale of the raw numbers and steps; 0 stands for exact."""
    result: dict[float, dict[int, tuple[float, float]]] = {}
    for scale in _LOGIT_SCALES:
        options = {0: {"exact": True}, **{steps: {"steps": steps} for steps in _CAYLEY_STEPS}}
        result[scale] = {
            number: _middle_and_high(
                _orthogonality(draw_mixers("stiefel", n, 1000, scale=scale, seed=seed, **option))
            )
            for number, option in options.items()
        }
    return result
