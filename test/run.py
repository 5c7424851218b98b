# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs every suite (GoogleTest, lit, pytest) and closes with `N passed, N failed, N skipped`.

python test/run.py --build build [--only unit|lit|python] [--sanitizer address|thread]
"""

from __future__ import annotations

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

from sanitizers import sanitizer_environment

ROOT = pathlib.Path(__file__).resolve().parent.parent


class Counts:
    """Passed, failed and skipped tests of a suite."""

    def __init__(self, passed: int = 0, failed: int = 0, skipped: int = 0) -> None:
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped
        )

    def __str__(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


def from_junit(path: pathlib.Path) -> Counts:
    """Counts of a JUnit file; a missing or empty one is a failure (the program died)."""
    if not path.exists() or not path.stat().st_size:
        return Counts(failed=1)
    cases = list(xml.etree.ElementTree.parse(path).getroot().iter("testcase"))
    failed = sum(1 for c in cases if c.find("failure") is not None or c.find("error") is not None)
    skipped = sum(1 for c in cases if c.find("skipped") is not None or c.get("status") == "notrun")
    return Counts(len(cases) - failed - skipped, failed, skipped)


def run_unit(build: pathlib.Path, environment: dict[str, str], scratch: pathlib.Path) -> Counts:
    """Every GoogleTest program that ctest knows, one after the other."""
    listing = subprocess.run(
        ["ctest", "--test-dir", str(build), "--show-only=json-v1"],
        capture_output=True,
        text=True,
        check=True,
    )
    total = Counts()
    for number, test in enumerate(json.loads(listing.stdout)["tests"]):
        report = scratch / f"unit-{number}.xml"
        command = [*test["command"], f"--gtest_output=xml:{report}", "--gtest_brief=1"]
        status = subprocess.run(command, env=environment, cwd=build).returncode
        counts = from_junit(report)
        if status and not counts.failed:
            counts.failed += 1
            print(f"{test['name']} exited with {status}", flush=True)
        total += counts
    return total


def run_lit(build: pathlib.Path, environment: dict[str, str], scratch: pathlib.Path) -> Counts:
    """The FileCheck tests."""
    report = scratch / "lit.xml"
    lit = pathlib.Path(sys.executable).parent / "lit"
    command = [str(lit), "-sv", f"--xunit-xml-output={report}", str(build / "test" / "lit")]
    status = subprocess.run(command, env=environment).returncode
    counts = from_junit(report)
    return counts if not status or counts.failed else counts + Counts(failed=1)


def run_python(build: pathlib.Path, environment: dict[str, str], scratch: pathlib.Path) -> Counts:
    """The Python tests."""
    report = scratch / "python.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-rs", f"--junitxml={report}", "test/python"]
    # pytest would keep to itself what a sanitizer says before it ends the process.
    said = scratch / "sanitizer"
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
        if name in environment:
            environment[name] += f":log_path={said}"
    status = subprocess.run(command, env=environment, cwd=ROOT).returncode
    counts = from_junit(report)
    if status and not report.exists():
        print(f"\npytest exited with {status}", flush=True)
    texts = [path.read_text(errors="replace") for path in sorted(scratch.glob("sanitizer.*"))]
    errors = [text for text in texts if "ERROR: " in text or "runtime error: " in text]
    print("\n".join(errors), flush=True)
    if (errors or status) and not counts.failed:
        counts.failed += 1
    return counts


SUITES = {"unit": run_unit, "lit": run_lit, "python": run_python}


def main() -> int:
    """Runs the suites; exit code 1 if any test failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--only", choices=SUITES, action="append")
    parser.add_argument("--sanitizer", choices=["address", "thread"])
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    environment = sanitizer_environment(arguments.sanitizer)
    environment["PYTHONPATH"] = str(build / "python")
    environment["JPMHC_BUILD"] = str(build)
    total = Counts()
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.only or SUITES:
            start = time.monotonic()
            own = dict(environment)
            if arguments.sanitizer and name == "python":
                own["LD_PRELOAD"] = own["JPMHC_TEST_PRELOAD"]
                if "ASAN_OPTIONS" in own:
                    # Else each of the emulator's threads gets a second stack: ten times slower.
                    own["ASAN_OPTIONS"] += ":detect_stack_use_after_return=0"
            counts = SUITES[name](build, own, pathlib.Path(scratch))
            rows.append(f"{name:8}{counts} in {time.monotonic() - start:.0f} s")
            total += counts
    print("\n" + "\n".join(rows))
    print(total)
    return 1 if total.failed or not total.passed else 0


if __name__ == "__main__":
    sys.exit(main())
