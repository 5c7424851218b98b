# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole training steps in PyTorch, from our models' parameters by name.

Modes are formulation/eager and formulation/compile, where blocks are compiled (they repeat, so
each compiles once) and so is the optimiser, over one flat buffer of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F

from jpmhc.bench.cases import Maker, Prepared
from jpmhc.bench.peers import hyper_connections
from jpmhc.bench.peers.optimizers import adam_atan2
from jpmhc.bench.peers.side_path import layer_update
from jpmhc.bench.peers.support import compiled, first_run
from jpmhc.optim import AdamW

if TYPE_CHECKING:
    from jpmhc.bench.families.steps import DemoSetting, LlamaSetting

EPS = 1e-5
State = dict[str, torch.Tensor]


class Flat:
    """Parameters as views of one buffer a group: with and without weight decay."""

    def __init__(self, state: Mapping[str, np.ndarray], sparse: Sequence[str] = ()) -> None:
        self.views: State = {}
        self.groups: list[tuple[bool, torch.Tensor, list[torch.Tensor]]] = []
        for decay in (True, False):
            names = [
                name for name, a in state.items() if (a.ndim > 1) == decay and name not in sparse
            ]
            buffer = torch.cat([torch.tensor(state[name]).flatten() for name in names])
            views, at = [], 0
            for name in names:
                size = state[name].size
                view = buffer[at : at + size].view(state[name].shape)
                views.append(view.detach().requires_grad_())
                self.views[name] = views[-1]
                at += size
            self.groups.append((decay, buffer, views))

    def leaves(self) -> list[torch.Tensor]:
        """The dense parameters, group by group."""
        return [view for _, _, views in self.groups for view in views]

    def flat_gradients(self, gradients: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """One buffer a group."""
        found, at = [], 0
        for _, _, views in self.groups:
            part = gradients[at : at + len(views)]
            found.append(torch.cat([g.flatten() for g in part]))
            at += len(views)
        return found


def rotate(x: torch.Tensor, theta: float = 10000.0) -> torch.Tensor:
    """RoPE by halves; x [B, H, T, d]."""
    half = x.shape[-1] // 2
    frequency = theta ** (-torch.arange(half) / half)
    angle = torch.arange(x.shape[-2])[:, None] * frequency
    cos, sin = torch.cos(angle), torch.sin(angle)
    first, second = x[..., :half], x[..., half:]
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1)


