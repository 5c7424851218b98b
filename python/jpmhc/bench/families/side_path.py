# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The side path's layer update ``x + attn + g · triBox_b(x)`` on [B, T, D].

The floor is 6 arrays: x and attn read, out written; x and out's gradient read, x's written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from jpmhc import ops
from jpmhc.bench.cases import Case, Differentiated, Growth, differentiated_case


def _update(width: int, x: Any, attn: Any, gate: Any) -> Any:
    return ops.side_path(x, attn, gate, width)


def _inputs(shape: tuple[int, ...], generator: np.random.Generator) -> list[np.ndarray]:
    x, attn = (generator.standard_normal(shape, np.float32) for _ in range(2))
    return [x, attn, np.full((), 0.5, np.float32)]


def _peers(width: int) -> Mapping[str, Callable[..., Any]]:
    from jpmhc.bench.peers.side_path import modes

    return modes(width)


def _case(name: str, shape: tuple[int, int, int], width: int, target: float | None) -> Case:
    work = Differentiated(partial(_update, width), partial(_inputs, shape), (0, 1, 2))
    batch, tokens, channels = shape
    return differentiated_case(
        f"{name}/B{batch}T{tokens}D{channels}/b{width}", work, partial(_peers, width),
        bytes_floor=4 * 6 * batch * tokens * channels,
        # The published sums lose digits along T: 1e-7 · T of the largest sum.
        target=target, tolerance=1e-3,
    )  # fmt: skip


def cases(tiny: bool = False) -> list[Case]:
    """Narrow, middling and wide filters."""
    shape = (2, 48, 20) if tiny else (2, 4096, 512)
    return [_case("side_path", shape, width, 5.0) for width in ((4, 17) if tiny else (4, 64, 1024))]


def growths(tiny: bool = False) -> list[Growth]:
    """In tokens and width."""
    tokens, widths = (
        ((64, 128), (4, 8)) if tiny else ((4096, 8192, 16384, 32768), (4, 32, 256, 2048))
    )
    channels = 8 if tiny else 512
    return [
        Growth("growth/side_path/T", tokens, lambda t: _case("growth", (1, t, channels), 64, None)),
        Growth("growth/side_path/b", widths,
               lambda b: _case("growth", (1, tokens[1], channels), b, None)),
    ]  # fmt: skip
