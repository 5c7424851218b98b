# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The manifolds that a residual mixer can be projected onto, read from the compiler's registry.

Each has a name, parameters with defaults, a number of raw values a token, and the bias that makes
the mixer start as the plain residual path. A manifold added to the compiler appears here by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from jpmhc import _core, _text
from jpmhc._location import here
from jpmhc.errors import ConfigError, is_known, unknown_name


@dataclass(frozen=True)
class Manifold:
    """A manifold with its parameters.

    Args:
        name: as registered.
        parameters: those that were given; the others take the registry's defaults.
    """

    name: str
    parameters: Mapping[str, Any]

    def raw_size(self, n: int) -> int:
        """Raw numbers a token for an n×n mixer.

        Raises:
            ConfigError: n or a parameter is out of range.
        """
        return _ask(_core.manifold_raw_size, self, n)

    def initial_bias(self, n: int) -> np.ndarray:
        """The bias of the raw numbers [raw_size] at the start of training."""
        return np.asarray(_ask(_core.manifold_initial_bias, self, n), np.float64)

    def flops(self, n: int) -> int:
        """About how many operations the projection of a token takes, before anything is compiled.

        A transcendental function counts as 16, as in `jpmhc.cost`.
        """
        return _ask(_core.manifold_flops, self, n)

    @property
    def starts_as_identity(self) -> bool:
        """Whether equal streams stay as they are at the start."""
        return _core.manifold_starts_as_identity(self.name)

    @property
    def attribute(self) -> str:
        """The MLIR attribute."""
        if not self.parameters:
            return f'#jpmhc.manifold<"{self.name}">'
        return f'#jpmhc.manifold<"{self.name}", {_text.dictionary(dict(self.parameters))}>'


def names() -> list[str]:
    """The registered manifolds."""
    return _core.manifold_names()


def parameters_of(name: str) -> dict[str, Any]:
    """Names and defaults (None where there is none) of a manifold's parameters.

    Raises:
        ConfigError: the manifold is unknown; the nearest name is suggested.
    """
    known = names()
    if not is_known(name, known):
        raise unknown_name("manifold", name, known, where=here())
    return _core.manifold_parameters(name)


def describe(name: str) -> str:
    """What the manifold is, in a sentence.

    Raises:
        ConfigError: as `parameters_of`.
    """
    parameters_of(name)
    return _core.manifold_doc(name)


def get(name: str, parameters: Mapping[str, Any] | None = None) -> Manifold:
    """The manifold of that name with these parameters.

    Raises:
        ConfigError: the name or a parameter is unknown, with the nearest known one.
    """
    given = dict(parameters or {})
    known = parameters_of(name)
    for parameter in given:
        if parameter not in known:
            raise unknown_name(f"parameter of manifold {name}", parameter, known, where=here())
    return Manifold(name, given)


def attribute(name: str, parameters: Mapping[str, Any] | None = None) -> str:
    """The MLIR attribute of a manifold; raises as `get` does."""
    return get(name, parameters).attribute


def _ask(question: Any, manifold: Manifold, n: int) -> Any:
    try:
        return question(manifold.attribute, n)
    except _core.DiagnosticError as error:
        raise ConfigError(error.args[0], where=here()) from None
