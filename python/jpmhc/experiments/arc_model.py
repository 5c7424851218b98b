# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small recursive model of ARC grids, after the Tiny Recursive Model of JPmHC, appendix G.

Two states are refined again and again by the same two blocks: z_low, the reasoning, and z_high,
the answer. A cycle is some updates of z_low from both states and the question, and one of z_high
from both. A supervision step is some cycles, of which the last carries gradient; the states go on
to the next step, detached. Shapes: B grids, S = canvas² cells, P puzzle tokens in front of them,
T = P + S tokens, N = B·T rows, d channels, n streams.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import jpmhc
from jpmhc import nn, ops
from jpmhc.data.arc import IGNORE, VOCABULARY_SIZE
from jpmhc.nn import initializers
from jpmhc.nn.layers import positive
from jpmhc.tracing import Tensor

State = tuple[Any, Any]
"""z_high and z_low, each [B, T, d]."""

PLAIN = "identity"
"""The manifold of the baseline: the same network with a plain residual path, one stream."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes of the model.

    Attributes:
        puzzles: rows of the table of puzzle embeddings.
        manifold: of the residual mixers (`jpmhc.manifolds`); "identity" for plain residuals.
        streams: n.
        dim: d.
        heads: of the attention; d / heads is even.
        hidden: channels inside the SwiGLU.
        blocks: weight-tied blocks of a level.
        low_cycles: updates of z_low in a cycle.
        high_cycles: cycles of a supervision step.
        puzzle_tokens: P.
        canvas: side of the square of cells.
    """

    puzzles: int
    manifold: str = "stiefel"
    streams: int = 4
    dim: int = 96
    heads: int = 4
    hidden: int = 256
    blocks: int = 2
    low_cycles: int = 2
    high_cycles: int = 2
    puzzle_tokens: int = 4
    canvas: int = 6

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "manifold":
                positive(name, value)

    @property
    def tokens(self) -> int:
        """T, tokens that the blocks see: puzzle tokens, then cells."""
        return self.puzzle_tokens + self.canvas**2


class PreNorm(nn.Module):
    """A sub-layer F: a layer behind an RMS norm."""

    def __init__(self, dim: int, layer: nn.Module) -> None:
        self.norm = nn.RMSNorm(dim)
        self.layer = layer

    def forward(self, x: Any) -> Tensor:
        """x [N, d] → [N, d]."""
        return self.layer(self.norm(x))


class Residual(nn.Module):
    """The plain residual x + F(x)."""

    def __init__(self, sublayer: Callable[[Any], Tensor]) -> None:
        self.sublayer = sublayer

    def forward(self, x: Any) -> Tensor:
        """x [N, d] → [N, d]."""
        return x + self.sublayer(x)


class Block(nn.Module):
    """Attention over all tokens and a SwiGLU, each on the residual path that the config asks for.

    A `jpmhc.function`: it is compiled and differentiated once, however often it is applied.
    """

    def __init__(self, config: ModelConfig) -> None:
        attention = nn.Attention(config.dim, config.heads, causal=False, tokens=config.tokens)
        self.attention = _connected(attention, config)
        self.mlp = _connected(nn.SwiGLU(config.dim, config.hidden), config)

    @jpmhc.function
    def forward(self, x: Any) -> Tensor:
        """Streams [N, n, d], or [N, d] on plain residuals → the same shape."""
        return self.mlp(self.attention(x))


def _connected(layer: nn.Module, config: ModelConfig) -> nn.Module:
    sublayer = PreNorm(config.dim, layer)
    if config.manifold == PLAIN:
        return Residual(sublayer)
    return nn.HyperConnection(sublayer, config.dim, config.streams, config.manifold)


