# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that reproduce an internal failure of the compiler."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path


def cache_directory() -> Path:
    """``JPMHC_CACHE_DIR``, else ``jpmhc`` in the user's cache directory.

    An empty variable switches the cache off: then it is a folder for temporary files.
    """
    named = os.environ.get("JPMHC_CACHE_DIR")
    if named is not None:
        return Path(named) if named else Path(tempfile.gettempdir()) / "jpmhc"
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "jpmhc"


def write(module: str) -> Path | None:
    """Keeps the text of a module; None where that is not possible."""
    name = hashlib.sha256(module.encode()).hexdigest()[:16]
    path = cache_directory() / "reproducers" / f"{name}.mlir"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(module)
    except OSError:
        return None
    return path
