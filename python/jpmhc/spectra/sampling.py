# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Monte Carlo: singular values of sampled products of layers.

``J = Y_L … Y_1``, ``Y_l = A_l ⊗ I_p + σ_l X_l``, X_l of independent entries N(0, 1/N), N = qp. The
Kronecker factor is never formed: ``(A ⊗ I_p) J`` mixes the q blocks of rows of J, a product of q×q
with q×(p N). Each sample draws from a Philox stream of its own, keyed by the seed and its number,
and statistics are taken in the order of samples: results depend neither on the number of threads
nor on timing.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jpmhc.errors import ConfigError, ShapeError
from jpmhc.spectra import _compiler
from jpmhc.spectra._blas import single_threaded
from jpmhc.spectra.model import Layers
from jpmhc.spectra.operators import integer

__all__ = [
    "MonteCarlo",
    "Welford",
    "checkpoint_mixers",
    "draw_mixers",
    "monte_carlo",
]

_RANGED = 8  # the first samples, of which the range of the histogram is taken
_MOMENTS = 4
_STREAM_LOGITS = 1 << 62  # stream number of the logits, apart from those of samples


# Statistics of a stream.


class Welford:
    """Mean and standard error of arrays that arrive one by one (Welford, 1962)."""

    def __init__(self) -> None:
        self.count = 0
        self.mean: Any = 0.0
        self._squares: Any = 0.0

    def update(self, value: np.ndarray) -> None:
        """Take in another array of the same shape."""
        self.count += 1
        difference = value - self.mean
        self.mean = self.mean + difference / self.count
        self._squares = self._squares + difference * (value - self.mean)

    @property
    def standard_error(self) -> np.ndarray:
        """Of the mean; infinite after less than two arrays."""
        if self.count < 2:
            return np.full(np.shape(self.mean), np.inf)
        return np.sqrt(self._squares / (self.count - 1) / self.count)


@dataclass(frozen=True)
class MonteCarlo:
    """What was sampled.

    Attributes:
        size: N, the size of the matrices.
        samples: number of them.
        seed: as given.
        edges: [bins + 1] of the histogram, from 0.
        density: [bins] of singular values.
        density_error: [bins], standard error over samples.
        outside: part of the singular values above the last edge.
        moments: [4], of the squares: m_k = E (1/N) tr (JᵀJ)^k.
        moments_error: [4], their standard errors.
        values: singular values [samples, N], descending in each sample; None if not kept.
        seconds: that it took.
    """

    size: int
    samples: int
    seed: int
    edges: np.ndarray
    density: np.ndarray
    density_error: np.ndarray
    outside: float
    moments: np.ndarray
    moments_error: np.ndarray
    values: np.ndarray | None
    seconds: float

    def greens_function(self, z: Any) -> np.ndarray:
        """G(z) = (1/N) tr (z - JᵀJ)⁻¹ of all samples, for z of any shape.

        Raises:
            ConfigError: the values were not kept.
        """
        squares = self._kept().ravel() ** 2
        z = np.asarray(z, complex)
        return np.array([np.mean(1 / (point - squares)) for point in z.ravel()]).reshape(z.shape)

    def as_dict(self) -> dict[str, Any]:
        """Everything but the single values, for JSON."""
        return {name: value for name, value in vars(self).items() if name != "values"}

    def _kept(self) -> np.ndarray:
        if self.values is None:
            raise ConfigError("the singular values were not kept", expected="keep=True")
        return self.values


# Sampling.


