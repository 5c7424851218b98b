# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What every test may rely on."""

import os
import pathlib
import signal
from collections.abc import Generator

import pytest

from jpmhc._libraries import NO_COMPILER
from jpmhc.errors import MissingDependencyError

# A shell that starts this in the background has Ctrl-C ignored, and Python leaves it so.
signal.signal(signal.SIGINT, signal.default_int_handler)

PURE_PYTHON = [
    f"test_{name}.py"
    for name in (
        "arc_formats", "arc_sampler", "arc_sources", "arc_votes", "data_docs", "data_output",
        "data_output_stops", "hostile_data", "hostile_options", "language_scores", "needle",
        "packing", "plotting", "ruler", "setup", "statistics", "strange_tokenizers", "text",
        "text_commands", "tokenizers",
    )
]  # fmt: skip
"""Tests of data and scores, which run no code of this project but Python."""

# Under a sanitizer they would take long and could find nothing.
collect_ignore = PURE_PYTHON if os.environ.get("JPMHC_TEST_PRELOAD") else []


def pytest_report_header() -> list[str]:
    """Says what is left out."""
    left = f"a sanitizer is on: {len(collect_ignore)} files that run Python alone are left out"
    return [left] if collect_ignore else []


class _Module(pytest.Module):
    """A file of tests, skipped where what it imports needs a compiler that was not built."""

    def _getobj(self) -> object:
        try:
            return super()._getobj()
        except self.CollectError as error:
            cause = error.__cause__
            # Not where its libraries are missing: then a whole build would pass with no test run.
            if isinstance(cause, MissingDependencyError) and cause.message == NO_COMPILER:
                pytest.skip(str(cause), allow_module_level=True)
            raise


def pytest_pycollect_makemodule(module_path: pathlib.Path, parent: pytest.Collector) -> _Module:
    """A build of the spectra alone has no compiler, which most tests import."""
    return _Module.from_parent(parent, path=module_path)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Skips a test that turns out to need the compiler where none was built."""
    try:
        return (yield)
    except MissingDependencyError as error:
        if error.message == NO_COMPILER:
            pytest.skip(str(error))
        raise
