# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of the benchmark, one module a family.

A family has ``cases(tiny=False) -> list[Case]``, and may have ``growths(tiny=False)``; tiny ones
are for tests. A family outside of this package is known by its module's name.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from jpmhc.bench.cases import Case, Growth
from jpmhc.errors import MissingDependencyError

_OWN = ("hyper_connections", "side_path", "projections", "dense", "optimizers", "steps")
_ELSEWHERE = ("jpmhc.spectra.bench",)


def modules() -> list[ModuleType]:
    """The families that are there and that can run in this build."""
    return _load()[0]


def missing() -> dict[str, MissingDependencyError]:
    """What each family lacks that cannot run: without the compiler, all but the spectra."""
    return _load()[1]


@functools.cache
def _load() -> tuple[list[ModuleType], dict[str, MissingDependencyError]]:
    names = [f"{__name__}.{name}" for name in _OWN] + [n for n in _ELSEWHERE if _is_there(n)]
    found, lacking = [], {}
    for name in names:
        try:
            found.append(importlib.import_module(name))
        except MissingDependencyError as error:
            lacking[name.rpartition(".")[2]] = error
    return found, lacking


def _is_there(name: str) -> bool:
    """Whether a package has a family."""
    package = importlib.util.find_spec(name.rpartition(".")[0])
    folders = package.submodule_search_locations if package else None
    return any((Path(folder) / "bench.py").exists() for folder in folders or ())


def cases(tiny: bool = False) -> list[Case]:
    """Of all families."""
    return [case for module in modules() for case in module.cases(tiny)]


def growths(tiny: bool = False) -> list[Growth]:
    """Of all families."""
    return [
        growth
        for module in modules()
        if hasattr(module, "growths")
        for growth in module.growths(tiny)
    ]
