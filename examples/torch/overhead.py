# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints what a call costs besides the computation: of ops on a handful of numbers, in µs."""

import time

import torch

import jpmhc.torch as jt


def fastest(function, calls=4, rounds=500):
    """Least time of a call; a few in a row, so that other programs seldom come between."""
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        for _ in range(calls):
            function()
        best = min(best, (time.perf_counter() - start) / calls)
    return 1e6 * best


torch.set_num_threads(1)
x, seed = torch.randn(4, 4, requires_grad=True), torch.ones(4, 4)
block = jt.HyperConnection(torch.nn.Identity(), 4, "birkhoff", dim=8)
streams = torch.randn(2, 4, 8)
with torch.no_grad():
    print(f"triBox, forward alone      {fastest(lambda: jt.triBox(x, 2)):6.1f}")
    print(f"hyper-connection, forward  {fastest(lambda: block(streams)):6.1f} (two ops)")
print(f"triBox, recording          {fastest(lambda: jt.triBox(x, 2)):6.1f}")
both = fastest(lambda: torch.autograd.grad(jt.triBox(x, 2), x, seed))
print(f"triBox, and its gradient   {both:6.1f} (two ops)")
plain = fastest(lambda: torch.autograd.grad(x + 1, x, seed))
print(f"PyTorch's x + 1, likewise  {plain:6.1f}")
