# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores of what models predict, and how sure they are, in Python and NumPy alone."""
