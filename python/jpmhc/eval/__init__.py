# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Scores of what a model predicts, and the baselines they are worth comparing with."""
