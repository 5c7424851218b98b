# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Residual paths that are more than x + F(x): hyper-connections and side paths."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from jpmhc import manifolds, ops, shapes
from jpmhc._location import here
from jpmhc.errors import ConfigError, ShapeError, unknown_name
from jpmhc.nn import initializers
from jpmhc.nn.layers import positive
from jpmhc.nn.module import Module, Parameter
from jpmhc.tracing import Tensor, as_tensor

PRESETS = {
    "birkhoff": ("rms", "sigmoid"),
    "permutation": ("rms", "sigmoid"),
    "free": ("rms", "sigmoid"),
    "identity": ("rms", "sigmoid"),
}
"""Norm and read/write kind of the papers for each manifold; layer and softmax otherwise."""


def copy_in(x: Any, n: int) -> Tensor:
    """[N, p] → n equal streams [N, n, p]."""
    x = as_tensor(x)
    positive("streams", n)
    if x.ndim != 2:
        raise ShapeError("input to copy to streams", expected="[N, p]", given=x.shape, where=here())
    rows, channels = x.shape
    return shapes.broadcast_to(x.reshape(rows, 1, channels), (rows, n, channels))


def sum_out(x: Any) -> Tensor:
    """Streams [N, n, p] → their sum [N, p]."""
    return as_tensor(x).sum(1)


def mean_out(x: Any) -> Tensor:
    """Streams [N, n, p] → their mean [N, p]."""
    return as_tensor(x).mean(1)


