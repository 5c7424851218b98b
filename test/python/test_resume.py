# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Data, checkpoint, metrics and Ctrl-C together: a resumed run is the uninterrupted one."""

import signal
from pathlib import Path

import numpy as np

from jpmhc import checkpoint
from jpmhc.data.text import TextDataset
from jpmhc.training import GracefulInterrupt, MetricsWriter, Schedule, read_metrics

ALICE = Path(__file__).parent.parent / "data" / "alice.txt"
STEPS = 30


def train(folder, interrupt_at=None):
    """A bigram model of a text with momentum, in NumPy; goes on with a checkpoint if there is one.

    Returns its weights.
    """
    data = TextDataset.from_file(ALICE, length=32, seed=3)
    schedule = Schedule(0.05, warmup=5, total=STEPS, decay="cosine")
    weights = np.zeros((256, 256), np.float32)
    momentum = np.zeros_like(weights)
    arrays = {"model": {"weights": weights}, "optimizer": {"weights.momentum": momentum}}
    saved = folder / "checkpoint.safetensors"
    done = checkpoint.load(saved, arrays).step if saved.exists() else 0
    with (
        MetricsWriter(folder / "metrics.jsonl", resume_at=done) as metrics,
        GracefulInterrupt() as interrupt,
    ):
        while done < STEPS and not interrupt.requested:
            tokens, targets = data.batch(done, 8)
            logits = weights[tokens]
            odds = np.exp(logits - logits.max(-1, keepdims=True))
            odds /= odds.sum(-1, keepdims=True)
            picked = np.take_along_axis(odds, targets[..., None], -1)
            np.put_along_axis(odds, targets[..., None], picked - 1, -1)
            gradient = np.zeros_like(weights)
            np.add.at(gradient, tokens, odds)
            momentum *= 0.9
            momentum += gradient
            weights -= np.float32(schedule(done)) * momentum
            if done == interrupt_at:
                signal.raise_signal(signal.SIGINT)
            done += 1
            metrics.write(done, loss=-np.log(picked).mean())
            if done % 4 == 0:
                checkpoint.save(saved, arrays, step=done)
        checkpoint.save(saved, arrays, step=done)
    return weights


def test_an_interrupted_and_resumed_run_has_the_same_curve_bit_by_bit(tmp_path):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    whole = train(tmp_path / "whole")
    train(tmp_path / "parts", interrupt_at=13)
    assert checkpoint.read_metadata(tmp_path / "parts" / "checkpoint.safetensors").step == 14
    resumed = train(tmp_path / "parts")
    np.testing.assert_array_equal(whole, resumed)
    curves = [read_metrics(tmp_path / name / "metrics.jsonl") for name in ("whole", "parts")]
    assert curves[0] == curves[1]
    assert [record["step"] for record in curves[0]] == list(range(1, STEPS + 1))
    assert curves[0][-1]["loss"] < 0.8 * curves[0][0]["loss"]  # and it learns
