# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hyper-connection blocks around a cheap sub-layer: silu of the input times a channel's weight.

Streams are [N, n, p]. One block must read x, write out, read x and the output's gradient, and
write x's: 5 arrays. A stack of L blocks keeps the streams between them: 2 L + 3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from jpmhc import ops
from jpmhc.bench.cases import Case, Differentiated, Growth, differentiated_case

STREAMS = 4
LOGITS = {"birkhoff": 24, "stiefel": 48}
OPTIONS = {
    "birkhoff": {"norm": "rms", "read_write": "sigmoid", "post_scale": 2.0, "rounds": 20},
    "stiefel": {"norm": "layer", "read_write": "softmax", "steps": 2},
}


def _stack(kind: str, x: Any, *parameters: Any) -> Any:
    """Blocks one after the other; `parameters` are weight, bias, alpha and the sub-layer's each."""
    for at in range(0, len(parameters), 4):
        weight, bias, alpha, factor = parameters[at : at + 4]
        x = ops.hyper_connection(
            x, weight, lambda value, f=factor: ops.silu(value * f),
            manifold=kind, alpha=alpha, bias=bias, **OPTIONS[kind],
        )  # fmt: skip
    return x


def _inputs(
    kind: str, depth: int, rows: int, channels: int, generator: np.random.Generator
) -> list[np.ndarray]:
    width, logits = STREAMS * channels, LOGITS[kind]

    def normal(*shape: int, scale: float = 1.0) -> np.ndarray:
        return generator.standard_normal(shape, np.float32) * np.float32(scale)

    arrays = [normal(rows, STREAMS, channels)]
    for _ in range(depth):
        arrays += [
            normal(logits, width, scale=width**-0.5),
            normal(logits, scale=0.5),
            np.ones(3, np.float32),
            normal(channels),
        ]
    return arrays


def _peers(kind: str, depth: int) -> Mapping[str, Callable[..., Any]]:
    from jpmhc.bench.peers.hyper_connections import modes

    return modes(kind, depth)


def _case(name: str, kind: str, depth: int, rows: int, channels: int, target: float | None) -> Case:
    work = Differentiated(
        partial(_stack, kind),
        partial(_inputs, kind, depth, rows, channels),
        tuple(range(1 + 4 * depth)),
    )
    elements = rows * STREAMS * channels
    return differentiated_case(
        f"{name}/{kind}/n{STREAMS}p{channels}/N{rows}", work, partial(_peers, kind, depth),
        bytes_floor=4 * elements * (5 if depth == 1 else 2 * depth + 3),
        flops=6 * depth * elements * LOGITS[kind],
        target=target, tolerance=2e-4, dtypes=("f32", "bf16"),
    )  # fmt: skip


def cases(tiny: bool = False) -> list[Case]:
    """Single blocks and stacks of four."""
    channels, rows, stacked = (8, 64, 64) if tiny else (512, 8192, 4096)
    targets = {"block": (1.6, 1.4), "stack4": (1.8, 1.5)}
    return [
        _case(f"hyper_connection/{name}", kind, depth, size, channels, target)
        for name, depth, size in (("block", 1, rows), ("stack4", 4, stacked))
        for kind, target in zip(LOGITS, targets[name], strict=True)
    ]


def growths(tiny: bool = False) -> list[Growth]:
    """In tokens, channels and depth."""
    if tiny:
        rows, channels, depths = (64, 128), (8, 16), (1, 2)
    else:
        rows, channels, depths = (2048, 4096, 8192, 16384), (128, 256, 512, 1024), (2, 4, 8)
    case = partial(_case, "growth")
    return [
        Growth("growth/hyper_connection/N", rows,
               lambda size: case("birkhoff", 1, size, channels[-2], None)),
        Growth("growth/hyper_connection/p", channels,
               lambda size: case("birkhoff", 1, rows[1], size, None)),
        Growth("growth/hyper_connection/L", depths,
               lambda size: case("birkhoff", size, rows[0], channels[-2], None)),
    ]  # fmt: skip
