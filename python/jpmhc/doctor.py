# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What jpmhc finds on this machine, and what is missing for what."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import platform
import sys
from dataclasses import asdict, dataclass
from typing import Any

from jpmhc._libraries import EXTRAS
from jpmhc._reproducer import cache_directory

__all__ = ["Finding", "examine", "render"]

_VECTOR_FEATURES = ("avx512f", "avx512bf16", "amx-bf16", "avx2", "fma", "f16c")


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Attributes:
        name: what was looked for.
        found: whether it is there.
        value: what was found, or what to do.
        needed: whether jpmhc cannot work without it.
    """

    name: str
    found: bool
    value: str
    needed: bool = False


def examine() -> list[Finding]:
    """Looks at processor, libraries, cache and optional packages; changes nothing."""
    findings = [Finding("python", True, f"{platform.python_version()} ({sys.executable})")]
    try:
        from jpmhc import _core
    except ImportError as error:
        findings.append(Finding("compiler", False, str(error), needed=True))
    else:
        findings += _compiler(_core.describe())
    findings += [_driver(), _cache(), *(_extra(name) for name in EXTRAS)]
    return findings


def _compiler(facts: dict[str, Any]) -> list[Finding]:
    features = {f[1:] for f in facts["features"].split(",") if f.startswith("+")}
    vectors = ", ".join(name for name in _VECTOR_FEATURES if name in features) or "none known"
    blas = facts["blas"]
    ptxas = facts["ptxas"]
    return [
        Finding("jpmhc", True, f"{facts['version']} (build {facts['build'][:12]})"),
        Finding("processor", True, f"{facts['chip']}, {facts['lanes']} lanes of f32: {vectors}"),
        Finding("threads", True, _threads()),
        Finding("llvm", True, facts["llvm"]),
        Finding("blas", blas is not None, blas or facts["blas_error"], needed=True),
        Finding(
            "ptxas",
            bool(ptxas),
            ptxas
            or facts["ptxas_error"]
            or "PTX is written but not assembled; set JPMHC_PTXAS or pip install 'jpmhc[ptx]'",
        ),
    ]


def _threads() -> str:
    from jpmhc.threads import get_num_threads

    return f"{get_num_threads()} of {os.cpu_count()} processors"


def _driver() -> Finding:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding("cuda driver", False, "none; GPU kernels run on the emulator")
    version = ctypes.c_int()
    driver.cuDriverGetVersion(ctypes.byref(version))
    return Finding("cuda driver", True, f"{version.value // 1000}.{version.value % 1000 // 10}")


def _cache() -> Finding:
    if os.environ.get("JPMHC_CACHE_DIR") == "":
        return Finding("cache", False, "switched off by JPMHC_CACHE_DIR")
    folder = cache_directory()
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    nearest = next(p for p in (folder, *folder.parents) if p.exists())
    writable = os.access(nearest, os.W_OK)
    value = f"{folder}: {len(sizes)} files, {sum(sizes) / 1e6:.1f} MB"
    return Finding("cache", writable, value if writable else f"{folder} cannot be written")


def _extra(package: str) -> Finding:
    extra, purpose = EXTRAS[package]
    try:
        return Finding(package, True, importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return Finding(package, False, f"needed for {purpose}: pip install 'jpmhc[{extra}]'")


def render(findings: list[Finding]) -> str:
    """The report as lines of text."""
    width = max(len(finding.name) for finding in findings)

    def mark(finding: Finding) -> str:
        return "ok     " if finding.found else "MISSING" if finding.needed else "-      "

    return "\n".join(f"{mark(f)} {f.name:{width}}  {f.value}" for f in findings)


def as_json(findings: list[Finding]) -> list[dict[str, Any]]:
    """The report as JSON values."""
    return [asdict(finding) for finding in findings]
