# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files that are replaced whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[BinaryIO]:
    """Write a file that takes the name `path` once the block has ended without an exception.

    The block writes to a file of a unique name in the same folder; it is then waited for until
    it is on disk, and renamed. On any exception, KeyboardInterrupt included, it is removed and
    an old file of the name `path` stays as it was. A symbolic link is followed. A device or
    pipe has no content to keep and is written to directly, never replaced.

    Raises:
        OSError: as the system reports it.
    """
    # Resolved first: renaming onto a symbolic link would replace the link itself.
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file() and not target.is_dir():
        with open(target, "wb") as file:
            yield file
        return
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    finally:
        with contextlib.suppress(OSError):  # already renamed if all went well
            os.unlink(temporary)
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Make the renaming durable, where the file system can; the file itself is good already."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
