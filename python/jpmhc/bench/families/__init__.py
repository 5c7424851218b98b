# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The cases of the benchmark, one module a family.

A family has ``cases(tiny=False) -> list[Case]``, and may have ``growths(tiny=False)``; tiny ones
are for tests. A family outside of this package is known by its module's name.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from types import ModuleType

from jpmhc.bench.cases import Case, Growth

_OWN = ("hyper_connections", "side_path", "projections", "dense", "optimizers", "steps")
_ELSEWHERE = ("jpmhc.spectra.bench",)


def modules() -> list[ModuleType]:
    """The families that are there."""
    found = [importlib.import_module(f"{__name__}.{name}") for name in _OWN]
    for name in _ELSEWHERE:
        package = importlib.util.find_spec(name.rpartition(".")[0])
        folders = package.submodule_search_locations if package else None
        if any((Path(folder) / "bench.py").exists() for folder in folders or ()):
            found.append(importlib.import_module(name))
    return found


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