def monte_carlo(
    mixers: Any,
    sigma2: Any,
    *,
    channels: int = 25,
    samples: int = 300,
    seed: int = 0,
    haar: bool = False,
    branches: Sequence[np.ndarray] | None = None,
    bins: int = 200,
    keep: bool = True,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MonteCarlo:
    """Singular values of sampled products.

    Args:
        mixers: [L, q, q], the first applied first, or [samples, L, q, q], a draw for each sample.
        sigma2: variance σ² of the noise, one number or one a layer.
        channels: p, so that N = qp.
        samples: how many products.
        seed: an integer ≥ 0; equal seeds give equal results.
        haar: apply a fresh rotation of Haar's measure after each layer, which makes layers free
            of each other: the model that the z₁-map describes.
        branches: matrices [N, N] of trained weights, one a layer, in the place of the noise;
            sigma2 then multiplies nothing and must be 0.
        bins: of the histogram.
        keep: keep every singular value (8 N bytes a sample); the histogram and the moments do
            without.
        threads: the number of cores by default.
        progress: called with samples done and all.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; an option is out of range.
    """
    mixers, variances = _checked(mixers, sigma2)
    channels, samples = integer("channels", channels, 1), integer("samples", samples, 1)
    seed, bins = integer("seed", seed, 0), integer("bins", bins, 1)
    if mixers.ndim == 4 and len(mixers) != samples:
        expected = f"one draw for each of {samples} samples"
        raise ShapeError("mixers", expected=expected, given=len(mixers))
    layers, size = mixers.shape[-3], mixers.shape[-1] * channels
    deviations = np.sqrt(variances / size)
    given = _checked_branches(branches, layers, size, deviations)
    threads = _cores() if threads is None else integer("threads", threads, 1)

    def draw(sample: int) -> np.ndarray:
        rng = np.random.Generator(np.random.Philox(key=[seed, sample]))
        own = mixers[sample] if mixers.ndim == 4 else mixers
        return _singular_values(own, deviations, channels, rng, haar, given)

    began = time.monotonic()
    collected = _Collected(bins, samples if keep else 0, size)
    for sample, values in enumerate(_in_order(draw, samples, threads)):
        collected.add(values)
        if progress:
            progress(sample + 1, samples)
    return collected.result(size, samples, seed, time.monotonic() - began)


def _checked(mixers: Any, sigma2: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mixers [L, q, q] or [samples, L, q, q] and variances [L]; raises as `Layers.of`."""
    if not (isinstance(mixers, np.ndarray) and mixers.ndim == 4 and len(mixers)):
        layers = Layers.of(mixers, sigma2)
        return layers.mixers, layers.sigma2
    every = Layers.of(mixers.reshape(-1, *mixers.shape[2:]), 0.0)
    return every.mixers.reshape(mixers.shape), Layers.of(mixers[0], sigma2).sigma2


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def _checked_branches(
    branches: Sequence[np.ndarray] | None, layers: int, size: int, deviations: np.ndarray
) -> np.ndarray | None:
    if branches is None:
        return None
    if deviations.any():
        raise ConfigError("sigma2 beside branches", expected="0", given=deviations**2 * size)
    shapes = [np.shape(branch) for branch in branches]
    if shapes != [(size, size)] * layers:
        expected = f"{layers} of [{size}, {size}]"
        raise ShapeError("branches", expected=expected, given=shapes)
    return np.asarray(branches, np.float64)


def _in_order(
    draw: Callable[[int], np.ndarray], samples: int, threads: int
) -> Iterator[np.ndarray]:
    """draw(0), draw(1), …, a few of them at work at once; Ctrl-C gives up those not begun."""
    with single_threaded():
        if threads == 1:
            yield from map(draw, range(samples))
            return
        pool = ThreadPoolExecutor(threads)
        try:
            waiting: deque = deque()
            for sample in range(samples):
                waiting.append(pool.submit(draw, sample))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def _singular_values(
    mixers: np.ndarray,
    deviations: np.ndarray,
    channels: int,
    rng: np.random.Generator,
    haar: bool,
    branches: np.ndarray | None,
) -> np.ndarray:
    """Singular values [N], descending, of one product."""
    q = mixers.shape[-1]
    size = q * channels
    product = np.eye(size)
    for layer, (mixer, deviation) in enumerate(zip(mixers, deviations, strict=True)):
        mixed = (mixer @ product.reshape(q, channels * size)).reshape(size, size)
        branch = branches[layer] if branches is not None else None
        if deviation > 0:
            branch = rng.standard_normal((size, size))
            branch *= deviation
        if branch is not None:
            mixed += branch if layer == 0 else branch @ product
        product = _rotation(size, rng) @ mixed if haar else mixed
    return np.linalg.svd(product, compute_uv=False)


def _rotation(size: int, rng: np.random.Generator) -> np.ndarray:
    """An orthogonal matrix of Haar measure: Q of a Gaussian one, with R of positive diagonal."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.where(np.diag(r) < 0, -1.0, 1.0)


class _Collected:
    """Statistics of singular values as they come, sample by sample."""

    def __init__(self, bins: int, kept: int, size: int) -> None:
        self._bins = bins
        self._values = np.empty((kept, size)) if kept else None
        self._first: list[np.ndarray] = []
        self._edges: np.ndarray | None = None
        self._density, self._moments = Welford(), Welford()
        self._outside = 0
        self._count = 0

    def add(self, values: np.ndarray) -> None:
        if self._values is not None:
            self._values[self._count] = values
        self._count += 1
        squares = values * values
        self._moments.update(np.array([np.mean(squares**k) for k in range(1, _MOMENTS + 1)]))
        if self._edges is None:
            self._first.append(values)
            if len(self._first) == _RANGED:
                self._begin()
        else:
            self._bin(values)

    def _begin(self) -> None:
        largest = max(float(values[0]) for values in self._first)
        self._edges = np.linspace(0, 1.25 * largest if largest > 0 else 1.0, self._bins + 1)
        for values in self._first:
            self._bin(values)
        self._first = []

    def _bin(self, values: np.ndarray) -> None:
        counts, _ = np.histogram(values, self._edges)
        width = self._edges[1] - self._edges[0]
        self._density.update(counts / (len(values) * width))
        self._outside += len(values) - int(counts.sum())

    def result(self, size: int, samples: int, seed: int, seconds: float) -> MonteCarlo:
        if self._edges is None:
            self._begin()
        return MonteCarlo(
            size,
            samples,
            seed,
            self._edges,
            self._density.mean,
            self._density.standard_error,
            self._outside / (samples * size),
            self._moments.mean,
            self._moments.standard_error,
            self._values,
            seconds,
        )


# Mixers of the compiler's projections.


def draw_mixers(
    manifold: str,
    n: int,
    count: int,
    *,
    scale: float = 1.0,
    biased: bool = False,
    seed: int = 0,
    **parameters: Any,
) -> np.ndarray:
    """Mixers of random raw numbers, projected by the compiled kernel of the manifold.

    Args:
        manifold: a name of `jpmhc.manifolds`.
        n: streams.
        count: how many.
        scale: standard deviation of the raw numbers, which are normal.
        biased: add the bias that training starts with, which makes mixers near the identity.
        seed: an integer ≥ 0.
        parameters: the manifold's own, such as ``rounds=20``.

    Returns:
        [count, n, n] in double, computed in single precision.

    Raises:
        ConfigError: the manifold or a parameter is unknown (with the nearest known one), or a
            number out of range.
        CompileError: the projection cannot be compiled.
    """
    count, seed = integer("count", count, 1), integer("seed", seed, 0)
    if not (np.isfinite(scale) and scale >= 0):
        raise ConfigError("scale", expected="a finite number ≥ 0", given=scale)
    info = _compiler.require("a drawn mixer").manifolds.get(manifold, parameters)
    rng = np.random.Generator(np.random.Philox(key=[seed, _STREAM_LOGITS]))
    raw = scale * rng.standard_normal((count, info.raw_size(n)))
    if biased:
        raw += info.initial_bias(n)
    return project_mixers(raw, manifold, n, **parameters)


def project_mixers(raw: np.ndarray, manifold: str, n: int, **parameters: Any) -> np.ndarray:
    """Raw numbers [count, K] onto mixers [count, n, n] by the compiled kernel.

    Raises:
        JpmhcError: what `jpmhc.ops.project` and compiling raise.
    """
    jpmhc = _compiler.require("the projection of a mixer")
    count, size = raw.shape
    # A column more: a compiled program takes no array without elements, as the identity's is.
    padded = np.zeros((count, size + 1), np.float32)
    padded[:, :size] = raw

    def mixers(values: Any) -> Any:
        return jpmhc.ops.project(values[:, :size], manifold, n, **parameters)

    projected = jpmhc.compile(mixers, jpmhc.spec(padded.shape))(padded)
    return np.asarray(projected, np.float64)


def checkpoint_mixers(
    path: str | os.PathLike,
    *,
    manifold: str,
    n: int,
    tokens: int = 1,
    seed: int = 0,
    section: str = "model",
    **parameters: Any,
) -> dict[str, np.ndarray]:
    """The mixers of every hyper-connection of a checkpoint of the project.

    Raw numbers are ``α_res (W x̂) + b`` on the rows of the mixer; a token's normalised streams x̂
    are drawn as standard normal numbers.

    Args:
        path: the safetensors file.
        manifold, n, parameters: as the model had them; the file does not say.
        tokens: mixers to draw for each; with 1, that of the biases alone.
        seed: of the tokens.
        section: of the checkpoint, such as "model".

    Returns:
        by the block's name, [tokens, n, n], in the order of names in the file.

    Raises:
        CheckpointError: the file cannot be read.
        ConfigError: no block in it fits the manifold at n.
    """
    from jpmhc import checkpoint

    tokens = integer("tokens", tokens, 1)
    compiler = _compiler.require("the projection of a trained mixer")
    size = compiler.manifolds.get(manifold, parameters).raw_size(n)
    sections, _ = checkpoint.read(path)
    if section not in sections:
        raise ConfigError(
            "section of the checkpoint", expected=f"one of {', '.join(sections)}", given=section
        )
    arrays = sections[section]
    rng = np.random.Generator(np.random.Philox(key=[seed, _STREAM_LOGITS]))
    found = {}
    for name in sorted(arrays, key=_natural):
        block, _, last = name.rpartition(".")
        if last != "alpha" or arrays[name].shape != (3,):
            continue
        raw = _raw_numbers(arrays, block, n, size, tokens, rng, path)
        found[block] = project_mixers(raw, manifold, n, **parameters)
    if not found:
        raise ConfigError("no hyper-connection in the checkpoint", where=path)
    return found


def _natural(name: str) -> list[tuple[int, Any]]:
    """So that layers.10 follows layers.9."""
    return [(0, int(part)) if part.isdigit() else (1, part) for part in name.split(".")]


def _raw_numbers(
    arrays: dict[str, np.ndarray],
    block: str,
    n: int,
    size: int,
    tokens: int,
    rng: np.random.Generator,
    path: str | os.PathLike | Path,
) -> np.ndarray:
    prefix = f"{block}." if block else ""
    bias = arrays[f"{prefix}bias"].astype(np.float64)
    weight = arrays[f"{prefix}weight"].astype(np.float64)
    maps = (2 * n, 2 * n * n)  # of the sigmoid and of the softmax kind
    if len(bias) - size not in maps or weight.shape[1] % n:
        expected = f"{maps[0] + size} or {maps[1] + size} rows for n = {n}"
        raise ConfigError(f"block {block}", expected=expected, given=len(bias), where=path)
    raw = np.broadcast_to(bias[len(bias) - size :], (tokens, size)).copy()
    if tokens > 1:
        streams = rng.standard_normal((tokens, weight.shape[1]))
        factor = float(arrays[f"{prefix}alpha"][2])
        raw += factor * (streams @ weight[len(bias) - size :].T)
    return raw
