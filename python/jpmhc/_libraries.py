# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is missing when the compiler cannot be loaded."""

from __future__ import annotations

from jpmhc.errors import MissingDependencyError

# Debian packages by a part of the library's name.
PACKAGES = {"libMLIR": "libmlir-22", "libLLVM": "libllvm22"}


def explained(error: ImportError) -> ImportError:
    """The error to raise for one that loading `jpmhc._core` raised: with the apt line, if known."""
    text = str(error)
    if any(library in text for library in PACKAGES):
        return MissingDependencyError(
            "the compiler's libraries are not installed",
            given=text,
            hint=f"sudo apt-get install {' '.join(PACKAGES.values())}",
        )
    return error
