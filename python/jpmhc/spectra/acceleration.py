# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ways to get more out of few evaluations: extrapolation, rational continuation, stochastic traces.

Anderson's acceleration is part of the chain's solver: `block_chain(..., iteration="anderson")`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc.errors import ConfigError, ShapeError

__all__ = ["RationalFunction", "TraceEstimate", "aaa", "hutch_plus_plus", "richardson"]


def richardson(values: Sequence[ArrayLike]) -> NDArray:
    """The limit η → 0 of values at η, η/2, η/4, ..., whose error is a power series in η.

    T⁽ʲ⁾_k = (2ʲ T⁽ʲ⁻¹⁾_{k+1} − T⁽ʲ⁻¹⁾_k)/(2ʲ − 1): with n values the error is O(ηⁿ). JPmHC's
    equation (77) has the two weights the wrong way round and assumes that the error is even in η.
    Where ρ is smooth, the Cauchy smoothing of singular_value_density has such a series.

    Args:
        values: n ≥ 1 arrays of one shape, the largest η first.

    Raises:
        ShapeError: no values, or shapes that differ.
    """
    table = [np.asarray(value) for value in values]
    if not table:
        raise ShapeError("values", expected="at least one array", given="none")
    for value in table:
        if value.shape != table[0].shape:
            raise ShapeError("values", expected=f"shape {table[0].shape}", given=value.shape)
    for order in range(1, len(table)):
        weight = 2.0**order
        table = [
            (weight * finer - coarser) / (weight - 1)
            for coarser, finer in zip(table[:-1], table[1:], strict=True)
        ]
    return table[0]


@dataclass(frozen=True)
class RationalFunction:
    """r(z) = Σ w_j f_j/(z − z_j) / Σ w_j/(z − z_j), a barycentric rational function.

    Attributes:
        nodes: complex128 [m], z_j.
        values: complex128 [m], f_j.
        weights: complex128 [m], w_j.
        error: the largest |f − r| over the data it was made of.
    """

    nodes: NDArray[np.complex128]
    values: NDArray[np.complex128]
    weights: NDArray[np.complex128]
    error: float

    def __call__(self, z: ArrayLike) -> NDArray[np.complex128]:
        """r at z, any shape."""
        z = np.asarray(z, np.complex128)
        difference = z[..., None] - self.nodes
        hit = difference == 0
        difference[hit] = 1
        terms = self.weights / difference
        result = (terms @ self.values) / terms.sum(-1)
        at_node = hit.any(-1)
        if at_node.any():
            result = np.where(at_node, self.values[hit.argmax(-1)], result)
        return result


def aaa(
    z: ArrayLike, f: ArrayLike, *, tolerance: float = 1e-12, max_degree: int = 60
) -> RationalFunction:
    """A rational function through data, by the AAA algorithm of Nakatsukasa, Sète and Trefethen.

    Greedy: the point with the largest error becomes a node; the weights are the last right
    singular vector of the Loewner matrix of the other points. With data of G above the axis it
    continues G down to the axis: see docs/spectra.md for what that gains.

    Args:
        z: complex [n], distinct points, n ≥ 2.
        f: complex [n], values there.
        tolerance: relative to max |f|, at which to stop.
        max_degree: most nodes minus one.

    Raises:
        ShapeError: z and f are not vectors of one length ≥ 2.
        ConfigError: a point or value that is not finite, or a tolerance ≤ 0.
    """
    z, f = np.asarray(z, np.complex128), np.asarray(f, np.complex128)
    if z.ndim != 1 or z.shape != f.shape or z.size < 2:
        raise ShapeError("z, f", expected="two vectors of n ≥ 2", given=f"{z.shape}, {f.shape}")
    if not (np.isfinite(z).all() and np.isfinite(f).all()):
        raise ConfigError("z, f", expected="finite numbers", given="nan or inf")
    if not tolerance > 0:
        raise ConfigError("tolerance", expected="a number > 0", given=tolerance)
    free = np.ones(z.size, bool)
    order: list[int] = []
    approximation = np.full(z.shape, f.mean())
    weights, error = np.ones(0, np.complex128), np.inf
    for _ in range(min(max_degree + 1, z.size - 1)):
        worst = int(np.where(free, np.abs(f - approximation), -1).argmax())
        order.append(worst)
        free[worst] = False
        cauchy = 1 / (z[free, None] - z[order])
        loewner = (f[free, None] - f[order]) * cauchy
        weights = np.linalg.svd(loewner, full_matrices=len(order) > free.sum())[2][-1].conj()
        approximation = f.copy()
        approximation[free] = (cauchy @ (weights * f[order])) / (cauchy @ weights)
        error = float(np.abs(f - approximation).max())
        if error <= tolerance * np.abs(f).max():
            break
    return RationalFunction(z[order], f[order], weights, error)


@dataclass(frozen=True)
class TraceEstimate:
    """An estimate of a trace.

    Attributes:
        value: unbiased.
        variance: of `value`, estimated from the random part's own scatter; 0 if there is none.
        products: products with the matrix that it took.
    """

    value: complex
    variance: float
    products: int


def hutch_plus_plus(
    multiply: Callable[[NDArray], NDArray],
    size: int,
    products: int,
    *,
    seed: int = 0,
    dtype: type = np.complex128,
) -> TraceEstimate:
    """tr M from products with M, by Hutch++ of Meyer, Musco, Musco and Woodruff.

    A third of the products finds a subspace Q of M's range, whose trace tr QᵀMQ is exact; the rest
    estimates tr (1 − QQᵀ)M(1 − QQᵀ) with random signs g, E[ggᵀ] = I. (JPmHC's equation (80) takes
    unit vectors, which makes it biased by a factor of the dimension.) Q and the signs are
    independent, so the sum is unbiased.

    Args:
        multiply: takes real [n, k] and returns M times it.
        size: n.
        products: vectors that may be multiplied, ≥ 6.
        seed: of the Philox counter-based generator.
        dtype: of the products.

    Raises:
        ConfigError: fewer than 6 products, or size < 1.
    """
    if products < 6 or size < 1:
        raise ConfigError(
            "products, size", expected="products ≥ 6 and size ≥ 1", given=f"{products}, {size}"
        )
    generator = np.random.Generator(np.random.Philox(seed))
    third = min(products // 3, size)
    probes = generator.integers(0, 2, (size, third)) * 2.0 - 1
    basis, _ = np.linalg.qr(np.asarray(multiply(probes), dtype))
    exact = np.einsum("ij,ij->", basis.conj(), np.asarray(multiply(basis), dtype))
    if third == size:
        return TraceEstimate(exact.item(), 0.0, 2 * third)
    count = products - 2 * third
    signs = generator.integers(0, 2, (size, count)) * 2.0 - 1
    rest = signs - basis @ (basis.conj().T @ signs)
    each = np.einsum("ij,ij->j", rest.conj(), np.asarray(multiply(rest), dtype))
    variance = float(np.var(each, ddof=1)) / count if count > 1 else float("nan")
    return TraceEstimate((exact + each.mean()).item(), variance, 2 * third + count)
