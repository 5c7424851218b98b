# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data sets for the examples: ARC grids (`arc`) and the bytes of a text (`text`)."""
