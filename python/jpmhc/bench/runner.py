# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs implementations in turn and compares their times."""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

import jpmhc
from jpmhc.bench.cases import OURS, Case, Growth, Prepared

HOPELESS = 2.0
"""A peer whose best time is this many times another peer's after the first rounds is given up."""

FIRST_ROUNDS = 3


@dataclass
class Timing:
    """Milliseconds of the runs of one implementation."""

    impl: str
    compile_s: float
    cached_s: float | None
    times: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """Of all runs."""
        return statistics.median(self.times)

    @property
    def best(self) -> float:
        """The shortest run."""
        return min(self.times)


@dataclass
class Result:
    """The timings of a case, ours first."""

    case: Case
    dtype: str
    threads: int
    timings: list[Timing]
    copy_ms: float | None

    @property
    def best_peer(self) -> Timing | None:
        """The peer with the smallest median."""
        peers = [t for t in self.timings if t.impl != OURS]
        return min(peers, key=lambda t: t.median, default=None)

    @property
    def ours(self) -> Timing:
        """Our timing."""
        return self.timings[0]

    @property
    def ratio(self) -> float | None:
        """Median of the best peer over ours."""
        peer = self.best_peer
        return None if peer is None else peer.median / self.ours.median

    @property
    def bytes_floor(self) -> int:
        """Of the case's element type."""
        return self.case.bytes_floor // (1 if self.dtype == "f32" else 2)

    @property
    def of_floor(self) -> float | None:
        """Our median in multiples of the time that copies the bytes of the floor."""
        return None if self.copy_ms is None else self.ours.median / self.copy_ms

    def rows(self) -> list[dict]:
        """JSON objects, one an implementation."""
        about = {"dtype": self.dtype, "threads": self.threads}
        return [
            {
                "case": self.case.name,
                "impl": t.impl,
                **about,
                "median_ms": t.median,
                "min_ms": t.best,
                "bytes_floor": self.bytes_floor,
                "flops": self.case.flops,
                "compile_s": t.compile_s,
                "compile_cached_s": t.cached_s,
                "copy_ms": self.copy_ms,
                "rounds": len(t.times),
            }
            for t in self.timings
        ]


class _Copy:
    """Copies half of some bytes: as many are read as written."""

    LARGEST = 64 << 20

    def __init__(self, moved: int) -> None:
        self._size = min(moved // 2, self.LARGEST)
        self._factor = moved / (2 * self._size)
        self._source = np.ones(self._size, np.uint8)
        self._target = np.zeros(self._size, np.uint8)

    def milliseconds(self) -> float:
        """Scaled to all of the bytes."""
        began = time.perf_counter()
        np.copyto(self._target, self._source)
        return (time.perf_counter() - began) * 1e3 * self._factor


def _time(prepared: Prepared) -> float:
    began = time.perf_counter()
    prepared.run()
    return (time.perf_counter() - began) * 1e3


def log(text: str) -> None:
    """A line about what is going on."""
    print(text, file=sys.stderr, flush=True)


def prepare(case: Case, dtype: str, with_peers: bool) -> dict[str, Prepared]:
    """All implementations of a case, each having run once."""
    makers = {OURS: case.ours}
    if with_peers:
        if case.torch:
            from jpmhc.bench.peers.support import forget_compiled

            forget_compiled()
        makers |= case.peers()
    found = {}
    for name, make in makers.items():
        began = time.perf_counter()
        prepared = make(dtype)
        prepared.run()
        log(f"  {name}: ready after {time.perf_counter() - began:.1f} s")
        found[name] = prepared
    return found


def run_case(
    case: Case, dtype: str, threads: int, *, with_peers: bool, rounds: int, seconds: float
) -> Result:
    """Times a case.

    Args:
        rounds: runs of each implementation at least.
        seconds: more rounds are taken while their time in all stays under this.
    """
    jpmhc.set_num_threads(threads)
    prepared = prepare(case, dtype, with_peers)
    timings = {name: Timing(name, p.compile_s, p.cached_s) for name, p in prepared.items()}
    moved = case.bytes_floor // (1 if dtype == "f32" else 2)
    copy, copies = _Copy(moved) if moved else None, []
    order, spent, done = list(prepared), 0.0, 0
    gc.collect()
    gc.disable()
    try:
        while done < rounds or (spent < seconds and done < 10 * rounds):
            for name in order[done % len(order) :] + order[: done % len(order)]:
                timings[name].times.append(_time(prepared[name]))
                spent += timings[name].times[-1] / 1e3
            if copy:
                copies.append(copy.milliseconds())
            done += 1
            if done == FIRST_ROUNDS:
                order = _hopeful(order, timings)
    finally:
        gc.enable()
    copy_ms = statistics.median(copies) if copies else None
    return Result(case, dtype, threads, list(timings.values()), copy_ms)


def _hopeful(order: Sequence[str], timings: dict[str, Timing]) -> list[str]:
    peers = [timings[name].best for name in order if name != OURS]
    bound = HOPELESS * min(peers, default=0.0)
    return [name for name in order if name == OURS or timings[name].best <= bound]


def differences(case: Case, dtype: str = "f32") -> dict[str, float]:
    """How far each peer's outputs are from ours, relative to the largest number of an output."""
    prepared = prepare(case, dtype, with_peers=True)
    results = {name: p.outputs(p.run()) for name, p in prepared.items()}
    ours = results.pop(OURS)
    found = {}
    for name, outputs in results.items():
        if [o.shape for o in outputs] != [o.shape for o in ours]:
            found[name] = float("inf")
            continue
        pairs = zip(outputs, ours, strict=True)
        found[name] = max(
            float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30)) for a, b in pairs
        )
    return found


@dataclass
class Exponent:
    """A fitted power law: time ~ size ** exponent."""

    growth: Growth
    medians: list[float]

    @property
    def value(self) -> float:
        """The slope of log time over log size."""
        return float(np.polyfit(np.log(self.growth.sizes), np.log(self.medians), 1)[0])

    def row(self) -> dict:
        """A JSON object."""
        return {
            "name": self.growth.name,
            "sizes": list(self.growth.sizes),
            "median_ms": self.medians,
            "exponent": self.value,
        }


def fit(growth: Growth, dtype: str, threads: int, *, rounds: int, seconds: float) -> Exponent:
    """Times our implementation at every size, in turn."""
    jpmhc.set_num_threads(threads)
    prepared = [growth.case(size).ours(dtype) for size in growth.sizes]
    for item in prepared:
        item.run()
    times: list[list[float]] = [[] for _ in prepared]
    spent, done = 0.0, 0
    while done < rounds or (spent < seconds and done < 10 * rounds):
        for item, row in zip(prepared, times, strict=True):
            row.append(_time(item))
            spent += row[-1] / 1e3
        done += 1
    return Exponent(growth, [statistics.median(row) for row in times])
