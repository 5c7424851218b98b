# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of compiled programs goes, kernel by kernel."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from jpmhc import knobs
from jpmhc.errors import DataError

__all__ = ["KernelTime", "Profile", "profile", "read_trace"]


@dataclass(frozen=True)
class KernelTime:
    """The runs of a kernel at one line of the user's program.

    Attributes:
        name: the kernel, or "gemm", "copy", "fill", or the entry that ran them.
        location: "file:line:column"; empty for an entry.
        calls: number of runs.
        seconds: their time together.
    """

    name: str
    location: str
    calls: int
    seconds: float


@dataclass
class Profile:
    """What `profile` has measured; filled when its block ends. Longest first."""

    kernels: list[KernelTime] = field(default_factory=list)
    entries: list[KernelTime] = field(default_factory=list)

    def seconds_by_kernel(self) -> dict[str, float]:
        """Seconds by kernel, over all lines; longest first."""
        sums: dict[str, float] = {}
        for kernel in self.kernels:
            sums[kernel.name] = sums.get(kernel.name, 0.0) + kernel.seconds
        return dict(sorted(sums.items(), key=lambda item: -item[1]))

    def __str__(self) -> str:
        total = sum(kernel.seconds for kernel in self.kernels) or 1.0
        rows = [f"{'ms':>10} {'share':>6} {'calls':>7}  kernel"]
        rows += [
            f"{k.seconds * 1e3:10.3f} {k.seconds / total:6.1%} {k.calls:7d}  {k.name}  {k.location}"
            for k in self.kernels
        ]
        return "\n".join(rows)


@contextlib.contextmanager
def profile() -> Iterator[Profile]:
    """Times every kernel that compiled programs run inside the block.

        >>> with profile() as times:
        ...     step(batch)
        >>> print(times)

    A trace that the knob `trace` asks for at the
    same time loses these events.
    """
    result = Profile()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        with knobs.scope(trace=path):
            yield result
        times = read_trace(path)
    result.entries = [time for time in times if not _is_kernel(time)]
    result.kernels = [time for time in times if _is_kernel(time)]


def _is_kernel(time: KernelTime) -> bool:
    return bool(time.location) or time.name in ("gemm", "copy", "fill")


def read_trace(path: str | os.PathLike) -> list[KernelTime]:
    """The events of a trace, added up by name and location; longest first.

    Raises:
        DataError: the file cannot be read or is no trace of jpmhc.
    """
    try:
        events = json.loads(Path(path).read_bytes())["traceEvents"]
        keyed = [((e["name"], e["args"]["location"]), e["dur"] / 1e6) for e in events]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError("not a trace of jpmhc", given=error, where=path) from error
    sums: dict[tuple[str, str], list[float]] = {}
    for key, seconds in keyed:
        sums.setdefault(key, []).append(seconds)
    times = [KernelTime(*key, len(values), sum(values)) for key, values in sums.items()]
    return sorted(times, key=lambda time: (-time.seconds, time.name, time.location))
