# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training that is killed at any moment goes on from a good checkpoint, bit by bit.

`JPMHC_TEST_LONG=1` (`make check-long`) kills as often as the release asks for.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from jpmhc import checkpoint

KILLS = 100 if os.environ.get("JPMHC_TEST_LONG") else 4

SCRIPT = """
import sys
from pathlib import Path

import numpy as np

import jpmhc
from jpmhc import nn, optim

STEPS, EVERY = 600, 3


class Model(nn.Module):
    def __init__(self):
        self.up = nn.Linear(16, 64)
        self.down = nn.Linear(64, 16)

    def __call__(self, x):
        return self.down(jpmhc.tanh(self.up(x)))


folder = Path(sys.argv[1])
model = Model().init(0)


def loss(x, y):
    return ((model(x) - y) ** 2.0).mean()


spec = jpmhc.spec((256, 16))
step = jpmhc.TrainStep(model, loss, optim.AdamAtan2(lr=1e-3), spec, spec)
saved = folder / "checkpoint.safetensors"
if saved.exists():
    step.load(saved)
print("ready", flush=True)
while step.step < STEPS:
    x = np.random.Generator(np.random.Philox(key=step.step)).normal(size=(256, 16))
    x = x.astype(np.float32)
    step(x, np.sin(x))
    if step.step % EVERY == 0:
        step.save(saved)
np.savez(folder / "final.npz", **{k: v.copy() for k, v in model.state_dict().items()})
"""


def start(script: Path, folder: Path) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, script, folder], stdout=subprocess.PIPE)
    assert process.stdout.readline() == b"ready\n"
    return process


def test_killed_at_random_moments(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir()
    parts.mkdir()
    began = time.monotonic()
    assert start(script, whole).wait(timeout=300) == 0
    seconds = time.monotonic() - began
    moments = random.Random(0)
    seen = 0
    for _ in range(KILLS):
        process = start(script, parts)
        time.sleep(moments.uniform(0, min(0.1, seconds / KILLS)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        saved = parts / "checkpoint.safetensors"
        if saved.exists():  # whole, and never older than before
            step = checkpoint.read_metadata(saved).step
            assert step >= seen and step % 3 == 0
            seen = step
    assert start(script, parts).wait(timeout=300) == 0
    assert seen > 0
    expected, given = np.load(whole / "final.npz"), np.load(parts / "final.npz")
    assert sorted(expected) == sorted(given)
    for name in expected:
        np.testing.assert_array_equal(given[name], expected[name])
