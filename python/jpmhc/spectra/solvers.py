# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Green's functions: the numerical solvers, one function each.

Every solver returns G(z) = lim (1/N) tr (z − JᵀJ)⁻¹; `jpmhc.spectra.greens_function` chooses among
them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc import _spectral
from jpmhc.errors import ConfigError, ShapeError, shown
from jpmhc.spectra.model import Layers, number, points, upper_half_plane
from jpmhc.spectra.operators import integer

__all__ = [
    "ConvergenceWarning",
    "DomainWarning",
    "Solution",
    "block_chain",
    "free_product",
    "kronecker_layer",
    "operator_layer",
    "operator_valued",
    "scalar_dyson",
    "z1_map",
]

Progress = Callable[[int, int], None]


class ConvergenceWarning(UserWarning):
    """Some points did not converge; their values are NaN and the warning names them."""


class DomainWarning(UserWarning):
    """A formula was used where it does not hold; the warning names its error there."""


@dataclass(frozen=True)
class Solution:
    """What a solver found, point by point.

    Attributes:
        value: complex128, G(z); NaN where it did not converge.
        residual: of the equations that were solved, relative; the certificate of a point.
        converged: whether the residual is below the tolerance and the branch is the right one.
        sweeps: evaluations of the equations or of their derivative.
        method: the solver's name.
        reason: why it was taken.
        error: the largest difference, over a few points, from an independent second route; None
            where none was asked for.
        second: that route.
    """

    value: NDArray[np.complex128]
    residual: NDArray[np.float64]
    converged: NDArray[np.bool_]
    sweeps: NDArray[np.int64]
    method: str
    reason: str = "asked for"
    error: float | None = None
    second: str | None = None

    def __str__(self) -> str:
        sweeps = self.sweeps.mean() if self.sweeps.size else 0
        lines = [
            f"method: {self.method}",
            f"why: {self.reason}",
            f"points: {self.value.size}, converged {int(self.converged.sum())}, "
            f"largest residual {self.residual.max(initial=0):.1e}, {sweeps:.1f} sweeps a point",
        ]
        if self.error is not None:
            lines.append(f"error: {self.error:.1e} against {self.second}")
        return "\n".join(lines)


def warn_of_failures(converged: NDArray[np.bool_], where: NDArray, stacklevel: int = 3) -> None:
    """Names the points that did not converge, if there are any."""
    failed = np.flatnonzero(~converged.ravel())
    if not failed.size:
        return
    shown = ", ".join(f"{where.ravel()[i]:.6g} [{i}]" for i in failed[:5])
    more = f" and {failed.size - 5} more" if failed.size > 5 else ""
    warnings.warn(
        f"{failed.size} of {converged.size} points did not converge and are nan: {shown}{more}",
        ConvergenceWarning,
        stacklevel=stacklevel,
    )


def _solution(found: dict[str, NDArray], z: NDArray, divisor: NDArray | float, method: str):
    shape = z.shape
    value = np.where(found["converged"], found["value"], np.nan).reshape(shape) / divisor
    return Solution(
        value,
        found["residual"].reshape(shape),
        found["converged"].reshape(shape),
        found["sweeps"].reshape(shape),
        method,
    )


def _flat(z: NDArray) -> NDArray:
    return np.ascontiguousarray(z.ravel())


