# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The number of threads that compiled programs run on (``JPMHC_NUM_THREADS`` sets the first)."""

from __future__ import annotations

from jpmhc import _core
from jpmhc.errors import ConfigError


def set_num_threads(count: int) -> None:
    """Sets it for the whole process; results do not depend on it.

    Raises:
        ConfigError: the count is not an integer ≥ 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError("number of threads", expected="an integer ≥ 1", given=repr(count))
    _core.set_num_threads(count)


def get_num_threads() -> int:
    """The present number of threads."""
    return _core.get_num_threads()
