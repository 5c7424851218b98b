# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hyper-connection blocks and stacks of them around silu(x g); streams [N, n, p]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from jpmhc.bench.peers.dense import skinny_product
from jpmhc.bench.peers.small_matrices import (
    cayley,
    cayley_matrices,
    dot,
    sinkhorn_arrays,
    sinkhorn_log,
    sinkhorn_unrolled,
)
from jpmhc.bench.peers.support import both, compiled

EPS = 1e-5
Sublayer = Callable[[torch.Tensor], torch.Tensor]


@torch.library.custom_op("jpmhc_bench::opaque", mutates_args=())
def opaque(x: torch.Tensor) -> torch.Tensor:
    """An identity that Inductor cannot see through.

    Without it the loops over channels compute the mixer again at every step.
    """
    return x.clone()


opaque.register_fake(torch.empty_like)
opaque.register_autograd(lambda ctx, grad: opaque(grad))


def coefficients(
    x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor, alpha: torch.Tensor,
    kind: str, unrolled: bool,
) -> torch.Tensor:  # fmt: skip
    """[N, n (n + 2)]: n read weights, then for each stream its write weight and n of the mixer."""
    rows, n, p = x.shape
    flat, factor, group = x.view(rows, n * p), 1.0, n
    if kind == "stiefel":
        flat, group = F.layer_norm(flat, (n * p,), eps=EPS), n * n
    else:  # a factor of the row commutes with the product
        mean = torch.linalg.vector_norm(flat, dim=1).square() / (n * p)
        factor = torch.rsqrt(mean + EPS)
    scale = torch.cat([alpha[0].expand(group), alpha[1].expand(group), alpha[2].expand(n * n)])
    product = skinny_product(flat, w).t().contiguous()
    z = product * factor * scale[:, None] + bias[:, None]
    pre, post, res = z.split([group, group, n * n])
    if kind == "stiefel":
        read = pre.view(n, n, rows).softmax(1).mean(0)
        write = post.view(n, n, rows).softmax(0).sum(1)
        mixer: Any = cayley(res, n)
    else:
        read, write = torch.sigmoid(pre), 2 * torch.sigmoid(post)
        mixer = sinkhorn_unrolled(res, n) if unrolled else sinkhorn_arrays(res, n)
    lines = [*read]
    for i in range(n):
        lines += [write[i], *mixer[i]]
    return opaque(torch.stack(lines, 1)) if unrolled else torch.stack(lines, 1)


def tuned(
    x: torch.Tensor, sublayer: Sublayer, w: torch.Tensor, bias: torch.Tensor, alpha: torch.Tensor,
    kind: str, unrolled: bool,
) -> torch.Tensor:  # fmt: skip
    """The fastest forms found: for Inductor (`unrolled`) and for eager execution."""
    rows, n, p = x.shape
    c = coefficients(x, w, bias, alpha, kind, unrolled)
    if not unrolled:  # one batched product reads all streams
        y = sublayer(torch.bmm(c[:, None, :n], x)[:, 0])
        return torch.bmm(c[:, n:].view(rows, n, n + 1), torch.cat([y[:, None], x], 1))
    streams, c = x.view(rows, n * p).split(p, 1), c.split(1, 1)
    y = sublayer(dot(c[:n], streams))
    outs = [dot(c[n + (n + 1) * i : n + (n + 1) * (i + 1)], (y, *streams)) for i in range(n)]
    return torch.cat(outs, 1).view(rows, n, p)


def common(
    x: torch.Tensor, sublayer: Sublayer, w: torch.Tensor, bias: torch.Tensor, alpha: torch.Tensor,
    kind: str,
) -> torch.Tensor:  # fmt: skip
    """What published code does: log-space Sinkhorn, matrices last, batched products."""
    rows, n, p = x.shape
    flat, group = x.view(rows, n * p), n * n if kind == "stiefel" else n
    norm = F.layer_norm if kind == "stiefel" else F.rms_norm
    flat = norm(flat, (n * p,), eps=EPS)
    sizes = [group, group, n * n]
    groups = (flat @ w.T).split(sizes, 1)
    pre, post, res = (a * z + b for a, z, b in zip(alpha, groups, bias.split(sizes), strict=True))
    if kind == "stiefel":
        read = torch.softmax(pre.view(rows, n, n), -1).mean(-2)
        write = torch.softmax(post.view(rows, n, n), -2).sum(-1)
        mixer = cayley_matrices(res.view(rows, n, n))
    else:
        read, write = torch.sigmoid(pre), 2 * torch.sigmoid(post)
        mixer = sinkhorn_log(res.view(rows, n, n))
    y = sublayer((read[:, None] @ x)[:, 0])
    return torch.baddbmm(write[:, :, None] * y[:, None], mixer, x)


def modes(kind: str, depth: int) -> dict[str, Callable[..., Any]]:
    """All formulations of a stack; parameters are weight, bias, alpha and g of each block."""

    def stack(block: Callable[..., torch.Tensor]) -> Callable[..., Any]:
        def run(x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
            for at in range(0, len(parameters), 4):
                w, bias, alpha, g = parameters[at : at + 4]
                x = block(x, w, bias, alpha, g)
            return x

        return run

    def eager(x, w, bias, alpha, g):
        return tuned(x, lambda v: F.silu(v * g), w, bias, alpha, kind, unrolled=False)

    def unrolled(x, w, bias, alpha, g):
        return tuned(x, lambda v: F.silu(v * g), w, bias, alpha, kind, unrolled=True)

    def plain(x, w, bias, alpha, g):
        return common(x, lambda v: F.silu(v * g), w, bias, alpha, kind)

    # A compiled block in a loop compiles once; the whole stack takes minutes and is no faster.
    inductor = stack(compiled(unrolled)) if depth > 1 else compiled(stack(unrolled))
    return {
        "tuned/eager": stack(eager),
        "tuned/compile": inductor,
        **both(stack(plain), "common"),
    }
