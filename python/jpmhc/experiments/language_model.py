# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A small causal language model of the bytes of a text, with the side path of TRSP on every layer.

    python -m jpmhc.experiments.language_model TEXT [--layers 4] [--dim 96] [--context 128]

Layer ℓ adds to its residual stream a low-passed copy of it: ``x + attn + g · triBox_b(x)`` with
b = min(2^ℓ, T), the gate g a function of the coverage b/T that all layers share. The last tenth
of the text is held out; at the end the model continues a prompt.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import jpmhc
from jpmhc import nn, ops
from jpmhc.data import philox, text
from jpmhc.errors import ConfigError, JpmhcError
from jpmhc.nn.layers import positive
from jpmhc.optim import AdamW
from jpmhc.tracing import Tensor
from jpmhc.training import GracefulInterrupt, Progress, Schedule

_STREAM_SAMPLE = 4  # of random numbers, unlike those of jpmhc.data
_HELD_OUT_WINDOWS = 4  # batches that judge the model


@dataclass(frozen=True)
class ModelConfig:
    """Sizes: layers, channels, heads and the context length T."""

    layers: int = 4
    dim: int = 96
    heads: int = 4
    context: int = 128

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            positive(name, value)

    @property
    def hidden(self) -> int:
        """Channels inside the SwiGLUs: three matrices of d × 8/3 d cost as two of d × 4 d."""
        return -(-8 * self.dim // 3)


class Layer(nn.Module):
    """Attention and a SwiGLU behind RMS norms, the former joined by the side path.

    Args:
        number: of the layer, from 0; its side path is 2^number tokens wide.
        dim: channels d.
        heads: of the attention; d / heads is even.
        hidden: channels inside the SwiGLU.
        gate: shared by all layers.
    """

    def __init__(
        self, number: int, dim: int, heads: int, hidden: int, gate: nn.CoverageGate
    ) -> None:
        self.attention_norm = nn.RMSNorm(dim)
        self.attention = nn.Attention(dim, heads, causal=True)
        self.side_path = nn.SidePath(number, gate)
        self.mlp_norm = nn.RMSNorm(dim)
        self.mlp = nn.SwiGLU(dim, hidden)

    def forward(self, x: Any) -> Tensor:
        """x [B, T, d] → the same shape."""
        x = self.side_path(x, self.attention(self.attention_norm(x)))
        return x + self.mlp(self.mlp_norm(x))


class LanguageModel(nn.Module):
    """Bytes to the logits of the bytes that follow them."""

    def __init__(self, config: ModelConfig) -> None:
        self.config = config
        self.embedding = nn.Embedding(text.VOCABULARY_SIZE, config.dim)
        self.gate = nn.CoverageGate()
        self.layers = [
            Layer(number, config.dim, config.heads, config.hidden, self.gate)
            for number in range(config.layers)
        ]
        self.norm = nn.RMSNorm(config.dim)
        self.head = nn.Linear(config.dim, text.VOCABULARY_SIZE, bias=False)

    def forward(self, tokens: Any) -> Tensor:
        """i32 [B, T] → logits [B, T, 256]."""
        x = self.embedding(tokens) * math.sqrt(self.config.dim)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))

    def loss(self, tokens: Any, targets: Any) -> Tensor:
        """Mean cross-entropy [] in nats a byte; both i32 [B, T]."""
        return ops.softmax_cross_entropy(self(tokens), targets)


class Sampler:
    """Continues a text byte by byte with a trained model."""

    def __init__(self, model: LanguageModel, seed: int = 0) -> None:
        self._context, self._seed = model.config.context, seed
        self._logits = jpmhc.compile(model, jpmhc.spec((1, self._context), "i32"))

    def continue_text(self, prompt: str, count: int, temperature: float = 0.8) -> str:
        """The prompt and `count` bytes that the model finds likely to follow it.

        Args:
            prompt: not empty; of a longer one the model sees the last T bytes.
            count: how many bytes to add.
            temperature: > 0; towards 0 the likeliest byte is taken.

        Raises:
            ConfigError: the prompt is empty or the temperature not positive.
        """
        if not prompt:
            raise ConfigError("prompt", expected="at least one byte", given="none")
        if not temperature > 0:
            raise ConfigError("temperature", expected="a number > 0", given=temperature)
        tokens = list(text.encode(prompt))
        for number in range(count):
            tokens.append(self._next(tokens[-self._context :], number, temperature))
        return text.decode(np.array(tokens))

    def _next(self, recent: list[int], number: int, temperature: float) -> int:
        # What follows the recent bytes in the window does not matter: the model is causal.
        window = np.zeros((1, self._context), np.int32)
        window[0, : len(recent)] = recent
        logits = self._logits(window)[0, len(recent) - 1].astype(np.float64) / temperature
        odds = np.cumsum(np.exp(logits - logits.max()))
        word = philox.words(self._seed, _STREAM_SAMPLE, (number,), 1)[0]
        return int(np.searchsorted(odds, float(word) / 2**64 * odds[-1], side="right"))


