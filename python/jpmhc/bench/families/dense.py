# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Products with few outputs, and the norm of a row.

Floors: a product reads x, then x and a small gradient, and writes x's: 3 arrays; the norm 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

import jpmhc
from jpmhc import ops
from jpmhc.bench.cases import Case, Differentiated, differentiated_case

_TARGETS = {24: 1.25, 48: 1.0}


def _normal(shapes: list[tuple[int, ...]], generator: np.random.Generator) -> list[np.ndarray]:
    first, second = (generator.standard_normal(shape, np.float32) for shape in shapes)
    return [first, second * np.float32(0.02) if second.ndim == 2 else second]


def _skinny_peers() -> Mapping[str, Callable[..., Any]]:
    from jpmhc.bench.peers.dense import skinny_modes

    return skinny_modes()


def _norm_peers() -> Mapping[str, Callable[..., Any]]:
    from jpmhc.bench.peers.dense import rms_norm_modes

    return rms_norm_modes()


def _skinny(rows: int, width: int, outputs: int) -> Case:
    shapes = [(rows, width), (outputs, width)]
    return differentiated_case(
        f"skinny/{rows}x{width}to{outputs}",
        Differentiated(jpmhc.linear, partial(_normal, shapes), (0, 1)),
        _skinny_peers,
        bytes_floor=4 * 3 * rows * width, flops=6 * rows * width * outputs,
        target=_TARGETS.get(outputs), dtypes=("f32",),
    )  # fmt: skip


def cases(tiny: bool = False) -> list[Case]:
    """The skinny products and the RMS norm."""
    rows, width = (128, 32) if tiny else (32768, 2048)
    norm = (64, 32) if tiny else (8192, 2048)
    return [
        *(_skinny(rows, width, outputs) for outputs in _TARGETS),
        differentiated_case(
            f"rms_norm/{norm[0]}x{norm[1]}",
            Differentiated(ops.rms_norm, partial(_normal, [norm, norm[1:]]), (0, 1)),
            _norm_peers,
            bytes_floor=4 * 5 * norm[0] * norm[1], target=2.0, dtypes=("f32", "bf16"),
        ),
    ]  # fmt: skip
