# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A hyper-connection on PyTorch's own ops, as published code writes it."""

import math

import torch
from torch import nn


def sinkhorn(logits, rounds=20):
    """[N, n, n] onto the doubly stochastic matrices."""
    h = logits.clamp(-10, 10).exp()
    for _ in range(rounds):
        h = h / h.sum(-1, keepdim=True)
        h = h / h.sum(-2, keepdim=True)
    return h


class HyperConnection(nn.Module):
    def __init__(self, sublayer, n, manifold="birkhoff", *, dim):
        super().__init__()
        self.sublayer, self.n = sublayer, n
        rows, width, sigma = 2 * n + n * n, n * dim, 1 / math.sqrt(n * dim) / 0.87962566
        self.weight = nn.Parameter(torch.empty(rows, width))
        nn.init.trunc_normal_(self.weight, std=sigma, a=-2 * sigma, b=2 * sigma)
        self.alpha = nn.Parameter(torch.full((3,), 0.01))
        read = torch.full((n,), -math.log(n - 1))
        self.bias = nn.Parameter(torch.cat([read, torch.zeros(n), 4 * torch.eye(n).flatten()]))

    def forward(self, x):
        n, flat = self.n, x.flatten(1)
        normed = flat * (flat.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
        scale = self.alpha.repeat_interleave(torch.tensor([n, n, n * n]))
        read, write, mixer = (normed @ self.weight.T * scale + self.bias).split([n, n, n * n], 1)
        y = self.sublayer((read.sigmoid().unsqueeze(-1) * x).sum(1))
        mixed = sinkhorn(mixer.view(-1, n, n)) @ x
        return mixed + 2 * write.sigmoid().unsqueeze(-1) * y.unsqueeze(1)