def scalar_dyson(
    a: float,
    sigma2: float,
    z: ArrayLike,
    *,
    all_roots: bool = False,
    progress: Progress | None = None,
) -> NDArray[np.complex128] | tuple[NDArray[np.complex128], NDArray[np.complex128]]:
    """G(z) of Y = aI + σX by the corrected cubic.

    z σ⁴ G³ − 2 z σ² G² + (z + σ² − a²) G − 1 = 0 with G ~ 1/z. It follows from JPmHC's equations
    (61)–(63); the paper's own cubic (4), (8) does not tend to 1/z and is wrong. The root is
    followed along the vertical line from large |z| down to z, with a step that is halved wherever
    two roots come too near to tell them apart.

    Args:
        a: the multiple of the identity, any finite number.
        sigma2: variance times N of the noise's entries, ≥ 0.
        z: points in the upper half plane, any shape.
        all_roots: also return the three roots of each point, shape z.shape + (3,), the right one
            first (where σ² = 0 the others are infinite).
        progress: called as progress(done, total) about ten times a second.

    Raises:
        ConfigError: σ² < 0, a not finite, or a z outside the upper half plane.
        DTypeError: z holds no numbers, or a or σ² is none.
        ShapeError: several numbers for a or σ².
    """
    a, sigma2 = number(a, "a"), number(sigma2, "sigma2", least=0)
    z = upper_half_plane(z)
    found = _spectral.scalar_dyson(a, sigma2, _flat(z), all_roots, progress)
    if not all_roots:
        return found.reshape(z.shape)
    g, roots = found
    return g.reshape(z.shape), roots.reshape(*z.shape, 3)


def kronecker_layer(
    mixer: ArrayLike, sigma2: float, z: ArrayLike, *, progress: Progress | None = None
) -> Solution:
    """G(z) of one layer Y = A ⊗ I + σX, exact for any A.

    With w² = z and the eigenvalues s_i of AᵀA: w G = t, t = (1/q) Σ d/(d² − s_i), d = w − σ²t.
    This is JPmHC's equation (64) with u = 1 − σ²G, written so that t maps the lower half plane
    into itself; its fixed point there is unique. `operator_valued` has the q×q block of (65).

    Args:
        mixer: q×q.
        sigma2: σ² ≥ 0.
        z: points in the upper half plane, any shape.
        progress: called as progress(done, total) about ten times a second.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`, and a z outside the half plane.
    """
    layers = Layers.of([mixer], sigma2)
    z = upper_half_plane(z)
    w = np.sqrt(z)
    squares = np.linalg.svd(layers.mixers[0], compute_uv=False) ** 2
    found = _spectral.layer(squares, float(layers.sigma2[0]), _flat(w), progress)
    return _solution(found, z, w, "kronecker")


def block_chain(
    mixers: Sequence[ArrayLike] | Layers,
    sigma2: ArrayLike | None,
    z: ArrayLike,
    *,
    iteration: str = "newton",
    tolerance: float = 0.0,
    max_sweeps: int = 20000,
    progress: Progress | None = None,
) -> Solution:
    """G(z) of a product of any layers, exact, by the chain of 2L blocks of q×q.

    J is linearised as a chain v₀, b₁, v₁, ..., b_L with H[b_k, v_{k−1}] = −A_k, H[v_k, b_k] = I
    and w = √z at both ends; the self energy is a scalar on each node, Σ[v_{k−1}] = σ_k² t[b_k] and
    Σ[b_k] = σ_k² t[v_{k−1}], so that the 2L traces t are the only unknowns and G = t[v₀]/w. A sweep
    over the chain costs O(L q³). Every solution with Im t < 0 is the right one: the map sends the
    product of lower half planes into itself, so by Earle and Hamilton's theorem its fixed point
    there is unique.

    Args:
        mixers: as for `greens_function`, or layers that were checked before (then `sigma2` is
            None).
        sigma2: as for `greens_function`.
        z: points in the upper half plane, any shape.
        iteration: "newton": Newton's method with GMRES on the derivative of a sweep, each point
            from its neighbour, with continuation in Im w where that fails. "damped": t ← (t+f(t))/2
            from t = −i. "anderson": the same accelerated over the last six steps.
        tolerance: largest residual |f(t) − t|/(1 + |t|) of a converged point in units where
            (1/N) tr JᵀJ = 1; 0 stands for 1e-10 max(1, L/10), which rounding allows at any depth.
        max_sweeps: most sweeps for a point.
        progress: called as progress(done, total) about ten times a second.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; an unknown iteration; a tolerance
            below 0 or a `max_sweeps` below 1; a z outside the upper half plane.
    """
    layers = mixers if isinstance(mixers, Layers) else Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    if iteration not in ("newton", "damped", "anderson"):
        raise ConfigError(
            "iteration", expected="one of newton, damped, anderson", given=shown(iteration)
        )
    tolerance = number(tolerance, "tolerance", least=0)
    max_sweeps = integer("max_sweeps", max_sweeps, 1)
    w = np.sqrt(z)
    found = layers.chain.solve(_flat(w), None, iteration, tolerance, max_sweeps, 25, [], progress)
    return _solution(found, z, w, "chain")