class ArcModel(nn.Module):
    """The recursive model; `supervision_step` is what training and evaluation compile."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        d = config.dim
        self.cells = nn.Embedding(VOCABULARY_SIZE, d)
        self.puzzles = nn.SparseEmbedding(config.puzzles, config.puzzle_tokens * d)
        self.blocks = [Block(config) for _ in range(config.blocks)]
        self.norm = nn.RMSNorm(d)
        self.head = nn.Linear(d, VOCABULARY_SIZE, bias=False)

    def initial_state(self, batch: int) -> tuple[np.ndarray, np.ndarray]:
        """The states before the first step: the same fixed random vector at every token."""
        shape = (batch, self.config.tokens, self.config.dim)
        rows = (_fixed_row(name, shape[-1]) for name in ("z_high", "z_low"))
        return tuple(np.broadcast_to(row, shape).copy() for row in rows)

    def supervision_step(self, state: State, tokens: Any, puzzle_ids: Any) -> tuple[State, Tensor]:
        """Refines the states of a batch.

        Args:
            state: z_high, z_low [B, T, d].
            tokens: i32 [B, S], the input grids.
            puzzle_ids: i32 [B].

        Returns:
            the new states, to be carried on without gradient, and the logits [B, S, vocabulary].
        """
        question = self._question(tokens, puzzle_ids)
        for _ in range(self.config.high_cycles - 1):
            state = self._cycle(state, question)
        high, low = state
        high, low = self._cycle((ops.stop_gradient(high), ops.stop_gradient(low)), question)
        logits = self.head(high[:, self.config.puzzle_tokens :])
        return (high, low), logits

    def loss(
        self, state: State, tokens: Any, labels: Any, puzzle_ids: Any, fresh: Any
    ) -> tuple[Tensor, State]:
        """The loss of a supervision step and the states to carry on, as `TrainStep` wants them.

        Args:
            state, tokens, puzzle_ids: as for `supervision_step`.
            labels: i32 [B, S], the output grids, with IGNORE where nothing is asked.
            fresh: bool [B], the rows that begin with a new grid, from the initial state.
        """
        state = self._restarted(state, fresh)
        state, logits = self.supervision_step(state, tokens, puzzle_ids)
        return ops.stablemax_cross_entropy(logits, labels, ignore_index=IGNORE), state

    def _restarted(self, state: State, fresh: Any) -> State:
        batch, d = fresh.shape[0], self.config.dim
        chosen = jpmhc.broadcast_to(fresh.reshape(batch, 1, 1), (batch, self.config.tokens, d))
        return tuple(
            jpmhc.where(chosen, jpmhc.broadcast_to(_fixed_row(name, d), z.shape), z)
            for name, z in zip(("z_high", "z_low"), state, strict=True)
        )

    def _question(self, tokens: Any, puzzle_ids: Any) -> Tensor:
        """Puzzle tokens and embedded cells [B, T, d], of about unit size."""
        batch, d = tokens.shape[0], self.config.dim
        puzzle = self.puzzles(puzzle_ids).reshape(batch, self.config.puzzle_tokens, d)
        return jpmhc.concatenate([puzzle, self.cells(tokens)], 1) * math.sqrt(d)

    def _cycle(self, state: State, question: Tensor) -> State:
        high, low = state
        for _ in range(self.config.low_cycles):
            low = self._level(low, high + question)
        return self._level(high, low), low

    def _level(self, hidden: Any, injection: Any) -> Tensor:
        """The blocks applied to a state [B, T, d] with something added to it, normalised."""
        batch, tokens, d = hidden.shape
        x = (hidden + injection).reshape(batch * tokens, d)
        plain = self.config.manifold == PLAIN
        x = x if plain else nn.copy_in(x, self.config.streams)
        for block in self.blocks:
            x = block(x)
        x = x if plain else nn.mean_out(x)
        return self.norm(x).reshape(batch, tokens, d)


def _fixed_row(name: str, dim: int) -> np.ndarray:
    """A random vector [dim] that depends on its name alone; no parameter of the model."""
    return initializers.truncated_normal(1.0)(initializers.generator(0, name), (dim,))
