# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules of PyTorch whose residual path is more than x + F(x).

Parameters have the names, shapes and first values of `jpmhc.nn`'s modules: checkpoints go either
way (`parameter_arrays`).
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from jpmhc import manifolds
from jpmhc.errors import ConfigError, ShapeError
from jpmhc.nn.initializers import TRUNCATED_STD
from jpmhc.nn.residual import initial_map_bias, preset
from jpmhc.torch._projection import encode
from jpmhc.torch._side_path import coverage_gate, side_path
from jpmhc.torch._streams import BlockOptions, hyper_connection

Tensor = torch.Tensor


def copy_in(x: Tensor, n: int) -> Tensor:
    """[..., p] → n equal streams [..., n, p]."""
    return x.unsqueeze(-2).expand(*x.shape[:-1], n, x.shape[-1]).contiguous()


def sum_out(x: Tensor) -> Tensor:
    """Streams [..., n, p] → their sum [..., p]."""
    return x.sum(-2)


def mean_out(x: Tensor) -> Tensor:
    """Streams [..., n, p] → their mean [..., p]."""
    return x.mean(-2)


class HyperConnection(nn.Module):
    """A sub-layer on n streams: read one input, mix the streams, write the output back (JPmHC).

    ``z = norm(x_flat) Wᵀ``, per group pre, post, res ``z ← α z + b``; read ``x_in = Σ_j r_j x_j``,
    ``y = F(x_in)``, write ``out_i = Σ_j H_ij x_j + scale · q_i · y`` with H on the manifold. At the
    start the block is the plain residual x + F(x) of equal streams (see `jpmhc.nn`).

    Args:
        sublayer: F on [..., p], any module.
        n: streams, 1 … 16.
        manifold: a name of `jpmhc.manifolds`.
        dim: p, channels of a stream; by default what the sub-layer's first layer takes.
        norm: "layer" or "rms"; by the papers' preset for the manifold when None.
        read_write: "softmax" or "sigmoid"; likewise.
        affine: gain (and shift of a layer norm) before the product.
        tau: temperature of the softmax kind.
        post_scale: c of the sigmoid kind.
        scale: s of the write.
        eps: of the norm.
        parameters: the manifold's own, such as ``rounds=20``.

    Raises:
        ConfigError: an unknown manifold, parameter or kind, with the nearest known name; no `dim`
            where the sub-layer does not show it.
    """

    def __init__(
        self,
        sublayer: nn.Module,
        n: int = 4,
        manifold: str = "stiefel",
        *,
        dim: int | None = None,
        norm: str | None = None,
        read_write: str | None = None,
        affine: bool = False,
        tau: float = 1.0,
        post_scale: float = 2.0,
        scale: float = 1.0,
        eps: float = 1e-5,
        **parameters: Any,
    ) -> None:
        super().__init__()
        self.sublayer = sublayer
        self.dim = _positive("dim of HyperConnection", _width_of(sublayer) if dim is None else dim)
        self.n = _positive("n of HyperConnection", n)
        info = manifolds.get(manifold, parameters)
        self.options = BlockOptions(
            manifold, encode(parameters), *preset(manifold, norm, read_write), eps, tau, post_scale
        )
        self._encoded = self.options.encode()
        self.scale = scale
        maps = torch.from_numpy(initial_map_bias(n, self.options.read_write, post_scale))
        self._first_bias = torch.cat([maps, torch.from_numpy(info.initial_bias(n))]).float()
        width = n * self.dim
        self.weight = nn.Parameter(torch.empty(self._first_bias.numel(), width))
        self.alpha = nn.Parameter(torch.empty(3))
        self.bias = nn.Parameter(torch.empty(self._first_bias.numel()))
        shifted = affine and self.options.norm == "layer"
        self.gain = nn.Parameter(torch.empty(width)) if affine else None
        self.shift = nn.Parameter(torch.empty(width)) if shifted else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """First values: a small dynamic part, and biases of the plain residual."""
        _truncated_normal(self.weight, 1 / math.sqrt(self.weight.shape[1]))
        self.alpha.fill_(0.01)
        self.bias.copy_(self._first_bias)
        if self.gain is not None:
            self.gain.fill_(1.0)
        if self.shift is not None:
            self.shift.zero_()

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Streams [..., n, p] → [..., n, p]; further arguments go to the sub-layer."""
        if x.dim() < 3 or x.shape[-2] != self.n or x.shape[-1] != self.dim:
            raise ShapeError(
                "streams", expected=f"[..., {self.n}, {self.dim}]", given=list(x.shape)
            )
        return hyper_connection(
            x,
            self.weight,
            lambda value: self.sublayer(value, *args, **kwargs),
            self._encoded,
            alpha=self.alpha,
            bias=self.bias,
            gain=self.gain,
            shift=self.shift,
            scale=self.scale,
        )

    def extra_repr(self) -> str:
        """What the module is made of, besides the sub-layer."""
        return f"n={self.n}, dim={self.dim}, scale={self.scale}, {self.options}"


def _truncated_normal(weight: Tensor, std: float) -> None:
    """Normal cut off at two sigma, of this standard deviation after the cut."""
    sigma = std / TRUNCATED_STD
    nn.init.trunc_normal_(weight, std=sigma, a=-2 * sigma, b=2 * sigma)


def _positive(what: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(what, expected="an integer ≥ 1", given=value)
    return value


def _width_of(sublayer: nn.Module) -> int:
    """Channels that the first layer of a known kind takes."""
    for module in sublayer.modules():
        for attribute in ("in_features", "embed_dim", "num_channels"):
            if isinstance(value := getattr(module, attribute, None), int):
                return value
        shape = getattr(module, "normalized_shape", None)
        if isinstance(shape, (tuple, list)) and len(shape) == 1:
            return int(shape[0])
    raise ConfigError(
        "dim of HyperConnection",
        expected="the channels of a stream",
        given="none, and a sub-layer that does not show them",
        hint="HyperConnection(sublayer, n, dim=...)",
    )


class CoverageGate(nn.Module):
    """The scalar gate of the side path from the coverage b/T, shared by all layers (TRSP).

    50 numbers: a 1→16→1 tanh network on log2(b/T), and the exponent β.
    """

    HIDDEN = 16

    def __init__(self) -> None:
        super().__init__()
        self.w1 = nn.Parameter(torch.empty(self.HIDDEN))
        self.b1 = nn.Parameter(torch.zeros(self.HIDDEN))
        self.w2 = nn.Parameter(torch.empty(self.HIDDEN))
        self.b2 = nn.Parameter(torch.zeros(()))
        self.beta = nn.Parameter(torch.zeros(()))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """First values: those of `jpmhc.nn.CoverageGate`."""
        _truncated_normal(self.w1, 1.0)
        _truncated_normal(self.w2, 1 / math.sqrt(self.HIDDEN))
        for value in (self.b1, self.b2, self.beta):
            nn.init.zeros_(value)

    def forward(self, width: int, context: int) -> Tensor:
        """The gate [] for a width and a context length."""
        return coverage_gate(width, context, self.w1, self.b1, self.w2, self.b2, self.beta)


class SidePath(nn.Module):
    """The layer update ``x + attn + g · triBox_b(x)`` (TRSP).

    Args:
        width: b ≥ 1; where not given, min(2^layer, T).
        gate: a `CoverageGate` shared by the layers, or None for a static learned gate that starts
            at sigmoid(0) = ½.
        layer: ℓ of the default width.
        passes: 2 (triBox), or 1 for a single box.

    Raises:
        ConfigError: an option out of its range.
    """

    def __init__(
        self,
        width: int | None = None,
        *,
        gate: CoverageGate | None = None,
        layer: int = 0,
        passes: int = 2,
    ) -> None:
        super().__init__()
        if isinstance(layer, bool) or not isinstance(layer, int) or layer < 0:
            raise ConfigError("layer of SidePath", expected="an integer ≥ 0", given=layer)
        if passes not in (1, 2):
            raise ConfigError("passes of SidePath", expected="1 or 2", given=passes)
        self.width = None if width is None else _positive("width of SidePath", width)
        self.layer, self.passes, self.gate = layer, passes, gate
        self.static_gate = nn.Parameter(torch.zeros(())) if gate is None else None

    def forward(
        self, x: Tensor, attn: Tensor, *, context: int | None = None, segments: Tensor | None = None
    ) -> Tensor:
        """x, attn [..., T, D] → [..., T, D]; `context` is T by default."""
        if context is None:
            context = max(x.shape[-2], 1)
        width = min(2**self.layer if self.width is None else self.width, context)
        gate = self.static_gate.sigmoid() if self.gate is None else self.gate(width, context)
        attn = attn.to(x.dtype)
        return side_path(x, attn, gate, width, passes=self.passes, segments=segments)

    def extra_repr(self) -> str:
        """Width and passes."""
        width = f"min(2**{self.layer}, T)" if self.width is None else self.width
        return f"width={width}, passes={self.passes}"


class TRSPSchedule(nn.Module):
    """The side paths of all layers: widths min(2^ℓ, T), ℓ = 0 … D-1, one coverage gate (TRSP).

    ``x = schedule(layer, x, attention(x))`` in place of ``x = x + attention(x)``.

    Args:
        layers: D ≥ 1.
        passes: 2 (triBox), or 1 for a single box.
    """

    def __init__(self, layers: int, *, passes: int = 2) -> None:
        super().__init__()
        self.layers = _positive("layers of TRSPSchedule", layers)
        if passes not in (1, 2):
            raise ConfigError("passes of TRSPSchedule", expected="1 or 2", given=passes)
        self.passes = passes
        self.gate = CoverageGate()

    def width(self, layer: int, context: int) -> int:
        """b of a layer (0 … D-1) for a context length.

        Raises:
            ConfigError: there is no such layer.
        """
        if not 0 <= layer < self.layers:
            raise ConfigError(
                "layer of TRSPSchedule", expected=f"0 … {self.layers - 1}", given=layer
            )
        return min(2**layer, context)

    def forward(
        self,
        layer: int,
        x: Tensor,
        attn: Tensor,
        *,
        context: int | None = None,
        segments: Tensor | None = None,
    ) -> Tensor:
        """x, attn [..., T, D] → ``x + attn + g · triBox(x)`` of a layer; `context` is T if None."""
        if context is None:
            context = max(x.shape[-2], 1)
        width = self.width(layer, context)
        gate = self.gate(width, context)
        return side_path(x, attn.to(x.dtype), gate, width, passes=self.passes, segments=segments)