def operator_valued(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    progress: Progress | None = None,
) -> NDArray[np.complex128]:
    """The q×q block G⁽ᴮ⁾(z) = lim (id_q ⊗ tr_p)(z − JᵀJ)⁻¹, whose normalised trace is G(z).

    Arguments and errors are those of `greens_function`.

    Returns:
        complex128, shape z.shape + (q, q); NaN at points that did not converge, with a
        `ConvergenceWarning`.
    """
    layers = Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    w = np.sqrt(z)
    found = layers.chain.solve(_flat(w), None, "newton", 0.0, 20000, 25, ["block"], progress)
    warn_of_failures(found["converged"], z)
    block = found["block"].reshape(*z.shape, layers.size, layers.size) / w[..., None, None]
    block[~found["converged"].reshape(z.shape)] = np.nan
    return block


def operator_layer(mixer: ArrayLike, sigma2: float, b: ArrayLike) -> NDArray[np.complex128]:
    """G⁽ᴮ⁾(b) = lim (id_q ⊗ tr_p)(b ⊗ I − YᵀY)⁻¹ of one layer at a matrix b.

    JPmHC's equation (65): with u = 1 − σ² g₁₁, G = (b − σ² g₂₂ − AᵀA/u)⁻¹, g₁₁ = (1/q) tr G and
    g₂₂ = (1/q) tr (u − A (b − σ² g₂₂)⁻¹ Aᵀ)⁻¹. Only for a number b is g₂₂ = b g₁₁; taking g₁₁ for
    g₂₂ is wrong by a tenth and more. The damped iteration from −i keeps both in the lower half
    plane.

    Args:
        mixer: q×q.
        sigma2: σ² ≥ 0.
        b: q×q with a positive definite imaginary part (b − b*)/2i.

    Raises:
        ShapeError, ConfigError, DTypeError: as `Layers.of`; b is not q×q, or its imaginary part is
            not positive definite.

    Returns:
        complex128 [q, q]; NaN, with a `ConvergenceWarning`, if the iteration does not converge.
    """
    layers = Layers.of([mixer], sigma2)
    a, variance, q = layers.mixers[0], float(layers.sigma2[0]), layers.size
    b = points(b, "b")
    if b.shape != (q, q):
        raise ShapeError("b", expected=f"shape {(q, q)}", given=b.shape)
    lowest = float(np.linalg.eigvalsh((b - b.conj().T) / 2j)[0])
    if lowest <= 0:
        raise ConfigError("b", expected="a positive definite imaginary part", given=f"{lowest:.3g}")
    identity, g11, g22 = np.eye(q), -1j, -1j
    for _ in range(20000):
        u, inner = 1 - variance * g11, b - variance * g22 * identity
        try:
            block = np.linalg.inv(inner - a.T @ a / u)
            other = np.linalg.inv(u * identity - a @ np.linalg.inv(inner) @ a.T)
        except np.linalg.LinAlgError:  # out of the range of float64: does not converge
            break
        change11, change22 = np.trace(block) / q - g11, np.trace(other) / q - g22
        if abs(change11) + abs(change22) < 1e-13 * (1 + abs(g11) + abs(g22)):
            return block
        g11, g22 = g11 + change11 / 2, g22 + change22 / 2
    warn_of_failures(np.array([False]), np.array([np.trace(b) / q]))
    return np.full((q, q), np.nan, complex)


