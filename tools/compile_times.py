# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compile times: cold, with the cache full, and of a weight-tied model twice as deep.

    PYTHONPATH=build/python .venv/bin/python tools/compile_times.py

Each number is the least of several processes, each of which has imported jpmhc before it begins;
cold ones have no cache. Beside the time that passed stands that of all processors together, which
hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import jpmhc
from jpmhc import nn
from jpmhc.experiments import arc, arc_model

STREAMS, WIDTH, ROWS = 4, 512, 1024


def demo_step() -> Callable[[], jpmhc.TrainStep]:
    """The demo's training step."""
    config = arc.RunConfig()
    puzzles = arc.puzzles_of(arc.load_tasks(arc.CANVAS), config)
    batches = arc.batches_of(puzzles, config.batch, config.seed)
    sizes = arc_model.ModelConfig(puzzles=puzzles.num_puzzle_ids, canvas=arc.CANVAS)
    model = arc_model.ArcModel(sizes).init(0)
    batch = arc.staggered_batch(batches, 0, config.depth)
    return lambda: arc.compiled_step(model, config, batch)


class Block(nn.Module):
    """Hyper-connections around x_in ↦ silu(x_in) · w, `depth` times with the same weights."""

    def __init__(self, manifold: str, depth: int) -> None:
        self.weight = nn.Parameter((WIDTH,), init=nn.initializers.ones)
        self.block = nn.HyperConnection(self.scaled, dim=WIDTH, n=STREAMS, manifold=manifold)
        self.depth = depth

    def scaled(self, x: jpmhc.Tensor) -> jpmhc.Tensor:
        """F of the block."""
        return jpmhc.silu(x) * self.weight

    @jpmhc.function
    def once(self, streams: jpmhc.Tensor) -> jpmhc.Tensor:
        """One of the tied blocks."""
        return self.block(streams)

    def loss(self, streams: jpmhc.Tensor) -> jpmhc.Tensor:
        """A number that needs every gradient."""
        for _ in range(self.depth):
            streams = self.once(streams)
        return (streams * streams).mean()


def block(manifold: str, depth: int = 1) -> Callable[[], object]:
    """Forward and backward of a block."""
    model = Block(manifold, depth).init(0)
    gradient = jpmhc.value_and_grad(model.loss)
    spec = jpmhc.spec((ROWS, STREAMS, WIDTH))
    return lambda: jpmhc.compile(gradient, spec)


CASES: dict[str, Callable[[], Callable[[], object]]] = {
    "the demo's training step": demo_step,
    "a block, birkhoff": lambda: block("birkhoff"),
    "a block, stiefel": lambda: block("stiefel"),
    "four tied blocks, stiefel": lambda: block("stiefel", 4),
    "eight tied blocks, stiefel": lambda: block("stiefel", 8),
}


def run_one(name: str) -> None:
    """Compiles a case and prints what that took."""
    build = CASES[name]()
    began, used = time.perf_counter(), time.process_time()
    result = build()
    seconds, cpu = time.perf_counter() - began, time.process_time() - used
    print(json.dumps({"seconds": seconds, "cpu": cpu, **result.compilation}))


def measure(name: str, cache: str) -> dict[str, float]:
    """What a fresh process reports."""
    command = [sys.executable, __file__, "--case", name]
    environment = {**os.environ, "JPMHC_CACHE_DIR": cache}
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(said.stdout)


def least(name: str, cache: str, times: int) -> dict[str, float]:
    """The least of every number."""
    runs = [measure(name, cache) for _ in range(times)]
    return {key: min(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", choices=CASES, help="compile this one here and print its times")
    parser.add_argument("--times", type=int, default=3, help="processes a number (%(default)s)")
    given = parser.parse_args()
    if given.case:
        run_one(given.case)
        return
    print(f"on {jpmhc.get_num_threads()} threads, in seconds (all processors together)\n")
    columns = ["", "kernels", "cold", "lowering", "code", "linking", "cached"]
    print("| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for name in CASES:
        cold = least(name, "", given.times)
        with tempfile.TemporaryDirectory() as cache:
            measure(name, cache)
            warm = least(name, cache, given.times)
        cells = [f"{cold['seconds']:.2f} ({cold['cpu']:.2f})"]
        cells += [f"{cold[f'{part}_seconds']:.2f}" for part in ("lowering", "code", "link")]
        cells += [f"{warm['seconds']:.3f} ({warm['cpu']:.3f})"]
        row = [name, str(cold["compiled_kernels"]), *cells]
        print("| " + " | ".join(row) + " |", flush=True)


if __name__ == "__main__":
    main()
