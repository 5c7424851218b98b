# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler, for the few functions of this package that need it."""

from __future__ import annotations

from types import ModuleType

from jpmhc.errors import MissingDependencyError


def require(what: str) -> ModuleType:
    """The module `jpmhc`, with the compiler loaded.

    Args:
        what: needs it, for the message.

    Raises:
        MissingDependencyError: it, or a library that it needs, is not installed.
    """
    import jpmhc

    try:
        jpmhc._core  # noqa: B018  loads the compiler
    except MissingDependencyError as error:
        raise MissingDependencyError(
            f"{what} needs the compiler", given=error.given, hint=error.hint
        ) from error
    return jpmhc