def free_product(
    mixers: Sequence[ArrayLike],
    sigma2: ArrayLike,
    z: ArrayLike,
    *,
    progress: Progress | None = None,
) -> Solution:
    """G(z) if the layers' squares were free: the free multiplicative convolution.

    The S-transform of the product is that of the factors multiplied, which is solved as
    z = (1+y) y^{L−1}/Π g_l with y = zG − 1 and each g_l given by its own layer at z_l g_l = 1 + y,
    followed down from far above z.

    Domain: exact where every mixer is a multiple of an orthogonal matrix, and for another model,
    in which a fresh Haar rotation of all N dimensions stands between the layers. Elsewhere it
    gives the wrong answer, already for the mean: (‖A‖²_F/q + σ²)^L. Used outside its domain it
    warns, and names its error against the exact chain.

    Arguments and errors are those of `greens_function`.
    """
    layers = Layers.of(mixers, sigma2)
    z = upper_half_plane(z)
    counts: dict[tuple[bytes, float], list] = {}
    for mixer, variance in zip(layers.mixers, layers.sigma2, strict=True):
        key = mixer.tobytes(), float(variance)
        if key not in counts:
            squares = np.linalg.svd(mixer, compute_uv=False) ** 2
            counts[key] = [squares.tolist(), float(variance), 0]
        counts[key][2] += 1
    found = _spectral.free_product(
        [tuple(factor) for factor in counts.values()], _flat(z), progress
    )
    solution = _solution(found, z, 1.0, "free")
    if layers.depth > 1 and layers.orthogonal_scales is None:
        _warn_outside_domain(layers, z, solution)
    return solution


def _warn_outside_domain(layers: Layers, z: NDArray, solution: Solution) -> None:
    chosen = sample(z.size)
    exact = block_chain(layers, None, z.ravel()[chosen]).value
    error = np.abs(solution.value.ravel()[chosen] - exact)
    if not np.isfinite(error).any():
        measured = "its error could not be measured"
    else:
        worst = np.nanargmax(error)
        relative = error[worst] / abs(exact[worst])
        measured = (
            f"its error against the exact chain is {error[worst]:.2g} ({relative:.0%}) at "
            f"z = {z.ravel()[chosen][worst]:.4g}"
        )
    warnings.warn(
        "the free multiplicative convolution holds for multiples of orthogonal mixers or with Haar "
        f"rotations between the layers; here {measured}",
        DomainWarning,
        stacklevel=4,
    )


def sample(count: int, most: int = 8) -> NDArray[np.int64]:
    """At most `most` indices spread over [0, count)."""
    return np.unique(np.linspace(0, count - 1, min(most, count)).astype(int))


def z1_map(
    mixer: ArrayLike,
    sigma2: float,
    depth: int,
    z: ArrayLike,
    *,
    progress: Progress | None = None,
) -> Solution:
    """G(z) of L equal layers by JPmHC's z₁-map, equations (71) and (72).

    z_L = (1 + y) y^{L−1}/g^L, y = z_L G − 1, where g is the Green's function of a single layer at
    z₁ = (1 + y)/g: the free multiplicative convolution of L equal factors. For its domain and its
    warning see `free_product`.

    Args:
        mixer: q×q, the same in each layer.
        sigma2: σ² ≥ 0 of each layer.
        depth: L ≥ 1.
        z: points in the upper half plane, any shape.
        progress: called as progress(done, total) about ten times a second.

    Raises:
        ShapeError, ConfigError, DTypeError: as `free_product`, and a depth below 1.
    """
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ConfigError("depth", expected="an integer ≥ 1", given=shown(depth))
    if np.ndim(sigma2) != 0:
        raise ShapeError("sigma2", expected="one number", given=f"shape {np.shape(sigma2)}")
    return free_product([mixer] * depth, sigma2, z, progress=progress)
