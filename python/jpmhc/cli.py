# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The command `jpmhc`: what is installed, what it is set to, what a run did.

jpmhc doctor            what is found on this machine, and what is missing for what
jpmhc knobs             every setting, its variable and its present value
jpmhc report RUN -o X   a page or a picture of a training run's metrics
jpmhc --version
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from jpmhc import doctor, knobs
from jpmhc._pipes import ends_with_its_reader
from jpmhc.errors import JpmhcError

__all__ = ["main"]


@ends_with_its_reader
def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, or 1 for a failure or a missing need."""
    parser = argparse.ArgumentParser(
        prog="jpmhc",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    examine = commands.add_parser("doctor", help="what is found and what is missing")
    examine.add_argument("--json", action="store_true", help="print JSON")
    settings = commands.add_parser("knobs", help="every setting and its present value")
    settings.add_argument("--json", action="store_true", help="print JSON")
    report = commands.add_parser("report", help="draw a training run")
    report.add_argument("run", type=Path, help="metrics.jsonl or the folder that holds it")
    report.add_argument(
        "-o", "--output", type=Path, help="file.html or file.png (default: beside the metrics)"
    )
    report.add_argument("--tensorboard", type=Path, metavar="FOLDER", help="write events there")
    options = parser.parse_args(arguments)
    if options.version:
        return _version()
    if options.command is None:
        parser.print_help()
        return 1
    try:
        return _COMMANDS[options.command](options)
    except JpmhcError as error:
        print(f"jpmhc: {error}", file=sys.stderr)
        return 1


def _version() -> int:
    from jpmhc import _core

    print(f"jpmhc {_core.version}")
    return 0


def _doctor(options: argparse.Namespace) -> int:
    findings = doctor.examine()
    text = json.dumps(doctor.as_json(findings), indent=2) if options.json else None
    print(text or doctor.render(findings))
    return 1 if any(f.needed and not f.found for f in findings) else 0


def _knobs(options: argparse.Namespace) -> int:
    if options.json:
        rows = [
            {"name": k.name, "variable": k.variable, "value": os.environ.get(k.variable)}
            | {"default": k.default, "cached": k.cached, "summary": k.summary}
            for k in knobs.KNOBS.values()
        ]
        print(json.dumps(rows, indent=2))
        return 0
    for knob in knobs.KNOBS.values():
        value = os.environ.get(knob.variable)
        print(f"{knob.variable}={value}" if value is not None else knob.variable)
        print(f"    {knob.summary}")
        if knob.cached:
            print("    part of the key of cached code")
        print(f"    default: {knob.default}; in Python: {knob.name}")
    return 0


def _report(options: argparse.Namespace) -> int:
    from jpmhc import run_report

    path = options.run / "metrics.jsonl" if options.run.is_dir() else options.run
    if options.tensorboard is not None:
        print(f"wrote {run_report.write_tensorboard(path, options.tensorboard)}")
        if options.output is None:
            return 0
    output = options.output or path.with_name("report.html")
    run_report.write(path, output)
    print(f"wrote {output}")
    return 0


_COMMANDS = {"doctor": _doctor, "knobs": _knobs, "report": _report}


if __name__ == "__main__":
    sys.exit(main())
