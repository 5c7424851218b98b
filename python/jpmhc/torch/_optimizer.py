# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AdamAtan2 as an optimiser of PyTorch."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable
from typing import Any

import torch

from jpmhc import ops, optim
from jpmhc.errors import DTypeError, UnsupportedError
from jpmhc.torch._engine import LIBRARY, Kernel, compile_once
from jpmhc.tracing import Spec, Tensor

_kernels: dict[Any, Kernel] = {}

LIBRARY.define(
    "adam_atan2_(Tensor(a!) p, Tensor g, Tensor(b!) m, Tensor(c!) v, float lr, int step, "
    "float beta1, float beta2, float weight_decay, str bias_correction) -> ()"
)


def _step(
    p: torch.Tensor,
    g: torch.Tensor,
    m: torch.Tensor,
    v: torch.Tensor,
    lr: float,
    step: int,
    beta1: float,
    beta2: float,
    weight_decay: float,
    bias_correction: str,
) -> None:
    if p.numel() == 0:
        return
    key = (p.numel(), beta1, beta2, weight_decay, bias_correction)
    kernel = _kernels.get(key)
    if kernel is None:
        kernel = compile_once(_kernels, key, lambda: _compile(*key))
    scalars = (ctypes.c_float(lr), ctypes.c_int64(step))
    written = [t if t.is_contiguous() else t.contiguous() for t in (p, m, v)]
    kernel((written[0], g, *written[1:]), scalars)
    for target, source in zip((p, m, v), written, strict=True):
        if target is not source:
            target.copy_(source)


def _compile(
    size: int, beta1: float, beta2: float, weight_decay: float, bias_correction: str
) -> Kernel:
    def fn(p: Tensor, g: Tensor, m: Tensor, v: Tensor, lr: Tensor, step: Tensor) -> tuple:
        return ops.adam_atan2(
            p, g, m, v, lr=lr, step=step, betas=(beta1, beta2),
            weight_decay=weight_decay, bias_correction=bias_correction,
        )  # fmt: skip

    specs = [Spec((size,), "f32")] * 4
    specs += [Spec((), dtype, scalar=True) for dtype in ("f32", "i64")]
    return Kernel("adam_atan2", fn, specs, inplace=(0, 2, 3))


LIBRARY.impl("adam_atan2_", _step, "CPU")
torch.library.register_fake("jpmhc::adam_atan2_", lambda *args: None, lib=LIBRARY)


class AdamAtan2(torch.optim.Optimizer):
    """``p -= lr/(1-β₁^t) · atan2(m, sqrt(v)/sqrt(1-β₂^t))``: Adam without an epsilon.

    One pass over each parameter, in place.

    Args:
        params: float32 parameters, or groups of them.
        lr: learning rate, ≥ 0.
        betas: decay of the two moments.
        weight_decay: λ of ``p ← p (1 - lr λ)``, ≥ 0.
        bias_correction: "inside" corrects m within the arctangent instead.

    Raises:
        ConfigError: an option out of its range.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.95),
        weight_decay: float = 0.0,
        bias_correction: str = "outside",
    ) -> None:
        defaults = {
            "lr": lr,
            "betas": betas,
            "weight_decay": weight_decay,
            "bias_correction": bias_correction,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            optim.AdamAtan2(**{name: group[name] for name in defaults} | {"lr": float(group["lr"])})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step with the gradients that the parameters hold.

        Args:
            closure: computes them and returns the loss, where given.

        Raises:
            DTypeError: a parameter is not float32.
            UnsupportedError: a gradient is sparse.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            rate, (beta1, beta2) = float(group["lr"]), group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p] or self._first_state(p)
                state["step"] += 1
                torch.ops.jpmhc.adam_atan2_(
                    p, p.grad, state["exp_avg"], state["exp_avg_sq"], rate, state["step"],
                    beta1, beta2, group["weight_decay"], group["bias_correction"],
                )  # fmt: skip
        return loss

    def _first_state(self, p: torch.Tensor) -> dict[str, Any]:
        if p.dtype != torch.float32 or p.grad.dtype != torch.float32:
            raise DTypeError(
                "parameter of AdamAtan2", expected="float32 and its gradient too", given=p.dtype
            )
        if p.grad.is_sparse:
            raise UnsupportedError("AdamAtan2 of a sparse gradient", expected="a dense gradient")
        state = self.state[p]
        state["step"] = 0
        for moment in ("exp_avg", "exp_avg_sq"):
            state[moment] = torch.zeros_like(p, memory_format=torch.contiguous_format)
        return state
