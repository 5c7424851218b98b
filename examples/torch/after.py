# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Trains a small network whose residual path is hyper-connections, with jpmhc."""

import time

import torch
from torch import nn

from jpmhc.torch import HyperConnection


def layer(dim):
    return nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim), nn.SiLU())


def train(steps=20, rows=4096, dim=128, n=4, layers=4):
    """Trains; returns the losses, and seconds a step after the first two."""
    torch.manual_seed(0)
    blocks = [HyperConnection(layer(dim), n, "birkhoff", dim=dim) for _ in range(layers)]
    model = nn.Sequential(*blocks)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, target = torch.randn(2, rows, dim)
    losses, times = [], []
    for _ in range(steps):
        start = time.perf_counter()
        streams = model(x.unsqueeze(1).repeat(1, n, 1))
        loss = (streams.mean(1) - target).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        times.append(time.perf_counter() - start)
        losses.append(loss.item())
    return losses, min(times[2:])


if __name__ == "__main__":
    losses, seconds = train()
    print(f"loss {losses[0]:.6f} -> {losses[-1]:.6f}, {1000 * seconds:.1f} ms a step")
