# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Manifolds."""
def attribute(*a): pass
def get(*a): pass
