# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command line of the conformance cases."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jpmhc._arguments import pattern, positive
from jpmhc._pipes import ends_with_its_reader
from jpmhc.conformance.cases import load_cases
from jpmhc.conformance.runner import Outcome, run_case
from jpmhc.errors import DataError


@ends_with_its_reader
def main(arguments: list[str] | None = None) -> int:
    """Runs the cases of the files; 0 if none failed, 1 if one did, 2 if a file is malformed."""
    options = _parse(arguments)
    try:
        cases = [case for path in options.files for case in load_cases(path)]
    except DataError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    chosen = [case for case in cases if options.only is None or options.only.search(case.id)]
    with ThreadPoolExecutor(options.jobs) as pool:
        outcomes = list(
            pool.map(lambda case: run_case(case, options.target, options.dtype), chosen)
        )
    for outcome in outcomes:
        if outcome.status != "passed":
            print(f"{outcome.status}: {outcome.id}: {outcome.reason}")
    count = {
        status: sum(o.status == status for o in outcomes)
        for status in ("passed", "failed", "skipped")
    }
    if options.json is not None:
        _write(options.json, options, count, outcomes)
    print(f"{count['passed']} passed, {count['failed']} failed, {count['skipped']} skipped")
    return 1 if count["failed"] else 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m jpmhc.conformance",
        description="Evaluates conformance cases through the compiler.",
    )
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="JSON, plain or gzip")
    parser.add_argument("--target", choices=("cpu", "emulator"), default="cpu")
    parser.add_argument("--dtype", choices=("f32", "bf16", "f16"), default="f32")
    parser.add_argument("--only", type=pattern, metavar="REGEX", help="cases whose id matches")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write all outcomes here")
    parser.add_argument("--jobs", type=positive, default=1, metavar="N", help="cases at a time")
    return parser.parse_args(arguments)


def _write(path: Path, options: argparse.Namespace, count: dict, outcomes: list[Outcome]) -> None:
    content = {
        "format": 1,
        "target": options.target,
        "dtype": options.dtype,
        **count,
        "cases": [outcome.as_dict() for outcome in outcomes],
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
