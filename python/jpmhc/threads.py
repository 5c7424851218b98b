# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The number of threads that compiled programs run on (``JPMHC_NUM_THREADS`` sets the first)."""

from __future__ import annotations

from jpmhc.errors import ConfigError, shown

try:
    from jpmhc import _core as _pool
except ImportError:  # a build without the compiler; the pool is the same
    from jpmhc import _spectral as _pool


def set_num_threads(count: int) -> None:
    """Sets it for the whole process; results do not depend on it.

    Raises:
        ConfigError: the count is not an integer ≥ 1.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ConfigError("number of threads", expected="an integer ≥ 1", given=shown(count))
    _pool.set_num_threads(count)


def get_num_threads() -> int:
    """The present number of threads."""
    return _pool.get_num_threads()
