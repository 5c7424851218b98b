# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Projections of many 4×4 matrices; the floor is 5 arrays: raw and gradient twice each, H once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from jpmhc import ops
from jpmhc.bench.cases import Case, Differentiated, differentiated_case

_N = 4
_KINDS = {
    "birkhoff": ("birkhoff", {"rounds": 20}, 8.0),
    "stiefel": ("stiefel", {"steps": 2}, 1.5),
    "stiefel-exact": ("stiefel", {"exact": True}, 8.0),
}


def _project(manifold: str, parameters: dict[str, Any], raw: Any) -> Any:
    return ops.project(raw, manifold, _N, **parameters)


def _inputs(count: int, generator: np.random.Generator) -> list[np.ndarray]:
    return [generator.standard_normal((count, _N * _N), np.float32)]


def _peers(kind: str) -> Mapping[str, Callable[..., Any]]:
    from jpmhc.bench.peers.small_matrices import modes

    return modes(kind)


def cases(tiny: bool = False) -> list[Case]:
    """Each manifold that has peers."""
    count = 100 if tiny else 65536
    return [
        differentiated_case(
            f"project/{kind}/{count}x{_N}x{_N}",
            Differentiated(partial(_project, manifold, parameters), partial(_inputs, count), (0,)),
            partial(_peers, kind),
            bytes_floor=4 * 5 * count * _N * _N, target=target, dtypes=("f32",),
        )
        for kind, (manifold, parameters, target) in _KINDS.items()
    ]  # fmt: skip
