# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The planned peak of a step is what a step really takes."""

from __future__ import annotations

import subprocess
import sys

MEASURE = """
import numpy as np
import jpmhc
from jpmhc import nn, ops, optim

def resident():
    for line in open("/proc/self/status"):
        if line.startswith(("VmRSS", "VmHWM")):
            name, kilobytes, _ = line.split()
            yield name[:-1], int(kilobytes) * 1024

# The library's own buffers exist before anything is measured.
square = np.ones((512, 512), np.float32)
jpmhc.compile(lambda a: a @ a, square)(square)

class Net(nn.Module):
    def __init__(self):
        self.layers = [nn.Linear(1024, 1024) for _ in range(4)]
    def forward(self, x):
        for layer in self.layers:
            x = ops.silu(layer(x))
        return x

net = Net()
def loss(x):
    y = net(x)
    return (y * y).mean()

step = jpmhc.TrainStep(net, loss, optim.AdamW(1e-3), jpmhc.spec((4096, 1024)))
x = np.ones((4096, 1024), np.float32)
for buffer in (*step.gradients.values(), *net.buffers.values()):
    buffer += 0  # resident before the measurement
before = dict(resident())["VmRSS"]
step(x)
print(step.planned_peak_bytes, dict(resident())["VmHWM"] - before, step.state_bytes)
"""


def test_planned_peak_is_the_measured_one() -> None:
    run = subprocess.run([sys.executable, "-c", MEASURE], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    planned, measured, _ = map(int, run.stdout.split())
    assert planned > 64 << 20, "too small to measure"
    # Besides the temporaries only the two moments (lazily zeroed) become resident.
    moments = 2 * 4 * (4 * 1024 * 1024 + 4 * 1024)
    assert abs(measured - moments - planned) < 0.1 * planned