def attend(
    x: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, heads: int, causal: bool
) -> torch.Tensor:
    """Self-attention; x [B, T, d]."""
    batch, tokens, dim = x.shape
    split = (x @ qkv.T).view(batch, tokens, 3, heads, dim // heads).permute(2, 0, 3, 1, 4)
    q, k, v = rotate(split[0]), rotate(split[1]), split[2]
    mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    return mixed.transpose(1, 2).reshape(batch, tokens, dim) @ out.T


def swiglu(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    """The gated layer; gate and up in one product."""
    gate, up = (x @ gate_up.T).chunk(2, -1)
    return (F.silu(gate) * up) @ down.T


def rms_norm(x: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
    """Over the last axis."""
    return F.rms_norm(x, gain.shape, gain, EPS)


# ---- the demo ----

_CONNECTION = ("weight", "bias", "alpha")
_ATTENTION = ("sublayer.norm.gain", "sublayer.layer.qkv", "sublayer.layer.out")
_MLP = ("sublayer.norm.gain", "sublayer.layer.gate_up", "sublayer.layer.down")


def _demo_block(
    connection: Callable[..., torch.Tensor], heads: int, tokens: int,
    x: torch.Tensor, attention: Sequence[torch.Tensor], mlp: Sequence[torch.Tensor],
) -> torch.Tensor:  # fmt: skip
    """Attention and a SwiGLU, each in a hyper-connection; x [N, n, d]."""

    def attended(value: torch.Tensor) -> torch.Tensor:
        gain, qkv, out = attention[3:]
        rows, dim = value.shape
        normal = rms_norm(value, gain).view(rows // tokens, tokens, dim)
        return attend(normal, qkv, out, heads, causal=False).reshape(rows, dim)

    def gated(value: torch.Tensor) -> torch.Tensor:
        gain, gate_up, down = mlp[3:]
        return swiglu(rms_norm(value, gain), gate_up, down)

    x = connection(x, attended, *attention[:3])
    return connection(x, gated, *mlp[:3])


class _Demo:
    """The loss of the demo's model; `block` is a compiled or eager `_demo_block`."""

    def __init__(self, setting: DemoSetting, parameters: State, block: Callable[..., Any]) -> None:
        self._config, self._parameters = setting.model, parameters
        self._block = partial(block, setting.model.heads, setting.model.tokens)

    def loss(
        self, state: Sequence[torch.Tensor], rows: torch.Tensor,
        tokens: torch.Tensor, labels: torch.Tensor,
    ) -> tuple[torch.Tensor, list[torch.Tensor]]:  # fmt: skip
        """The loss and the states to carry on; `rows` are the gathered puzzle embeddings."""
        config, dim = self._config, self._config.dim
        puzzle = rows.view(len(rows), config.puzzle_tokens, dim)
        cells = F.embedding(tokens, self._parameters["cells.weight"])
        question = torch.cat([puzzle, cells], 1) * math.sqrt(dim)
        high, low = state
        with torch.no_grad():
            for _ in range(config.high_cycles - 1):
                high, low = self._cycle(high, low, question)
        high, low = self._cycle(high, low, question)
        logits = high[:, config.puzzle_tokens :] @ self._parameters["head.weight"].T
        return stablemax_loss(logits, labels), [high.detach(), low.detach()]

    def _cycle(
        self, high: torch.Tensor, low: torch.Tensor, question: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        for _ in range(self._config.low_cycles):
            low = self._level(low, high + question)
        return self._level(high, low), low

    def _level(self, hidden: torch.Tensor, injection: torch.Tensor) -> torch.Tensor:
        batch, tokens, dim = hidden.shape
        x = (hidden + injection).view(batch * tokens, 1, dim)
        x = x.expand(-1, self._config.streams, -1).contiguous()
        for number in range(self._config.blocks):
            x = self._block(x, *self._operands(number))
        out = rms_norm(x.mean(1), self._parameters["norm.gain"])
        return out.view(batch, tokens, dim)

    def _operands(self, number: int) -> list[list[torch.Tensor]]:
        return [
            [self._parameters[f"blocks.{number}.{part}.{name}"] for name in (*_CONNECTION, *names)]
            for part, names in (("attention", _ATTENTION), ("mlp", _MLP))
        ]


def stablemax_loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Mean stablemax cross-entropy; every label is one."""
    size = 1 + logits.abs()
    weight = torch.where(logits < 0, 1 / size, size)
    chosen = weight.gather(-1, labels[..., None])[..., 0]
    return (torch.log(weight.sum(-1)) - torch.log(chosen)).mean()


def _tuned(x, sublayer, w, bias, alpha, unrolled):
    return hyper_connections.tuned(x, sublayer, w, bias, alpha, "stiefel", unrolled)


def _common(x, sublayer, w, bias, alpha):
    return hyper_connections.common(x, sublayer, w, bias, alpha, "stiefel")


def demo_modes(
    setting: DemoSetting, state: Mapping[str, np.ndarray], initial: Sequence[np.ndarray],
    batch: Sequence[np.ndarray],
) -> dict[str, Maker]:  # fmt: skip
    """The demo's step: AdamAtan2, and SignSGD on the rows of the puzzle table."""
    table_name = "puzzles.weight"
    run_config = setting.run

    def maker(connection: Callable[..., Any], wrap: Callable[..., Any], is_compiled: bool) -> Maker:
        def make(dtype: str) -> Prepared:
            flat = Flat(state, [table_name])
            table = torch.tensor(state[table_name])
            model = _Demo(setting, flat.views, wrap(partial(_demo_block, connection)))
            update = wrap(adam_atan2)
            tokens, labels, ids = (torch.tensor(a).long() for a in batch[:3])
            fresh = torch.tensor(batch[3])[:, None, None]
            first = [torch.tensor(a) for a in initial]
            carried = [z.clone() for z in first]
            moments = [torch.zeros_like(b) for _, b, _ in flat.groups for _ in range(2)]
            lr, count = torch.tensor(run_config.lr), torch.tensor(0.0)

            def run() -> float:
                nonlocal carried
                start = [torch.where(fresh, a, z) for a, z in zip(first, carried, strict=True)]
                rows = table[ids].requires_grad_()
                loss, carried = model.loss(start, rows, tokens, labels)
                gradients = torch.autograd.grad(loss, [*flat.leaves(), rows])
                with torch.no_grad():
                    count.add_(1)
                    for i, ((decay, buffer, _), g) in enumerate(
                        zip(flat.groups, flat.flat_gradients(gradients[:-1]), strict=True)
                    ):
                        weight_decay = run_config.weight_decay if decay else 0.0
                        m, v = moments[2 * i : 2 * i + 2]
                        update(buffer, m, v, g, lr, count, 0.9, 0.95, weight_decay)
                    moved = rows * (1 - run_config.puzzle_lr * run_config.puzzle_decay)
                    moved -= run_config.puzzle_lr * gradients[-1].sign()
                    table.index_copy_(0, ids, moved)  # the ids of the batch are distinct
                return loss.item()

            def restart() -> None:
                nonlocal carried
                carried = [z.clone() for z in first]

            return _counted(run, flat, [table, *moments, count], is_compiled, restart)

        return make

    return {
        "tuned/eager": maker(partial(_tuned, unrolled=False), _as_is, False),
        "tuned/compile": maker(partial(_tuned, unrolled=True), compiled, True),
        "common/eager": maker(_common, _as_is, False),
        "common/compile": maker(_common, compiled, True),
    }


def _as_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


def _counted(
    run: Callable[[], float], flat: Flat, others: Sequence[torch.Tensor], is_compiled: bool,
    reset: Callable[[], None],
) -> Prepared:  # fmt: skip
    """Compiling must not count as a step: it runs once and everything is put back."""
    tensors = [*(buffer for _, buffer, _ in flat.groups), *others]
    before = [t.clone() for t in tensors]
    seconds = first_run(run, is_compiled)
    for tensor, value in zip(tensors, before, strict=True):
        tensor.copy_(value)
    reset()
    return Prepared(run, lambda loss: [np.float32([loss])], seconds)


# ---- the Llama-style model ----


def _gate(ratio: float, w1, b1, w2, b2, beta) -> torch.Tensor:
    hidden = torch.tanh(w1 * math.log2(ratio) + b1)
    return torch.sigmoid((w2 * hidden).sum() + b2) * ratio ** F.softplus(beta)


_LAYER = (
    "attention_norm.gain", "attention.qkv", "attention.out",
    "mlp_norm.gain", "mlp.gate_up", "mlp.down",
)  # fmt: skip
_GATE = ("w1", "b1", "w2", "b2", "beta")


def _llama_layer(
    width: int, heads: int, dtype: torch.dtype, x: torch.Tensor,
    gate: Sequence[torch.Tensor], parameters: Sequence[torch.Tensor],
) -> torch.Tensor:  # fmt: skip
    norm1, qkv, out, norm2, gate_up, down = parameters
    attended = attend(rms_norm(x, norm1), qkv, out, heads, causal=True)
    g = _gate(width / x.shape[1], *gate)
    x = layer_update(x, attended, g, width=width, dtype=dtype)
    return x + swiglu(rms_norm(x, norm2), gate_up, down)


def adamw(
    p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor,
    lr: torch.Tensor, step: torch.Tensor, beta1: float, beta2: float, decay: float, eps: float,
) -> None:  # fmt: skip
    """One AdamW step in place."""
    p.mul_(1 - lr * decay)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    size = (v / (1 - beta2**step)).sqrt_().add_(eps)
    p.sub_(m / size * (lr / (1 - beta1**step)))


def llama_modes(
    setting: LlamaSetting, state: Mapping[str, np.ndarray], optimizer: AdamW,
    batch: Sequence[np.ndarray],
) -> dict[str, Maker]:  # fmt: skip
    """Cumulative sums in f32 (accurate enough at a few hundred tokens) and f64."""

    def maker(dtype: torch.dtype, wrap: Callable[..., Any], is_compiled: bool) -> Maker:
        def make(_: str) -> Prepared:
            flat = Flat(state)
            views = flat.views
            layer, update = wrap(_llama_layer), wrap(adamw)
            tokens, targets = (torch.tensor(a).long() for a in batch)
            moments = [torch.zeros_like(b) for _, b, _ in flat.groups for _ in range(2)]
            lr, count = torch.tensor(optimizer.lr), torch.tensor(0.0)
            gate = [views[f"gate.{name}"] for name in _GATE]

            def run() -> float:
                x = F.embedding(tokens, views["embedding.weight"])
                for number in range(setting.layers):
                    width = min(2**number, setting.context)
                    own = [views[f"layers.{number}.{name}"] for name in _LAYER]
                    x = layer(width, setting.heads, dtype, x, gate, own)
                logits = rms_norm(x, views["norm.gain"]) @ views["head.weight"].T
                loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
                gradients = torch.autograd.grad(loss, flat.leaves())
                with torch.no_grad():
                    count.add_(1)
                    for i, ((decay, buffer, _), g) in enumerate(
                        zip(flat.groups, flat.flat_gradients(gradients), strict=True)
                    ):
                        m, v = moments[2 * i : 2 * i + 2]
                        weight_decay = optimizer.weight_decay if decay else 0.0
                        update(
                            buffer, m, v, g, lr, count, *optimizer.betas, weight_decay,
                            optimizer.eps,
                        )  # fmt: skip
                return loss.item()

            return _counted(run, flat, [*moments, count], is_compiled, lambda: None)

        return make

    return {
        f"cumsum{bits}/{mode}": maker(dtype, wrap, mode == "compile")
        for bits, dtype in ((32, torch.float32), (64, torch.float64))
        for mode, wrap in (("eager", _as_is), ("compile", compiled))
    }