@dataclass(frozen=True)
class Result:
    """What a run gives: losses of the steps, held-out loss in bits a byte, and the sample."""

    losses: list[float]
    held_out_bits: float
    sample: str


def run(given: argparse.Namespace) -> Result:
    """Trains on a text and samples from the model.

    Raises:
        JpmhcError: the text cannot be read or is too short, or an option is out of range.
    """
    for name in ("steps", "batch"):
        if getattr(given, name) < 1:
            raise ConfigError(f"--{name}", expected="at least 1", given=getattr(given, name))
    config = ModelConfig(given.layers, given.dim, given.heads, given.context)
    train_data, test_data = _datasets(given, config.context)
    model = LanguageModel(config).init(given.seed)
    tokens, targets = train_data.batch(0, given.batch)
    began = time.monotonic()
    step = jpmhc.TrainStep(
        model, model.loss, AdamW(given.lr, weight_decay=0.1), tokens, targets, max_grad_norm=1.0
    )
    print(
        f"{model.num_parameters} parameters, widths "
        f"{[min(2**layer, config.context) for layer in range(config.layers)]}, "
        f"compiled in {time.monotonic() - began:.1f} s",
        file=sys.stderr,
    )
    losses = _train(step, train_data, given)
    judge = jpmhc.compile(model.loss, tokens, targets)
    bits = _held_out_bits(judge, test_data, given.batch)
    sample = Sampler(model, given.seed).continue_text(given.prompt, given.sample, given.temperature)
    return Result(losses, bits, sample)


def _datasets(given: argparse.Namespace, context: int) -> tuple[text.TextDataset, text.TextDataset]:
    data = text.read_tokens(given.text)
    cut = len(data) * 9 // 10
    parts = (data[:cut], data[cut:])
    return tuple(
        text.TextDataset(part, length=context, seed=given.seed, where=given.text) for part in parts
    )


def _train(step: jpmhc.TrainStep, data: text.TextDataset, given: argparse.Namespace) -> list[float]:
    warmup = min(50, given.steps // 4)
    schedule = Schedule(given.lr, warmup=warmup, total=given.steps, decay="cosine", floor=0.1)
    losses: list[float] = []
    with (
        Progress(given.steps, tokens_per_step=given.batch * data.length) as progress,
        GracefulInterrupt() as interrupt,
    ):
        for number in range(given.steps):
            losses.append(step(*data.batch(number, given.batch), lr=schedule(number)))
            progress.update(number + 1, loss=losses[-1])
            if interrupt.requested:
                break
    return losses


def _held_out_bits(judge: Callable[..., Any], data: text.TextDataset, batch: int) -> float:
    losses = [float(judge(*data.batch(number, batch))) for number in range(_HELD_OUT_WINDOWS)]
    return float(np.mean(losses)) / math.log(2)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    result = argparse.ArgumentParser(
        prog="python -m jpmhc.experiments.language_model",
        description="Trains a small language model with TRSP side paths on a text.",
    )
    add = result.add_argument
    add("text", type=Path, help="any file; its bytes are the tokens")
    add("--layers", type=int, default=4, help="(%(default)s)")
    add("--dim", type=int, default=96, help="channels (%(default)s)")
    add("--heads", type=int, default=4, help="(%(default)s)")
    add("--context", type=int, default=128, help="bytes that the model sees (%(default)s)")
    add("--batch", type=int, default=16, help="windows in a step (%(default)s)")
    add("--steps", type=int, default=500, help="(%(default)s)")
    add("--lr", type=float, default=2e-3, help="peak of the learning rate (%(default)s)")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--prompt", default="The ", help="what the sample begins with")
    add("--sample", type=int, default=400, help="bytes of the sample (%(default)s)")
    add("--temperature", type=float, default=0.8, help="of the sample (%(default)s)")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the example; the exit code is 1 after an error, which is said in one line."""
    try:
        result = run(parser().parse_args(arguments))
    except JpmhcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"held-out text: {result.held_out_bits:.2f} bits a byte\n")
    print(result.sample)
    return 0


if __name__ == "__main__":
    sys.exit(main())
