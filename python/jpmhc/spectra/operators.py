# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Token-mixing operators of a layer with a side path, applied without their T×T matrix.

``y = D⁻¹ (ι I + A + g M) x`` (TRSP, equation 8): A is attention, row-stochastic and causal; M is
triBox_b, two causal box filters (equations 1–3); D makes the rows sum to 1, or is I.
"""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jpmhc.errors import ConfigError, ShapeError, unknown_name

__all__ = [
    "ATTENTION",
    "LinearOperator",
    "SidePathOperator",
    "SingularValues",
    "box",
    "box_adjoint",
    "largest_singular_values",
    "singular_values",
    "tribox",
    "tribox_adjoint",
]

MOST_DENSE = 4096
"""Largest T whose singular values are computed from the matrix."""


def integer(name: str, value: Any, least: int) -> int:
    """The value, if it is an integer ≥ least.

    Raises:
        ConfigError: otherwise.
    """
    whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not whole or value < least:
        raise ConfigError(name, expected=f"an integer ≥ {least}", given=value)
    return int(value)


# The side path's filter.


def _widths(tokens: int, width: int) -> np.ndarray:
    """w_t = min(b, t + 1)."""
    return np.minimum(width, np.arange(1, tokens + 1))


def _window_sums(x: np.ndarray, width: int) -> np.ndarray:
    """Sums over t - b + 1 … t along axis 0 by doubling: no subtraction, so no error stays behind
    once a large value has left the window."""
    total, reach, start = np.zeros_like(x), 0, width
    block, size = x, 1  # sums over the `size` last values
    while start:
        if start & 1:
            total[reach:] += block[: len(x) - reach]
            reach += size
        start >>= 1
        if start and size < len(x):
            grown = block.copy()
            grown[size:] += block[:-size]
            block = grown
        size *= 2
        if reach >= len(x):
            break
    return total


def box(x: np.ndarray, width: int) -> np.ndarray:
    """Causal moving average (1/w_t) Σ_{i<w_t} x_{t-i}, w_t = min(b, t+1) (TRSP, equation 1)."""
    return _window_sums(x, width) / _column(_widths(len(x), width), x)


def box_adjoint(y: np.ndarray, width: int) -> np.ndarray:
    """Transpose of `box`: x̄_s = Σ_{t=s}^{min(s+b-1, T-1)} ȳ_t / w_t."""
    scaled = y / _column(_widths(len(y), width), y)
    return _window_sums(scaled[::-1], width)[::-1]


def tribox(x: np.ndarray, width: int) -> np.ndarray:
    """The box filter twice (equation 3), along axis 0."""
    return box(box(x, width), width)


def tribox_adjoint(y: np.ndarray, width: int) -> np.ndarray:
    """Transpose of `tribox`."""
    return box_adjoint(box_adjoint(y, width), width)


def _column(values: np.ndarray, like: np.ndarray) -> np.ndarray:
    return values.reshape(-1, *(1,) * (like.ndim - 1))


# Attention patterns: a function and its transpose.


def _sink(x: np.ndarray, window: int) -> np.ndarray:
    return np.broadcast_to(x[:1], x.shape).copy()


def _sink_adjoint(y: np.ndarray, window: int) -> np.ndarray:
    x = np.zeros_like(y)
    x[0] = y.sum(0)
    return x


def _uniform(x: np.ndarray, window: int) -> np.ndarray:
    return box(x, len(x))


def _uniform_adjoint(y: np.ndarray, window: int) -> np.ndarray:
    return box_adjoint(y, len(y))


def _nothing(x: np.ndarray, window: int) -> np.ndarray:
    return np.zeros_like(x)


ATTENTION: dict[str, tuple[Callable, Callable]] = {
    "none": (_nothing, _nothing),
    "sink": (_sink, _sink_adjoint),
    "uniform": (_uniform, _uniform_adjoint),
    "local": (box, box_adjoint),
}
"""Patterns by name: none; sink, all on the first token (homogenization); uniform over the past;
local, over the last `window` tokens (isolation)."""


# Operators.


class LinearOperator(Protocol):
    """What singular values are computed of."""

    shape: tuple[int, int]

    def apply(self, x: np.ndarray) -> np.ndarray:
        """A x for x [columns] or [columns, k]."""

    def apply_adjoint(self, y: np.ndarray) -> np.ndarray:
        """Aᵀ y for y [rows] or [rows, k]."""


@dataclass(frozen=True)
class SidePathOperator:
    """``D⁻¹ (ι I + A + g M)`` on T tokens.

    Args:
        tokens: T ≥ 1.
        width: b ≥ 1 of triBox.
        gate: g ≥ 0.
        attention: a name of `ATTENTION`, or a causal matrix [T, T] of numbers ≥ 0 whose rows sum
            to 1.
        window: of "local".
        residual: ι, weight of the identity, ≥ 0.
        row_stochastic: whether D makes rows sum to 1; otherwise D = I.

    Raises:
        ConfigError, ShapeError: a number is out of range, the pattern is unknown, or the matrix is
            not causal or not row-stochastic.
    """

    tokens: int
    width: int = 1
    gate: float = 0.5
    attention: str | np.ndarray = "none"
    window: int = 16
    residual: float = 1.0
    row_stochastic: bool = True

    def __post_init__(self) -> None:
        integer("tokens", self.tokens, 1)
        integer("width", self.width, 1)
        integer("window", self.window, 1)
        for name in ("gate", "residual"):
            value = getattr(self, name)
            if not (np.isfinite(value) and value >= 0):
                raise ConfigError(name, expected="a finite number ≥ 0", given=value)
        if isinstance(self.attention, str):
            if self.attention not in ATTENTION:
                raise unknown_name("attention pattern", self.attention, ATTENTION)
        else:
            object.__setattr__(self, "attention", _checked_attention(self.attention, self.tokens))
        if self._row_sum == 0:
            raise ConfigError("side path operator", expected="a weight above 0", given="all 0")

    @property
    def shape(self) -> tuple[int, int]:
        """(T, T)."""
        return self.tokens, self.tokens

    @property
    def _row_sum(self) -> float:
        """ι + 1 + g: A and M are row-stochastic, so every row of the sum has it."""
        attends = not (isinstance(self.attention, str) and self.attention == "none")
        return self.residual + self.gate + (1.0 if attends else 0.0)

    @property
    def _scale(self) -> float:
        return 1 / self._row_sum if self.row_stochastic else 1.0

    def apply(self, x: np.ndarray) -> np.ndarray:
        """The operator on x [T] or [T, k]."""
        total = self.residual * x + self.gate * tribox(x, self.width)
        if isinstance(self.attention, str):
            total += ATTENTION[self.attention][0](x, self.window)
        else:
            total += self.attention @ x
        return self._scale * total

    def apply_adjoint(self, y: np.ndarray) -> np.ndarray:
        """Its transpose on y [T] or [T, k]."""
        total = self.residual * y + self.gate * tribox_adjoint(y, self.width)
        if isinstance(self.attention, str):
            total += ATTENTION[self.attention][1](y, self.window)
        else:
            total += self.attention.T @ y
        return self._scale * total

    def dense(self) -> np.ndarray:
        """The matrix [T, T]; 128 MiB at T = 4096."""
        return self.apply(np.eye(self.tokens))

    def eigenvalues(self) -> np.ndarray:
        """The T eigenvalues, in order of tokens: the operator is triangular, so they are its
        diagonal, of which triBox's is w_t⁻² and that of a box w_t⁻¹."""
        diagonal = self.residual + self.gate / _widths(self.tokens, self.width) ** 2.0
        if isinstance(self.attention, np.ndarray):
            diagonal = diagonal + np.diag(self.attention)
        elif self.attention == "sink":
            diagonal[0] += 1.0
        elif self.attention in ("uniform", "local"):
            window = self.tokens if self.attention == "uniform" else self.window
            diagonal = diagonal + 1 / _widths(self.tokens, window)
        return self._scale * diagonal

    def frobenius_squared(self) -> float:
        """‖·‖_F² exactly. Once every window is full, each row is the one before, moved by a place
        (a sink then is outside of triBox's window): one such row stands for all."""
        if isinstance(self.attention, np.ndarray):
            return float(np.sum(self.dense() ** 2))
        full = max(2 * self.width, self.window if self.attention == "local" else 1)
        uniform = self.attention == "uniform"
        if uniform and self.residual == self.gate == 0:
            return float(np.sum(1 / np.arange(1, self.tokens + 1)))
        first = dataclasses.replace(
            self,
            tokens=min(self.tokens, full),
            attention="none" if uniform else self.attention,
            row_stochastic=False,
        )
        rows = first._row_energies()
        total = rows.sum() + (self.tokens - len(rows)) * rows[-1]
        if uniform:
            # Row t adds 1/(t+1) everywhere to a row of the sum ι + g.
            weight = 2 * (self.residual + self.gate) + 1
            total += weight * float(np.sum(1 / np.arange(1, self.tokens + 1)))
        return float(self._scale**2 * total)

    def _row_energies(self) -> np.ndarray:
        """Squared norms [T] of the rows, from columns 512 at a time."""
        total = np.zeros(self.tokens)
        for start in range(0, self.tokens, 512):
            stop = min(start + 512, self.tokens)
            unit = np.zeros((self.tokens, stop - start))
            unit[np.arange(start, stop), np.arange(stop - start)] = 1
            total += np.sum(self.apply(unit) ** 2, axis=1)
        return total


