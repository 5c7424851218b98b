# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Types of command-line options, for argparse's `type=`."""

from __future__ import annotations

import argparse
import re

__all__ = ["pattern", "positive"]


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression; argparse reports one that is none."""
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"not a regular expression: {error}") from None


def positive(text: str) -> int:
    """A decimal number of at least 1; argparse reports another one."""
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number ≥ 1, got {text}")
    return int(text)
