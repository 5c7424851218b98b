# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a compiled program computes and moves, by kernel and by line, beside what it takes.

    >>> from jpmhc.profiling import profile
    >>> with profile() as times:
    ...     step(batch)
    >>> print(step.cost(times))

`flops` counts a transcendental function as 16. `bytes` is what loads and stores touch, caches or
not. `floor` is every buffer of a kernel read or written once, the least that it has to move when
nothing is in a cache. The predicted time is the longer one of floor over bandwidth and flops over
rate, and that of as many launches, all measured on this machine by `roofline`.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from jpmhc import _core
from jpmhc.profiling import Profile

if TYPE_CHECKING:
    from jpmhc.compiler import Compiled

__all__ = ["Cost", "Kernel", "Roofline", "cost_table", "roofline"]


@dataclass(frozen=True)
class Roofline:
    """What this machine reaches.

    Attributes:
        bandwidth: bytes a second.
        rate: floating-point operations a second.
        launch: seconds of a launch that does nothing on every thread.
    """

    bandwidth: float
    rate: float
    launch: float

    def seconds(self, floor: int, flops: int, launches: int = 0) -> float:
        """The least time for that many bytes and operations in as many launches."""
        return max(floor / self.bandwidth, flops / self.rate) + launches * self.launch


@dataclass(frozen=True)
class Kernel:
    """A kernel at one line of the user's program.

    Attributes:
        entry: the compiled function that runs it.
        name: the kernel, or "gemm" or "copy".
        location: "file:line:column".
        calls: runs of it in a run of the entry.
        flops, bytes, floor: of all those runs together.
        exact: False where a loop's length is known at run time only: then they are lower bounds.
        predicted: seconds by the roofline.
        measured: seconds a run of the entry; None where it was not measured.
    """

    entry: str
    name: str
    location: str
    calls: int
    flops: int
    bytes: int
    floor: int
    exact: bool
    predicted: float
    measured: float | None = None


@dataclass(frozen=True)
class Cost:
    """The kernels of a program; print it for a table."""

    kernels: tuple[Kernel, ...]
    machine: Roofline

    @property
    def flops(self) -> int:
        """Of all kernels."""
        return sum(kernel.flops for kernel in self.kernels)

    @property
    def floor(self) -> int:
        """Bytes, of all kernels."""
        return sum(kernel.floor for kernel in self.kernels)

    def by_line(self) -> Cost:
        """The same with one row for each line of the user's program."""
        rows: dict[tuple[str, str], Kernel] = {}
        for kernel in self.kernels:
            line = kernel.location.rpartition(":")[0] or kernel.location
            key = kernel.entry, line
            one = replace(kernel, name="", location=line)
            rows[key] = _sum(rows[key], one) if key in rows else one
        return Cost(tuple(rows.values()), self.machine)

    def __str__(self) -> str:
        head = (
            f"{'calls':>6} {'Mflop':>9} {'MB':>9} {'floor MB':>9} {'predicted':>10} {'measured':>9}"
        )
        machine = (
            f"measured here: {self.machine.bandwidth / 1e9:.1f} GB/s, "
            f"{self.machine.rate / 1e9:.0f} Gflop/s, {self.machine.launch * 1e6:.1f} µs a launch"
        )
        return "\n".join([machine, f"{head}  kernel", *(_row(kernel) for kernel in self.kernels)])


def _sum(a: Kernel, b: Kernel) -> Kernel:
    measured = None if a.measured is None or b.measured is None else a.measured + b.measured
    return replace(
        a,
        calls=a.calls + b.calls,
        flops=a.flops + b.flops,
        bytes=a.bytes + b.bytes,
        floor=a.floor + b.floor,
        exact=a.exact and b.exact,
        predicted=a.predicted + b.predicted,
        measured=measured,
    )


def _row(kernel: Kernel) -> str:
    measured = "-" if kernel.measured is None else f"{kernel.measured * 1e3:.3f}ms"
    more = " " if kernel.exact else "+"
    return (
        f"{kernel.calls:6d} {kernel.flops / 1e6:8.3f}{more} {kernel.bytes / 1e6:8.3f}{more} "
        f"{kernel.floor / 1e6:9.3f} {kernel.predicted * 1e3:8.3f}ms {measured:>9}  "
        f"{kernel.entry}.{kernel.name}  {kernel.location}"
    )


def cost_table(rows: Sequence[tuple], times: Profile | None) -> Cost:
    """Adds predicted and measured times to what the compiler counts.

    Args:
        rows: (entry, kernel, location, calls, flops, bytes, floor, exact) of each kernel.
        times: times of runs of the same program, or None.
    """
    machine = roofline()
    runs = {entry.name: entry.calls for entry in times.entries} if times else {}
    seconds = {(k.name, k.location): k.seconds for k in times.kernels} if times else {}
    kernels = []
    for entry, name, location, calls, flops, moved, floor, exact in rows:
        predicted = machine.seconds(floor, flops, calls)
        took = seconds.get((name, location))
        measured = None if took is None or entry not in runs else took / runs[entry]
        kernels.append(
            Kernel(entry, name, location, calls, flops, moved, floor, exact, predicted, measured)
        )
    return Cost(tuple(kernels), machine)


_machines: dict[int, Roofline] = {}


def roofline() -> Roofline:
    """Measures the machine with the present number of threads, once a process.

    The bandwidth is that of a compiled sum of two arrays of 64 MB; the rate that of a product of
    two 1024×1024 matrices; a launch that of an empty kernel with a row for each thread.
    """
    import jpmhc

    threads = jpmhc.get_num_threads()
    if threads not in _machines:
        _machines[threads] = Roofline(_bandwidth(), _rate(), _core.launch_seconds())
    return _machines[threads]


def _fastest(compiled: Compiled, *arrays: np.ndarray) -> float:
    """Seconds of the fastest of a few runs into an array that is mapped already."""
    out = np.zeros(compiled.output_shapes[0], np.float32)
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        compiled.run_into(arrays, [out])
        best = min(best, time.perf_counter() - start)
    return best


def _bandwidth() -> float:
    import jpmhc

    x = np.ones(1 << 24, np.float32)
    add = jpmhc.compile(lambda a, b: a + b, x, x)
    return 3 * x.nbytes / _fastest(add, x, x.copy())


def _rate() -> float:
    import jpmhc

    n = 1024
    a = np.ones((n, n), np.float32)
    return 2 * n**3 / _fastest(jpmhc.compile(lambda a, b: a @ b, a, a), a, a)
