# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AdamAtan2 over one buffer of parameters, in place: reads p, g, m, v and writes p, m, v."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np

from jpmhc.bench.cases import SEED, Case, Maker, Prepared, timed_compile
from jpmhc.compiler import Program, addresses_of, run_addresses
from jpmhc.optim import AdamAtan2
from jpmhc.tracing import scalar_spec

OPTIMIZER = AdamAtan2(lr=1e-3, weight_decay=0.1)


def arrays(size: int) -> list[np.ndarray]:
    """p, m, v and g."""
    generator = np.random.default_rng(SEED)
    p, m, v, g = (generator.standard_normal(size, np.float32) for _ in range(4))
    return [p, m, v**2, g]


def _ours(size: int, dtype: str) -> Prepared:
    p, m, v, g = arrays(size)
    rates = [np.array(OPTIMIZER.lr, np.float32), np.array(1, np.int64)]

    def build() -> tuple[Program, int]:
        program = Program()

        def update(p, m, v, g, lr, step):
            return OPTIMIZER.update(p, g, m, v, lr, step, True)

        specs = (p, m, v, g, scalar_spec("f32"), scalar_spec("i64"))
        entry = program.add("update", update, specs, inplace=range(3))
        program.compile()
        return program, program.number(entry)

    (program, number), cold, cached = timed_compile(build)
    operands = [p, m, v, g, *rates]

    def run() -> None:
        run_addresses(program.executable, number, addresses_of(operands))
        rates[1] += 1

    return Prepared(run, lambda _: [p.copy(), m.copy(), v.copy()], cold, cached)


def _peers(size: int) -> Mapping[str, Maker]:
    from jpmhc.bench.peers.optimizers import modes

    return modes(arrays(size), OPTIMIZER)


def cases(tiny: bool = False) -> list[Case]:
    """Ten million parameters."""
    size = 1000 if tiny else 10_000_000
    return [
        Case(
            f"adam_atan2/{size}", partial(_ours, size), partial(_peers, size),
            bytes_floor=4 * 7 * size, target=1.3,
        )
    ]  # fmt: skip
