# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of transformers."""

from __future__ import annotations

from typing import Any

from jpmhc import ops
from jpmhc._location import here
from jpmhc.errors import ConfigError, ShapeError, shown
from jpmhc.nn import initializers
from jpmhc.nn.initializers import Initializer
from jpmhc.nn.module import Module, Parameter
from jpmhc.tracing import Tensor, as_tensor


def positive(what: str, value: Any) -> int:
    """`value` if it is an integer ≥ 1.

    Raises:
        ConfigError: it is not.
    """
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(what, expected="an integer ≥ 1", given=shown(value), where=here())
    return value


class Linear(Module):
    """``x Wᵀ + b``.

    Args:
        inputs, outputs: sizes of the last axis.
        bias: whether b exists (starts at 0).
        init: draws W [outputs, inputs]; truncated normal of std inputs^-½ by default.
    """

    def __init__(
        self, inputs: int, outputs: int, *, bias: bool = True, init: Initializer | None = None
    ) -> None:
        positive("inputs of Linear", inputs)
        positive("outputs of Linear", outputs)
        self.weight = Parameter((outputs, inputs), initializers.fan_in() if init is None else init)
        self.bias = Parameter((outputs,), initializers.zeros) if bias else None

    def forward(self, x: Any) -> Tensor:
        """x [..., inputs] → [..., outputs]."""
        return ops.linear(x, self.weight, self.bias)


class Embedding(Module):
    """Rows of a table by id.

    Args:
        count: ids lie in [0, count).
        dim: length of a row.
        init: draws the table [count, dim]; truncated normal of std dim^-½ by default.
    """

    def __init__(self, count: int, dim: int, *, init: Initializer | None = None) -> None:
        positive("count of Embedding", count)
        positive("dim of Embedding", dim)
        self.weight = Parameter((count, dim), initializers.fan_in() if init is None else init)

    def forward(self, ids: Any) -> Tensor:
        """ids [...] → [..., dim]."""
        return ops.embedding(self.weight, ids)


class RMSNorm(Module):
    """``x / sqrt(mean(x²) + eps) · gain``; `gain` is left out on request."""

    def __init__(self, dim: int, *, gain: bool = True, eps: float = 1e-5) -> None:
        positive("dim of RMSNorm", dim)
        self.gain = Parameter((dim,), initializers.ones) if gain else None
        self.eps = eps

    def forward(self, x: Any) -> Tensor:
        """x [..., dim] → the same shape."""
        return ops.rms_norm(x, self.gain, eps=self.eps)


class LayerNorm(Module):
    """``(x - mean) / sqrt(var + eps) · gain + shift``; both are left out on request."""

    def __init__(self, dim: int, *, affine: bool = True, eps: float = 1e-5) -> None:
        positive("dim of LayerNorm", dim)
        self.gain = Parameter((dim,), initializers.ones) if affine else None
        self.shift = Parameter((dim,), initializers.zeros) if affine else None
        self.eps = eps

    def forward(self, x: Any) -> Tensor:
        """x [..., dim] → the same shape."""
        return ops.layer_norm(x, self.gain, self.shift, eps=self.eps)


class Attention(Module):
    """Multi-head self-attention with grouped keys and values.

    Args:
        dim: channels in and out.
        heads: H; dim must be a multiple of it.
        groups: G, heads of keys and values; H must be a multiple of it (H by default).
        causal: mask later positions.
        window: mask positions older than this many; 0 for no limit.
        rope: rotate queries and keys; the head size must then be even.
        theta: base of the rotary frequencies.
        tokens: T, for inputs [N, dim] of B·T token rows (as inside a hyper-connection); inputs
            [B, T, dim] need none.
        out_init: draws the output product.
    """

    def __init__(
        self,
        dim: int,
        heads: int,
        *,
        groups: int | None = None,
        causal: bool = True,
        window: int = 0,
        rope: bool = True,
        theta: float = 10000.0,
        tokens: int | None = None,
        out_init: Initializer | None = None,
    ) -> None:
        positive("dim of Attention", dim)
        positive("heads of Attention", heads)
        groups = positive("groups of Attention", heads if groups is None else groups)
        if dim % heads:
            raise ShapeError(
                "dim of Attention",
                expected=f"a multiple of {shown(heads)} heads",
                given=dim,
                where=here(),
            )
        if heads % groups:
            raise ShapeError(
                "heads of Attention",
                expected=f"a multiple of {shown(groups)} groups",
                given=heads,
                where=here(),
            )
        self.heads, self.groups, self.head_dim = heads, groups, dim // heads
        if rope and self.head_dim % 2:
            raise ShapeError(
                "head size under RoPE", expected="an even number", given=self.head_dim, where=here()
            )
        self.causal, self.window, self.rope, self.theta = causal, window, rope, theta
        self.tokens = None if tokens is None else positive("tokens of Attention", tokens)
        width = (heads + 2 * groups) * self.head_dim
        self.qkv = Parameter((width, dim), initializers.fan_in())
        self.out = Parameter((dim, dim), initializers.fan_in() if out_init is None else out_init)

    def forward(self, x: Any, segment_ids: Any = None) -> Tensor:
        """x [B, T, dim] (or [B·T, dim] with `tokens`) → the same shape."""
        x = as_tensor(x)
        batch, tokens = self._split(x)
        q, k, v = self._heads(ops.linear(x, self.qkv), batch, tokens)
        if self.rope:
            q, k = ops.rope(q, theta=self.theta), ops.rope(k, theta=self.theta)
        mixed = ops.attention(
            q, k, v, causal=self.causal, window=self.window, segment_ids=segment_ids
        )
        return ops.linear(mixed.reshape(x.shape), self.out)

    def _split(self, x: Tensor) -> tuple[int, int]:
        if x.ndim == 3:
            return x.shape[0], x.shape[1]
        if x.ndim != 2 or self.tokens is None or x.shape[0] % self.tokens:
            raise ShapeError(
                "input of Attention",
                expected=f"[B, T, dim], or [B·T, dim] with T = tokens ({self.tokens})",
                given=x.shape,
                where=here(),
            )
        return x.shape[0] // self.tokens, self.tokens

    def _heads(self, qkv: Tensor, batch: int, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        """The product's columns as queries, keys and values [B, T, heads, head_dim]."""
        qkv = qkv.reshape(batch, tokens, self.heads + 2 * self.groups, self.head_dim)
        first, second = self.heads, self.heads + self.groups
        return qkv[:, :, :first], qkv[:, :, first:second], qkv[:, :, second:]


class SwiGLU(Module):
    """``(silu(x W_gᵀ) ⊙ x W_uᵀ) W_dᵀ``, gate and up in one product.

    Args:
        dim: channels in and out.
        hidden: M, channels inside.
        out_init: draws the output product.
    """

    def __init__(self, dim: int, hidden: int, *, out_init: Initializer | None = None) -> None:
        positive("dim of SwiGLU", dim)
        positive("hidden of SwiGLU", hidden)
        self.hidden = hidden
        self.gate_up = Parameter((2 * hidden, dim), initializers.fan_in())
        self.down = Parameter(
            (dim, hidden), initializers.fan_in() if out_init is None else out_init
        )

    def forward(self, x: Any) -> Tensor:
        """x [..., dim] → the same shape."""
        both = ops.linear(x, self.gate_up)
        gate, up = both[..., : self.hidden], both[..., self.hidden :]
        return ops.linear(ops.silu(gate) * up, self.down)
