# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training steps: forward, backward and optimiser."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import jpmhc
from jpmhc import nn, ops
from jpmhc.bench.cases import SEED, Case, Maker, Prepared, timed_compile
from jpmhc.experiments.arc import RunConfig, compiled_step
from jpmhc.experiments.arc_model import ArcModel, ModelConfig
from jpmhc.experiments.language_model import Layer
from jpmhc.optim import AdamW
from jpmhc.tracing import Tensor

# ---- the recursive model of the demo ----


@dataclass(frozen=True)
class DemoSetting:
    """The demo's model and its training; `batch` grids of random tokens."""

    model: ModelConfig
    run: RunConfig


def demo_batch(setting: DemoSetting) -> tuple[np.ndarray, ...]:
    """Tokens, labels, puzzle ids, and which rows begin (a quarter)."""
    generator = np.random.default_rng(SEED)
    batch, cells = setting.run.batch, setting.model.canvas**2
    tokens, labels = (generator.integers(2, 12, (batch, cells)).astype(np.int32) for _ in range(2))
    ids = generator.permutation(setting.model.puzzles)[:batch].astype(np.int32)
    return tokens, labels, ids, np.arange(batch) % 4 == 0


def demo_model(setting: DemoSetting) -> ArcModel:
    """Initialised."""
    return ArcModel(setting.model).init(SEED)


def _demo_ours(setting: DemoSetting, dtype: str) -> Prepared:
    batch = demo_batch(setting)

    def build() -> jpmhc.TrainStep:
        return compiled_step(demo_model(setting), setting.run, batch)

    step, cold, cached = timed_compile(build)
    return Prepared(partial(step, *batch), _loss, cold, cached)


def _loss(value: float) -> list[np.ndarray]:
    return [np.float32([value])]


def _demo_peers(setting: DemoSetting) -> Mapping[str, Maker]:
    from jpmhc.bench.peers.models import demo_modes

    state = demo_model(setting).state_dict()
    initial = demo_model(setting).initial_state(setting.run.batch)
    return demo_modes(setting, state, initial, demo_batch(setting))


# ---- a Llama-style model with a side path on every layer ----


@dataclass(frozen=True)
class LlamaSetting:
    """Sizes: layers, channels d, heads, channels of the SwiGLU, context T, and the vocabulary."""

    layers: int = 14
    dim: int = 512
    heads: int = 8
    hidden: int = 1408
    context: int = 512
    vocabulary: int = 4096
    batch: int = 1

    @property
    def flops(self) -> int:
        """Of the matrix products of a step, attention's aside."""
        layer = 4 * self.dim**2 + 3 * self.dim * self.hidden
        weights = self.layers * layer + self.dim * self.vocabulary
        return 6 * weights * self.batch * self.context


class Llama(nn.Module):
    """Token ids [B, T] to the mean cross-entropy of the next ones."""

    def __init__(self, setting: LlamaSetting) -> None:
        self.embedding = nn.Embedding(setting.vocabulary, setting.dim)
        self.gate = nn.CoverageGate()
        self.layers = [
            Layer(number, setting.dim, setting.heads, setting.hidden, self.gate)
            for number in range(setting.layers)
        ]
        self.norm = nn.RMSNorm(setting.dim)
        self.head = nn.Linear(setting.dim, setting.vocabulary, bias=False)

    def forward(self, tokens: Any, targets: Any) -> Tensor:
        """i32 [B, T] twice → []."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return ops.softmax_cross_entropy(self.head(self.norm(x)), targets)


LLAMA_OPTIMIZER = AdamW(lr=3e-4, weight_decay=0.1)


def llama_batch(setting: LlamaSetting) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens and the ones that follow them."""
    generator = np.random.default_rng(SEED)
    shape = (setting.batch, setting.context + 1)
    ids = generator.integers(0, setting.vocabulary, shape).astype(np.int32)
    return np.ascontiguousarray(ids[:, :-1]), np.ascontiguousarray(ids[:, 1:])


def _llama_ours(setting: LlamaSetting, dtype: str) -> Prepared:
    batch = llama_batch(setting)

    def build() -> jpmhc.TrainStep:
        model = Llama(setting).init(SEED)
        return jpmhc.TrainStep(model, model, LLAMA_OPTIMIZER, *batch)

    step, cold, cached = timed_compile(build)
    return Prepared(partial(step, *batch), _loss, cold, cached)


def _llama_peers(setting: LlamaSetting) -> Mapping[str, Maker]:
    from jpmhc.bench.peers.models import llama_modes

    state = Llama(setting).init(SEED).state_dict()
    return llama_modes(setting, state, LLAMA_OPTIMIZER, llama_batch(setting))


def cases(tiny: bool = False) -> list[Case]:
    """The demo's step and a Llama-style one."""
    if tiny:
        model = ModelConfig(puzzles=9, dim=16, heads=2, hidden=24, puzzle_tokens=2, canvas=3)
        demo = DemoSetting(model, RunConfig(batch=8))
        llama = LlamaSetting(3, 16, 2, 24, 8, 32)
    else:
        demo = DemoSetting(ModelConfig(puzzles=944), RunConfig())
        llama = LlamaSetting()
    sizes = f"L{llama.layers}d{llama.dim}T{llama.context}V{llama.vocabulary}"
    # Steps of AdamAtan2 depend on the signs of gradients near 0: the losses drift apart.
    return [
        Case(
            f"step/demo/B{demo.run.batch}d{demo.model.dim}", partial(_demo_ours, demo),
            partial(_demo_peers, demo), target=1.3, tolerance=2e-3,
        ),
        Case(
            f"step/llama/{sizes}", partial(_llama_ours, llama), partial(_llama_peers, llama),
            flops=llama.flops, target=1.1, tolerance=2e-3,
        ),
    ]  # fmt: skip
