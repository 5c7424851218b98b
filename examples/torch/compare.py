# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs before.py and after.py and prints how equal their losses are, and their speed."""

import argparse

import after
import before
import torch

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=20)
parser.add_argument("--rows", type=int, default=4096)
parser.add_argument("--dim", type=int, default=128)
parser.add_argument("--threads", type=int, default=torch.get_num_threads())
options = parser.parse_args()

torch.set_num_threads(options.threads)
results = {
    script.__name__: script.train(options.steps, options.rows, options.dim)
    for script in (before, after)
}
for name, (losses, seconds) in results.items():
    print(f"{name:6}  loss {losses[0]:.6f} -> {losses[-1]:.6f}   {1000 * seconds:.1f} ms a step")
(one, slow), (other, fast) = results["before"], results["after"]
difference = max(abs(a - b) / abs(a) for a, b in zip(one, other, strict=True))
print(f"largest relative difference of a loss: {difference:.1e}")
print(f"speed: {slow / fast:.2f} times")
