# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side path by cumulative sums, as published: f32 is inaccurate at long T, f64 is slower."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from jpmhc.bench.peers.support import both


def box(x: torch.Tensor, width: int, dtype: torch.dtype) -> torch.Tensor:
    """A box filter along the tokens of [B, T, D]."""
    sums = torch.cumsum(x.to(dtype), 1)
    count = torch.clamp(torch.arange(1, x.shape[1] + 1, dtype=dtype), max=width)[:, None]
    return (sums - F.pad(sums, (0, 0, width, 0))[:, : x.shape[1]]) / count


def layer_update(
    x: torch.Tensor, attn: torch.Tensor, gate: torch.Tensor, *, width: int, dtype: torch.dtype
) -> torch.Tensor:
    """x + attn + g · triBox(x)."""
    return x + attn + gate * box(box(x, width, dtype), width, dtype).to(x.dtype)


def modes(width: int) -> dict[str, Callable[..., Any]]:
    """Sums in f32 and in f64."""
    return {
        mode: function
        for dtype in (torch.float32, torch.float64)
        for mode, function in both(
            partial(layer_update, width=width, dtype=dtype), f"cumsum{str(dtype)[-2:]}"
        ).items()
    }