def _checked_attention(matrix: Any, tokens: int) -> np.ndarray:
    matrix = np.asarray(matrix, np.float64)
    if matrix.shape != (tokens, tokens):
        raise ShapeError("attention", expected=(tokens, tokens), given=matrix.shape)
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise ConfigError("attention", expected="finite numbers ≥ 0", given=matrix.min())
    if np.triu(matrix, 1).any():
        raise ConfigError("attention", expected="a causal (lower triangular) matrix")
    wrong = np.abs(matrix.sum(1) - 1)
    if wrong.max() > 1e-6:
        row = int(wrong.argmax())
        given = f"{matrix[row].sum():.6g} in row {row}"
        raise ConfigError("attention", expected="rows that sum to 1", given=given)
    return matrix


# Singular values.


@dataclass(frozen=True)
class SingularValues:
    """Singular values, descending.

    Attributes:
        values: [k].
        residuals: [k], a bound on each error: ``‖Aᵀu - σv‖``; zeros for the dense method.
        method: "dense" (all T of them) or "Golub-Kahan" (the k largest).
        steps: products with the operator and its transpose; 0 for the dense method.
        converged: [k], whether the residual is below the tolerance.
    """

    values: np.ndarray
    residuals: np.ndarray
    method: str
    steps: int
    converged: np.ndarray


