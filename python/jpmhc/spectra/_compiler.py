# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The compiler, for the few functions of this package that need it."""

from __future__ import annotations

from types import ModuleType

from jpmhc.errors import JpmhcError, MissingDependencyError


def require(what: str) -> ModuleType:
    """The module `jpmhc`, with the compiler loaded.

    Args:
        what: needs it, for the message.

    Raises:
        MissingDependencyError: this build has the spectral library alone.
    """
    import jpmhc

    try:
        from jpmhc import manifolds  # noqa: F401  loads the compiler
    except JpmhcError:
        raise
    except ImportError as error:
        raise MissingDependencyError(
            f"{what} needs the compiler", given="a build without it", hint="build with LLVM 22"
        ) from error
    return jpmhc
