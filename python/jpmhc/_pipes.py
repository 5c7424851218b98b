# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How a command ends when the reader of its output, such as `head`, has seen enough."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Sequence

Main = Callable[[Sequence[str] | None], int]


def ends_with_its_reader(main: Main) -> Main:
    """Makes a broken pipe the quiet end of a command, with exit code 0."""

    @functools.wraps(main)
    def command(arguments: Sequence[str] | None = None) -> int:
        try:
            code = main(arguments)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still buffered would fail once more when the interpreter ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        return code

    return command