def singular_values(
    operator: SidePathOperator, count: int = 16, *, tolerance: float = 1e-8, seed: int = 0
) -> SingularValues:
    """All singular values up to T = 4096 from the matrix, the `count` largest above.

    Raises:
        ConfigError: as `largest_singular_values`.
    """
    if operator.tokens > MOST_DENSE:
        return largest_singular_values(operator, count, tolerance=tolerance, seed=seed)
    values = _interruptible(lambda: np.linalg.svd(operator.dense(), compute_uv=False))
    shape = values.shape
    return SingularValues(values, np.zeros(shape), "dense", 0, np.ones(shape, bool))


def _interruptible(work: Callable[[], np.ndarray]) -> np.ndarray:
    """The result of a long call into a library, which Ctrl-C does not wait for.

    Signals reach Python between its own steps only: the call runs on another thread. After Ctrl-C
    it is left to end by itself.
    """
    results: list[np.ndarray] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(0.1)
    if failures:
        raise failures[0]
    return results[0]


def largest_singular_values(
    operator: LinearOperator,
    count: int = 16,
    *,
    tolerance: float = 1e-8,
    most_steps: int = 400,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> SingularValues:
    """The largest singular values by Golub–Kahan bidiagonalisation, fully reorthogonalised.

    ``A V_k = U_k B_k``, ``Aᵀ U_k = V_k B_kᵀ + β v_{k+1} e_kᵀ`` (Golub & Kahan, 1965); the singular
    values of the bidiagonal B_k approach those of A from the ends, and ``β |e_kᵀ u|`` bounds the
    error of each. A value that occurs several times is found once only, for a single starting
    vector sees one direction of its space.

    Args:
        operator: products with it and with its transpose.
        count: how many.
        tolerance: of the residuals, relative to the largest value.
        most_steps: products of each kind at most; what has not converged then is marked.
        seed: of the starting vector.
        progress: called with steps done and `most_steps`.

    Raises:
        ConfigError: a number is out of range.
    """
    rows, columns = operator.shape
    count = min(integer("count", count, 1), rows, columns)
    most_steps = min(integer("most_steps", most_steps, 1), rows, columns)
    if not tolerance > 0:
        raise ConfigError("tolerance", expected="a number > 0", given=tolerance)
    rng = np.random.default_rng(seed)
    right, left = np.zeros((most_steps + 1, columns)), np.zeros((most_steps, rows))
    alpha, beta = np.zeros(most_steps), np.zeros(most_steps)
    start = rng.standard_normal(columns)
    right[0] = start / np.linalg.norm(start)
    for k in range(most_steps):
        u = operator.apply(right[k])
        if k:
            u = u - beta[k - 1] * left[k - 1]
        u = _orthogonal(u, left[:k])
        alpha[k] = np.linalg.norm(u)
        left[k] = u / alpha[k] if alpha[k] > 0 else 0.0
        v = _orthogonal(operator.apply_adjoint(left[k]) - alpha[k] * right[k], right[: k + 1])
        beta[k] = np.linalg.norm(v)
        finished = beta[k] <= 1e-14 * alpha[: k + 1].max()
        due = k + 1 >= count and (k % 8 == 7 or k + 1 == most_steps)
        if finished or due:
            found = _ritz(alpha[: k + 1], beta[: k + 1], count, tolerance, k + 1)
            if finished or found.converged.all() or k + 1 == most_steps:
                return found
        if progress and k % 8 == 7:
            progress(k + 1, most_steps)
        right[k + 1] = v / beta[k]
    raise AssertionError("the last step returns")


def _orthogonal(vector: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """Without its part in the span of orthonormal rows; twice, as once leaves rounding."""
    for _ in range(2):
        vector = vector - basis.T @ (basis @ vector)
    return vector


def _ritz(
    alpha: np.ndarray, beta: np.ndarray, count: int, tolerance: float, steps: int
) -> SingularValues:
    bidiagonal = np.diag(alpha) + np.diag(beta[:-1], 1)
    u, values, _ = np.linalg.svd(bidiagonal)
    residuals = beta[-1] * np.abs(u[-1])
    converged = residuals <= tolerance * values[0]
    part = slice(0, min(count, len(values)))
    return SingularValues(values[part], residuals[part], "Golub-Kahan", steps, converged[part])


@functools.lru_cache(maxsize=64)
def tribox_norms(tokens: int, width: int) -> dict[str, float]:
    """Norms of M_tri: one (column sums), inf (row sums), two, and the energy ‖M‖_F²/T of a row.

    Raises:
        ConfigError: a number is out of range.
    """
    operator = SidePathOperator(tokens, width, gate=1.0, residual=0.0, row_stochastic=False)
    ones = np.ones(tokens)
    largest = largest_singular_values(operator, 1, tolerance=1e-8)
    return {
        "one": float(operator.apply_adjoint(ones).max()),
        "inf": float(operator.apply(ones).max()),
        "two": float(largest.values[0]),
        "energy": operator.frobenius_squared() / tokens,
    }
