# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""AdamAtan2 in place on one buffer."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from jpmhc.bench.cases import Maker, Prepared
from jpmhc.bench.peers.support import compiled, first_run, to_array
from jpmhc.optim import AdamAtan2


def adam_atan2(
    p: torch.Tensor, m: torch.Tensor, v: torch.Tensor, g: torch.Tensor,
    lr: torch.Tensor, step: torch.Tensor, beta1: float, beta2: float, decay: float,
) -> None:  # fmt: skip
    """One step; `lr` and `step` are tensors so that Inductor compiles it once."""
    p.mul_(1 - lr * decay)
    m.lerp_(g, 1 - beta1)
    v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
    size = v.sqrt().mul_((1 - beta2**step).rsqrt())
    p.sub_(torch.atan2(m, size) * (lr / (1 - beta1**step)))


def modes(arrays: Sequence[np.ndarray], optimizer: AdamAtan2) -> dict[str, Maker]:
    """In place, eagerly and compiled."""

    def maker(is_compiled: bool) -> Maker:
        def make(dtype: str) -> Prepared:
            update = compiled(adam_atan2) if is_compiled else adam_atan2
            p, m, v, g = (torch.tensor(a) for a in arrays)
            lr, step = torch.tensor(optimizer.lr), torch.tensor(1.0)

            @torch.no_grad()
            def run() -> None:
                update(p, m, v, g, lr, step, *optimizer.betas, optimizer.weight_decay)
                step.add_(1)

            # Compiling must not count as a step: it runs on copies.
            state = [t.clone() for t in (p, m, v, step)]
            seconds = first_run(run, is_compiled)
            for tensor, before in zip((p, m, v, step), state, strict=True):
                tensor.copy_(before)
            return Prepared(run, lambda _: [to_array(t) for t in (p, m, v)], seconds)

        return make

    return {"in place/eager": maker(False), "in place/compile": maker(True)}
