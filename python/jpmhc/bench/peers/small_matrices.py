# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Projections of n×n matrices.

The tuned forms take coefficients [n·n, N], one row a coefficient, so that tokens fill the vector
lanes, and give n×n nested sequences of vectors [N].
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from jpmhc.bench.peers.support import both

ROUNDS, CLAMP, ALPHA = 20, 10.0, 0.1


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    """Σ a_i b_i."""
    return functools.reduce(operator.add, (x * y for x, y in zip(a, b, strict=True)))


def sinkhorn_arrays(z: torch.Tensor, n: int) -> torch.Tensor:
    """In scaling form on arrays [n, n, N]: few operations, the fastest eagerly.

    The clamp makes exp safe without a shift.
    """
    k = z.clamp(-CLAMP, CLAMP).exp().view(n, n, -1)
    v = torch.ones_like(k[:1])
    for _ in range(ROUNDS):
        u = 1 / (k * v).sum(1, keepdim=True)
        v = 1 / (k * u).sum(0, keepdim=True)
    return k * u * v


def sinkhorn_unrolled(z: torch.Tensor, n: int) -> list[list[torch.Tensor]]:
    """The same on n·n + 2n vectors: Inductor makes it one loop, which it cannot of the arrays."""
    flat = z.clamp(-CLAMP, CLAMP).exp().unbind(0)
    k = [flat[n * i : n * i + n] for i in range(n)]
    v: list[Any] = [1.0] * n
    u: list[Any] = []
    for _ in range(ROUNDS):
        u = [1 / dot(row, v) for row in k]
        v = [1 / dot(column, u) for column in zip(*k, strict=True)]
    return [[k[i][j] * u[i] * v[j] for j in range(n)] for i in range(n)]


class ImplicitSinkhorn(torch.autograd.Function):
    """The gradient of the converged map, by elimination in the dual system of n - 1 unknowns.

    (D_c - Pᵀ D_r⁻¹ P) v = h_col - Pᵀ D_r⁻¹ h_row with v_n = 0, then u = D_r⁻¹ (h_row - P v).
    """

    @staticmethod
    def forward(ctx: Any, z: torch.Tensor, n: int, unrolled: bool) -> torch.Tensor:
        if unrolled:
            p = torch.stack([torch.stack(row) for row in sinkhorn_unrolled(z, n)])
        else:
            p = sinkhorn_arrays(z, n)
        ctx.save_for_backward(z, p)
        return p

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        z, p = ctx.saved_tensors
        n, h = len(p), grad * p
        rows, columns = p.sum(1), p.sum(0)
        q, h_row = p / rows[:, None], h.sum(1)
        right = list((h.sum(0) - (q * h_row[:, None]).sum(0)).unbind(0))
        left = [
            [(columns[j] if j == k else 0) - dot(p[:, j], q[:, k]) for k in range(n - 1)]
            for j in range(n - 1)
        ]
        for k in range(n - 1):  # without pivoting: symmetric positive definite
            for i in range(k + 1, n - 1):
                factor = left[i][k] / left[k][k]
                left[i] = [x - factor * y for x, y in zip(left[i], left[k], strict=True)]
                right[i] = right[i] - factor * right[k]
        v = [torch.zeros_like(right[0])] * n
        for k in reversed(range(n - 1)):
            later = sum(left[k][j] * v[j] for j in range(k + 1, n - 1))
            v[k] = (right[k] - later) / left[k][k]
        columns_dual = torch.stack(v)
        rows_dual = (h_row - (p * columns_dual).sum(1)) / rows
        gradient = h - p * (rows_dual[:, None] + columns_dual)
        return gradient.view_as(z) * (z.abs() <= CLAMP), None, None


def sinkhorn_implicit(z: torch.Tensor, n: int, unrolled: bool) -> torch.Tensor:
    """Sinkhorn with the gradient of its limit (not of the rounds that ran)."""
    return ImplicitSinkhorn.apply(z, n, unrolled)


def cayley(z: torch.Tensor, n: int) -> list[list[torch.Tensor]]:
    """Two Cayley steps in closed form: I + 2 (B + B² + B³) with B = α/2 (H - Hᵀ).

    B and B³ are skew and B² is symmetric, which halves the work.
    """
    flat = z.unbind(0)
    b: dict[tuple[int, int], torch.Tensor] = {}
    square: dict[tuple[int, int], Any] = {}
    y: list[list[Any]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i):
            b[i, j] = (flat[n * i + j] - flat[n * j + i]) * (ALPHA / 2)
            b[j, i] = -b[i, j]
    for i in range(n):
        for j in range(i, n):
            terms = [b[i, k] * b[k, j] for k in range(n) if k not in (i, j)]
            square[i, j] = square[j, i] = sum(terms)
        y[i][i] = 1 + 2 * square[i, i]
    for i in range(n):
        for j in range(i):
            skew = b[i, j] + sum(b[i, k] * square[k, j] for k in range(n) if k != i)
            y[i][j], y[j][i] = 2 * (square[i, j] + skew), 2 * (square[i, j] - skew)
    return y


