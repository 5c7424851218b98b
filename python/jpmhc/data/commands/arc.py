# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC-AGI tasks, augmented, as puzzles of tokens."""

from __future__ import annotations

import argparse

from jpmhc.data.arc import load_tasks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    parser.add_argument("--max-grid", type=int, default=30, help="longest side of a grid")


def run(options: argparse.Namespace) -> None:
    """Counts the tasks."""
    tasks = load_tasks(options.max_grid)
    if options.stats:
        print(f"tasks: {len(tasks)}")
