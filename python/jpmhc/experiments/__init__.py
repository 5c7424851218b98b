# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whole runs: a model, its data, its training and its report."""