def sinkhorn_log(logits: torch.Tensor) -> torch.Tensor:
    """The common form: log-sum-exps of [N, n, n]."""
    u = torch.clamp(logits, -CLAMP, CLAMP)
    for _ in range(ROUNDS):
        u = u - torch.logsumexp(u, -1, keepdim=True)
        u = u - torch.logsumexp(u, -2, keepdim=True)
    return torch.exp(u)


def cayley_matrices(raw: torch.Tensor) -> torch.Tensor:
    """The common form: two steps with batched products."""
    w, eye = raw - raw.mT, torch.eye(raw.shape[-1], dtype=raw.dtype)
    y = eye + ALPHA * w
    for _ in range(2):
        y = eye + ALPHA / 2 * (w @ (eye + y))
    return y


def cayley_solve(raw: torch.Tensor) -> torch.Tensor:
    """The exact transform by a solve."""
    b, eye = ALPHA / 2 * (raw - raw.mT), torch.eye(raw.shape[-1], dtype=raw.dtype)
    return torch.linalg.solve(eye - b, eye + b)


def cayley_closed(z: torch.Tensor, n: int) -> list[list[torch.Tensor]]:
    """The exact transform of 4×4 matrices by their two invariants, on vectors.

    With a = Σ b², f the Pfaffian and B* the dual: ((1 + a - f²) I + 2 (B + f B*) + 2 B²) over
    (1 + a + f²).
    """
    flat = z.unbind(0)
    b = {}
    for i in range(n):
        for j in range(i):
            b[i, j] = (flat[n * i + j] - flat[n * j + i]) * (ALPHA / 2)
            b[j, i] = -b[i, j]
    a = sum(b[i, j] * b[i, j] for i in range(n) for j in range(i))
    f = b[0, 1] * b[2, 3] - b[0, 2] * b[1, 3] + b[0, 3] * b[1, 2]
    dual = {(0, 1): b[2, 3], (0, 2): -b[1, 3], (0, 3): b[1, 2]}
    dual |= {(2, 3): b[0, 1], (1, 3): -b[0, 2], (1, 2): b[0, 3]}
    inverse = 1 / (1 + a + f * f)
    y: list[list[Any]] = [[None] * n for _ in range(n)]
    for i in range(n):
        for j in range(i, n):
            square = sum(b[i, k] * b[k, j] for k in range(n) if k not in (i, j))
            if i == j:
                y[i][i] = (1 + a - f * f + 2 * square) * inverse
            else:
                odd = b[i, j] + f * dual[i, j]
                y[i][j] = 2 * (square + odd) * inverse
                y[j][i] = 2 * (square - odd) * inverse
    return y


def _on_matrices(form: Callable[[torch.Tensor, int], Any]) -> Callable[..., Any]:
    """A form on vectors over tokens, for raw numbers [N, n·n] → [N, n, n]."""

    def project(raw: torch.Tensor) -> torch.Tensor:
        n = round(raw.shape[1] ** 0.5)
        rows = form(raw.t().contiguous(), n)
        return torch.stack([entry for row in rows for entry in row], 1).view(-1, n, n)

    return project


def _common(form: Callable[[torch.Tensor], torch.Tensor]) -> Callable[..., Any]:
    def project(raw: torch.Tensor) -> torch.Tensor:
        n = round(raw.shape[1] ** 0.5)
        return form(raw.view(-1, n, n))

    return project


def modes(kind: str) -> dict[str, Callable[..., Any]]:
    """All formulations of a projection, on raw numbers [N, n·n]."""
    if kind == "birkhoff":
        return {
            **both(_on_matrices(sinkhorn_unrolled), "tuned"),
            **both(_on_matrices(sinkhorn_arrays), "arrays"),
            **both(_common(sinkhorn_log), "common"),
        }
    if kind == "stiefel":
        return {**both(_on_matrices(cayley), "tuned"), **both(_common(cayley_matrices), "common")}
    return both(_common(cayley_solve), "solve") | both(_on_matrices(cayley_closed), "closed")