class HyperConnection(Module):
    """A sub-layer on n streams: read one input, mix the streams, write the output back (JPmHC).

    At the start the dynamic part is small (weights of std (n p)^-½, factors 0.01) and the biases
    make it the plain residual x + F(x) of equal streams: uniform read, write 1, mixer near the
    identity. The Grassmann mixer is a projector and cannot be the identity: it starts near the one
    onto the first coordinates, with the dynamic part as noise.

    Args:
        sublayer: F on [N, p], a module or function.
        dim: p, channels of a stream.
        n: streams, 1 … 16.
        manifold: a name of `jpmhc.manifolds`.
        norm: "layer" or "rms"; by the papers' preset for the manifold when None.
        read_write: "softmax" or "sigmoid"; likewise.
        affine: gain (and shift of a layer norm) before the product; they fold into it.
        tau: temperature of the softmax kind.
        post_scale: c of the sigmoid kind.
        scale: s of the write.
        eps: of the norm.
        parameters: the manifold's own, such as ``rounds=20``.

    Raises:
        ConfigError: unknown manifold, parameter or kind, with the nearest known name.
    """

    def __init__(
        self,
        sublayer: Callable[[Tensor], Tensor],
        dim: int,
        n: int = 4,
        manifold: str = "stiefel",
        *,
        norm: str | None = None,
        read_write: str | None = None,
        affine: bool = False,
        tau: float = 1.0,
        post_scale: float = 2.0,
        scale: float = 1.0,
        eps: float = 1e-5,
        **parameters: Any,
    ) -> None:
        positive("dim of HyperConnection", dim)
        positive("n of HyperConnection", n)
        check_callable("sublayer of HyperConnection", sublayer)
        self.sublayer = sublayer
        self.dim, self.n = dim, n
        info = manifolds.get(manifold, parameters)
        self.norm, self.read_write = preset(manifold, norm, read_write)
        self.options = {
            "manifold": manifold,
            "tau": tau,
            "post_scale": post_scale,
            "scale": scale,
            "eps": eps,
            **parameters,
        }
        is_number = isinstance(post_scale, (int, float, np.number))
        if not is_number or (self.read_write == "sigmoid" and not post_scale > 0):
            raise ConfigError(
                "post_scale of HyperConnection",
                expected="a number > 0",
                given=post_scale,
                where=here(),
            )
        width = n * dim
        maps = initial_map_bias(n, self.read_write, post_scale)
        mixer = info.initial_bias(n)
        rows = maps.size + mixer.size
        self.weight = Parameter((rows, width), initializers.truncated_normal(1 / math.sqrt(width)))
        self.alpha = Parameter((3,), initializers.constant(0.01))
        self.bias = Parameter((rows,), initializers.constant(np.concatenate([maps, mixer])))
        self.gain = Parameter((width,), initializers.ones) if affine else None
        shifted = affine and self.norm == "layer"
        self.shift = Parameter((width,), initializers.zeros) if shifted else None

    def forward(self, x: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Streams [N, n, p] → [N, n, p]; further arguments go to the sub-layer."""
        return ops.hyper_connection(
            x,
            self.weight,
            lambda value: self.sublayer(value, *args, **kwargs),
            norm=self.norm,
            read_write=self.read_write,
            alpha=self.alpha,
            bias=self.bias,
            gain=self.gain,
            shift=self.shift,
            **self.options,
        )


def preset(manifold: str, norm: str | None, read_write: str | None) -> tuple[str, str]:
    """Norm and read/write kind, by the papers' preset for the manifold where None.

    Raises:
        ConfigError: one is unknown; the nearest known name is suggested.
    """
    usual = PRESETS.get(manifold, ("layer", "softmax"))
    return (
        _known("norm", norm or usual[0], ("layer", "rms")),
        _known("read_write", read_write or usual[1], ("softmax", "sigmoid")),
    )


def initial_map_bias(n: int, read_write: str, post_scale: float) -> np.ndarray:
    """Biases of the read and write maps of n streams: uniform read, write 1."""
    if read_write == "softmax":
        return np.zeros(2 * n * n)
    read = np.full(n, _logit(1 / n))
    write = np.full(n, _logit(1 / max(post_scale, 1.0)))
    return np.concatenate([read, write])


def check_callable(what: str, value: Any) -> None:
    """Raises ConfigError unless `value` can be called."""
    if not callable(value):
        raise ConfigError(
            what, expected="a module or function", given=type(value).__name__, where=here()
        )


def _known(what: str, value: str, known: tuple[str, ...]) -> str:
    if value not in known:
        raise unknown_name(what, value, known, where=here())
    return value


def _logit(probability: float) -> float:
    """log(p / (1 - p)); for p = 1 a number whose sigmoid rounds to 1 in f32."""
    return 20.0 if probability >= 1 else math.log(probability / (1 - probability))


class CoverageGate(Module):
    """The scalar gate of the side path from the coverage b/T, shared by all layers (TRSP).

    50 numbers: a 1→16→1 tanh network on log2(b/T), and the exponent β.
    """

    HIDDEN = 16

    def __init__(self) -> None:
        width = self.HIDDEN
        self.w1 = Parameter((width,), initializers.truncated_normal(1.0))
        self.b1 = Parameter((width,), initializers.zeros)
        self.w2 = Parameter((width,), initializers.truncated_normal(1 / math.sqrt(width)))
        self.b2 = Parameter((), initializers.zeros)
        self.beta = Parameter((), initializers.zeros)

    def forward(self, width: Any, context: Any) -> Tensor:
        """The gate [] for a width and a context length, numbers or traced scalars."""
        return ops.coverage_gate(width, context, self.w1, self.b1, self.w2, self.b2, self.beta)


class SidePath(Module):
    """The layer update ``x + attn + g · triBox_b(x)`` (TRSP).

    Args:
        layer: ℓ; the width is min(2^ℓ, T) unless given.
        gate: a `CoverageGate` shared by the layers, or None for a static learned gate that starts
            at sigmoid(0) = ½.
        width: b ≥ 1, instead of the layer's.
        passes: 2 (triBox), or 1 for a single box.
    """

    def __init__(
        self,
        layer: int = 0,
        gate: CoverageGate | None = None,
        *,
        width: int | None = None,
        passes: int = 2,
    ) -> None:
        if isinstance(layer, bool) or not isinstance(layer, int) or layer < 0:
            raise ConfigError(
                "layer of SidePath", expected="an integer ≥ 0", given=layer, where=here()
            )
        if passes not in (1, 2):
            raise ConfigError("passes of SidePath", expected="1 or 2", given=passes, where=here())
        if width is not None:
            positive("width of SidePath", width)
        if gate is not None:
            check_callable("gate of SidePath", gate)
        self.layer, self.width, self.passes = layer, width, passes
        self.gate = gate
        self.static_gate = Parameter((), initializers.zeros) if gate is None else None

    def forward(
        self, x: Any, attn: Any, *, context: int | None = None, segments: Any = None
    ) -> Tensor:
        """x, attn [B, T, D] → [B, T, D]; `context` is T by default."""
        x = as_tensor(x)
        shapes.check_rank(x, 2, "input of SidePath", "[..., T, D]")
        tokens = max(x.shape[-2], 1)
        context = tokens if context is None else positive("context of SidePath", context)
        width = min(2**self.layer if self.width is None else self.width, context)
        if self.gate is None:
            gate = ops.sigmoid(self.static_gate)
        else:
            gate = self.gate(width, context)
        return ops.side_path(x, attn, gate, width, passes=self.passes, segments=segments)
