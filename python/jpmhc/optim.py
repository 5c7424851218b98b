# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Optimisers: what a training step does with the gradients.

An optimiser is a frozen description. The learning rate is an argument of the compiled step, so a
schedule needs no compilation; `lr` here is the rate used when a step is given none.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from jpmhc import ops
from jpmhc._location import here
from jpmhc.errors import ConfigError, is_known, shown, unknown_name
from jpmhc.tracing import Tensor

_LARGEST = float(np.finfo(np.float32).max)


def check_rate(lr: Any, what: str = "learning rate") -> float:
    """The rate as a float.

    Raises:
        ConfigError: it is negative, not finite or not a number.
    """
    if isinstance(lr, bool) or not isinstance(lr, (int, float, np.floating, np.integer)):
        raise ConfigError(what, expected="a number ≥ 0", given=shown(lr), where=here())
    if not 0 <= lr <= _LARGEST:
        raise ConfigError(what, expected="a finite number ≥ 0 of f32", given=lr, where=here())
    return float(lr)


@dataclass(frozen=True)
class Optimizer:
    """What all optimisers have.

    Args:
        lr: learning rate, ≥ 0.
        weight_decay: λ of ``p ← p (1 - lr λ)``, ≥ 0.
    """

    lr: float = 1e-3
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.name == "betas":
                _check_betas(value)
            elif item.name == "bias_correction":
                if not is_known(value, ("outside", "inside")):
                    raise unknown_name(item.name, value, ("outside", "inside"), where=here())
            else:
                check_rate(value, f"{item.name} of {type(self).__name__}")


def _check_betas(betas: Any) -> None:
    fits = (
        isinstance(betas, (tuple, list))
        and len(betas) == 2
        and all(isinstance(b, (int, float)) and 0 <= b < 1 for b in betas)
    )
    if not fits:
        raise ConfigError(
            "betas", expected="two numbers in [0, 1)", given=shown(betas), where=here()
        )


@dataclass(frozen=True)
class DenseOptimizer(Optimizer):
    """Two moments for every parameter."""

    betas: tuple[float, float] = (0.9, 0.999)

    def update(
        self, p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: Any, step: Any, decay: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The new p, m and v, traced.

        Args:
            decay: whether the weight decay applies to this group.
        """
        raise NotImplementedError

    def _decay(self, decay: bool) -> float:
        return self.weight_decay if decay else 0.0


@dataclass(frozen=True)
class AdamW(DenseOptimizer):
    """``p -= lr · m̂ / (sqrt(v̂) + eps)`` after ``p *= 1 - lr λ``."""

    eps: float = 1e-8

    def update(
        self, p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: Any, step: Any, decay: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        return ops.adamw(
            p, g, m, v, lr=lr, step=step, betas=self.betas, eps=self.eps,
            weight_decay=self._decay(decay),
        )  # fmt: skip


@dataclass(frozen=True)
class AdamAtan2(DenseOptimizer):
    """``p -= lr/(1-β₁^t) · atan2(m, sqrt(v)/sqrt(1-β₂^t))``: Adam without an epsilon.

    Args:
        bias_correction: "inside" corrects m within the arctangent instead.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    bias_correction: str = "outside"

    def update(
        self, p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: Any, step: Any, decay: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        return ops.adam_atan2(
            p, g, m, v, lr=lr, step=step, betas=self.betas,
            weight_decay=self._decay(decay), bias_correction=self.bias_correction,
        )  # fmt: skip


@dataclass(frozen=True)
class SignSGD(Optimizer):
    """``p ← p (1 - lr λ) - lr · sign(g)`` on the rows of a table that a batch uses."""

    def update_rows(self, table: Tensor, ids: Tensor, rows: Tensor, lr: Any) -> Tensor:
        """The new table, traced."""
        return ops.sign_sgd_rows(table, ids, rows, lr=lr, weight_decay=self.weight_decay)
