# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from jpmhc._arguments import pattern, positive
from jpmhc._pipes import ends_with_its_reader
from jpmhc.bench import families
from jpmhc.bench.runner import Exponent, Result, fit, log, run_case
from jpmhc.errors import JpmhcError


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the chosen cases; 1 if one could not be run."""
    options = _parse(arguments)
    cases = [case for case in families.cases() if options.only.search(case.name)]
    growths = [growth for growth in families.growths() if options.only.search(growth.name)]
    if options.list:
        for item in (*cases, *growths):
            print(item.name)
        return 0
    lacking = families.missing()
    if lacking:
        reason = next(iter(lacking.values()))
        log(f"left out, as {reason}: {', '.join(lacking)}")
    if not cases and not growths:
        print(f"no case matches {options.only.pattern!r}", file=sys.stderr)
        return 1
    try:
        return _run(options, cases, growths)
    except JpmhcError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(options: argparse.Namespace, cases: list, growths: list) -> int:
    if options.peers and any(case.torch for case in cases):
        from jpmhc.bench.peers import support

        support.prepare_process(options.threads)
    effort = {"rounds": options.rounds, "seconds": options.seconds}
    results: list[Result] = []
    exponents: list[Exponent] = []
    for number, case in enumerate(cases, 1):
        if options.dtype not in case.dtypes:
            log(f"[{number}/{len(cases)}] {case.name}: not meant for {options.dtype}")
            continue
        log(f"[{number}/{len(cases)}] {case.name}")
        result = run_case(case, options.dtype, options.threads, with_peers=options.peers, **effort)
        print(_text(result), flush=True)
        results.append(result)
        _write(options.json, results, exponents)
    for growth in growths:
        log(growth.name)
        exponents.append(fit(growth, options.dtype, options.threads, **effort))
        print(_growth_text(exponents[-1]), flush=True)
        _write(options.json, results, exponents)
    return 0


def _text(result: Result) -> str:
    ours, peer = result.ours, result.best_peer
    line = f"{result.case.name}  {result.dtype}, {result.threads} threads\n"
    line += f"  ours {ours.median:9.2f} ms (min {ours.best:.2f})"
    if result.of_floor is not None:
        line += f", {result.of_floor:.2f}x a copy of the floor's bytes"
    if result.case.flops:
        line += f", {result.case.flops / ours.median / 1e6:.1f} GFLOP/s"
    line += f"; compiled in {ours.compile_s:.2f} s"
    if ours.cached_s is not None:
        line += f", from the cache in {ours.cached_s * 1e3:.0f} ms"
    for timing in sorted(result.timings[1:], key=lambda t: t.median):
        mark = " best" if timing is peer else ""
        line += (
            f"\n  {timing.impl:24} {timing.median:9.2f} ms (min {timing.best:.2f}), "
            f"{timing.median / ours.median:5.2f}x ours{mark}"
        )
    if result.ratio is not None and result.case.target is not None:
        met = "met" if result.ratio >= result.case.target else "missed"
        line += f"\n  {result.ratio:.2f}x the best peer, target {result.case.target:g}x: {met}"
    return line


def _growth_text(found: Exponent) -> str:
    times = ", ".join(
        f"{size}: {ms:.2f} ms" for size, ms in zip(found.growth.sizes, found.medians, strict=True)
    )
    return f"{found.growth.name}: exponent {found.value:.2f} ({times})"


def _machine() -> dict:
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        model = next(line.split(":")[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration, IndexError):
        pass
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
    }


def _write(path: Path | None, results: list[Result], exponents: list[Exponent]) -> None:
    if path is None:
        return
    content = {
        "machine": _machine(),
        "results": [row for result in results for row in result.rows()],
        "exponents": [found.row() for found in exponents],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m jpmhc.bench",
        description="Times compiled functions beside PyTorch, interleaved.",
    )
    add = parser.add_argument
    add("--only", type=pattern, default=re.compile(""), metavar="RE", help="names that match")
    add("--threads", type=positive, default=1, metavar="N", help="(%(default)s)")
    add("--dtype", choices=("f32", "bf16", "f16"), default="f32", help="storage (%(default)s)")
    add("--json", type=Path, metavar="OUT", help="write all timings here")
    add("--list", action="store_true", help="print the names of the cases")
    add("--rounds", type=positive, default=7, metavar="K", help="runs at least (%(default)s)")
    add("--seconds", type=float, default=10.0, help="of runs a case at least (%(default)s)")
    add("--no-peers", dest="peers", action="store_false", help="ours alone, without torch")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
