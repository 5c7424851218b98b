# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The place in the user's program that an op comes from."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FrameType

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_NOWHERE = ("<unknown>", 0, 0)
_local = threading.local()
Location = tuple[str, int, int]


@contextlib.contextmanager
def without_location() -> Iterator[None]:
    """Has `user_location` answer that it does not know, in this thread.

    For programs that are the same whoever asks for them first: a cache finds them again.
    """
    before = getattr(_local, "nowhere", False)
    _local.nowhere = True
    try:
        yield
    finally:
        _local.nowhere = before


def user_location() -> Location:
    """File, line and column (from 1) of the innermost frame outside this package."""
    if getattr(_local, "nowhere", False):
        return _NOWHERE
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_internal(frame.f_code):
        frame = frame.f_back
    if frame is None:
        return _NOWHERE
    return (frame.f_code.co_filename, frame.f_lineno, _column(frame))


def describe(location: Location | None) -> str | None:
    """``file:line:column``, or None where the place is unknown."""
    if location is None or location[1] == 0:
        return None
    return f"{location[0]}:{location[1]}:{location[2]}"


def here() -> str | None:
    """The description of `user_location()`, for the `where` of an error."""
    return describe(user_location())


# Folders of this package that use it as a user does.
_USERS = tuple(_PACKAGE + folder + os.sep for folder in ("conformance", "experiments"))
# Frames of the standard library that lie between the user and this package.
_internal: dict[str, bool] = {contextlib.__file__: True}


def _is_internal(code: CodeType) -> bool:
    """The package itself; its experiments and conformance builders count as users."""
    name = code.co_filename
    known = _internal.get(name)
    if known is None:
        path = os.path.abspath(name)
        known = path.startswith(_PACKAGE) and not path.startswith(_USERS)
        # A command that is run by `python -m` has no user but the interpreter.
        known = known or name == "<frozen runpy>"
        _internal[name] = known
    return known


def _column(frame: FrameType) -> int:
    positions = frame.f_code.co_positions()
    entry = next(itertools.islice(positions, frame.f_lasti // 2, None), None)
    return (entry[2] or 0) + 1 if entry is not None and entry[2] is not None else 1
