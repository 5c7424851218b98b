# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The layers of a product, checked once, and what the solvers ask about them."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from jpmhc import _spectral
from jpmhc.errors import ConfigError, DTypeError, ShapeError

__all__ = ["Layers"]


def _array(value: ArrayLike, name: str, dtype: type) -> NDArray:
    """`value` as an array of that type; what is one already is not copied."""
    try:
        array = np.asarray(value)
        # NumPy would take None for nan.
        if value is None or (dtype is np.float64 and np.iscomplexobj(array)):
            raise TypeError
        return np.asarray(array, dtype=dtype)
    except (TypeError, ValueError):
        raise DTypeError(
            name, expected=f"an array of {np.dtype(dtype).name}", given=type(value).__name__
        ) from None


def points(value: ArrayLike, name: str, *, dtype: type = np.complex128) -> NDArray:
    """Points to solve at, as an array of finite numbers.

    Raises:
        DTypeError: no numbers.
        ConfigError: a number that is not finite.
    """
    array = _array(value, name, dtype)
    if not np.isfinite(array).all():
        where = np.flatnonzero(~np.isfinite(array.ravel()))[0]
        raise ConfigError(
            name, expected="finite numbers", given=f"{array.ravel()[where]} at index {where}"
        )
    return array


def number(value: object, name: str, *, least: float = -np.inf) -> float:
    """One finite real number ≥ `least`.

    Raises:
        DTypeError: no real number.
        ShapeError: several numbers.
        ConfigError: not finite, or below `least`.
    """
    array = _array(value, name, np.float64)
    if array.ndim != 0:
        raise ShapeError(name, expected="one number", given=f"shape {array.shape}")
    if not (np.isfinite(array) and array >= least):
        bound = "" if least == -np.inf else f" >= {least:g}"
        raise ConfigError(name, expected=f"a finite {name}{bound}", given=f"{float(array):g}")
    return float(array)


def upper_half_plane(z: ArrayLike) -> NDArray[np.complex128]:
    """Points z with Im z > 0.

    Raises:
        ConfigError: a point that is not in the upper half plane.
    """
    z = points(z, "z")
    outside = np.flatnonzero(z.ravel().imag <= 0)
    if outside.size:
        raise ConfigError(
            "z",
            expected="points in the upper half plane",
            given=f"{z.ravel()[outside[0]]} at index {outside[0]}",
        )
    return z


def _mixer(value: ArrayLike, index: int) -> NDArray[np.float64]:
    mixer = _array(value, f"mixers[{index}]", np.float64)
    if mixer.ndim != 2 or mixer.shape[0] != mixer.shape[1] or not mixer.size:
        raise ShapeError(
            f"mixers[{index}]", expected="a square matrix", given=f"shape {mixer.shape}"
        )
    if not np.isfinite(mixer).all():
        raise ConfigError(f"mixers[{index}]", expected="finite entries", given="nan or inf")
    return mixer


@dataclass(frozen=True)
class Layers:
    """J = Y_L ... Y_1 with Y_l = A_l ⊗ I + σ_l X_l.

    Attributes:
        mixers: float64 [L, q, q], the first applied first.
        sigma2: float64 [L], σ_l² ≥ 0; the entries of σ_l X_l have variance σ_l²/N.
    """

    mixers: NDArray[np.float64]
    sigma2: NDArray[np.float64]

    @classmethod
    def of(cls, mixers: Sequence[ArrayLike], sigma2: ArrayLike) -> Layers:
        """Checks what a user gave.

        Args:
            mixers: L ≥ 1 arrays of q×q.
            sigma2: one number, or one a layer, each ≥ 0.

        Raises:
            ShapeError: no mixers, a matrix that is not square, sizes that differ, or a number of
                variances that is neither 1 nor L.
            ConfigError: an entry that is not finite, or a negative variance.
            DTypeError: something that holds no real numbers.
        """
        if isinstance(mixers, np.ndarray) and mixers.ndim != 3:
            raise ShapeError("mixers", expected="[L, q, q]", given=f"shape {mixers.shape}")
        if not isinstance(mixers, Iterable):
            raise DTypeError(
                "mixers", expected="a sequence of matrices", given=type(mixers).__name__
            )
        found = [_mixer(mixer, index) for index, mixer in enumerate(mixers)]
        if not found:
            raise ShapeError("mixers", expected="at least one matrix", given="none")
        for index, mixer in enumerate(found):
            if mixer.shape != found[0].shape:
                raise ShapeError(
                    f"mixers[{index}]",
                    expected=f"shape {found[0].shape} as mixers[0]",
                    given=f"{mixer.shape}",
                )
        variances = _array(sigma2, "sigma2", np.float64)
        if variances.ndim > 1 or variances.size not in (1, len(found)):
            raise ShapeError(
                "sigma2",
                expected=f"one number or {len(found)}",
                given=f"shape {variances.shape}",
            )
        if not (np.isfinite(variances) & (variances >= 0)).all():
            raise ConfigError("sigma2", expected="finite numbers ≥ 0", given=variances.tolist())
        return cls(
            np.stack(found), np.ascontiguousarray(np.broadcast_to(variances.ravel(), len(found)))
        )

    @property
    def depth(self) -> int:
        """L."""
        return len(self.mixers)

    @property
    def size(self) -> int:
        """q."""
        return self.mixers.shape[1]

    @functools.cached_property
    def chain(self) -> _spectral.ChainModel:
        """The layers as the exact solver takes them.

        Raises:
            ConfigError: the product vanishes, or its scale leaves the range of float64.
        """
        return _spectral.ChainModel(self.mixers, self.sigma2)

    @functools.cached_property
    def orthogonal_scales(self) -> NDArray[np.float64] | None:
        """a_l if every A_l is a_l times an orthogonal matrix (to 1e-12), otherwise None."""
        scales = np.sqrt(np.einsum("lij,lij->l", self.mixers, self.mixers) / self.size)
        gram = np.einsum("lki,lkj->lij", self.mixers, self.mixers)
        ideal = scales[:, None, None] ** 2 * np.eye(self.size)
        close = np.abs(gram - ideal).max(axis=(1, 2)) <= 1e-12 * np.maximum(scales**2, 1e-300)
        return scales if close.all() else None

    @functools.cached_property
    def first_moment(self) -> float:
        """(1/N) E tr JᵀJ, exact at any N.

        C₀ = I, C_l = A_l C_{l−1} A_lᵀ + σ_l² tr_q(C_{l−1}) I, and this is tr_q C_L.
        """
        second = np.eye(self.size)
        for mixer, variance in zip(self.mixers, self.sigma2, strict=True):
            noise = variance * np.trace(second) / self.size
            second = mixer @ second @ mixer.T + noise * np.eye(self.size)
        return float(np.trace(second) / self.size)

    @functools.cached_property
    def zero_mass(self) -> float:
        """The mass of the atom at singular value 0, exact from ranks.

        Noise makes a layer invertible and its position generic, so the rank of J is the smallest
        of the ranks of the products of adjacent layers without noise: mass = 1 − rank/q.
        """
        rank, run = self.size, np.eye(self.size)
        for mixer, variance in zip(self.mixers, self.sigma2, strict=True):
            run = np.eye(self.size) if variance > 0 else mixer @ run
            norm = np.abs(run).max()
            rank = min(rank, int(np.linalg.matrix_rank(run)) if norm > 0 else 0)
            run = run / norm if norm > 0 else run
        return 1 - rank / self.size
