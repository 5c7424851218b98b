# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jpmhc inside PyTorch: modules, functions, losses and an optimiser that take its tensors.

    >>> import torch, jpmhc.torch as jt
    >>> block = jt.HyperConnection(torch.nn.Linear(64, 64), n=4, manifold="birkhoff")
    >>> x = jt.copy_in(torch.randn(32, 64), 4)
    >>> block(x).shape
    torch.Size([32, 4, 64])

Every function is a custom op of PyTorch (`torch.ops.jpmhc`) that runs compiled code on the tensors'
own memory, with its reverse-mode rule as another op: autograd, `torch.compile`, autocast,
activation checkpointing and DistributedDataParallel work as with PyTorch's own. CPU tensors of
float32, bfloat16 and float16; on as many threads as `torch.get_num_threads()` says.

Needs the extra `jpmhc[torch]` (torch ≥ 2.9).
"""

from __future__ import annotations

from jpmhc.errors import MissingDependencyError

try:
    import torch as _torch  # noqa: F401
except ImportError as _error:
    raise MissingDependencyError(
        "jpmhc.torch needs PyTorch", given=_error, hint="pip install 'jpmhc[torch]'"
    ) from None

from jpmhc.torch._losses import softmax_cross_entropy, stablemax_cross_entropy
from jpmhc.torch._modules import (
    CoverageGate,
    HyperConnection,
    SidePath,
    TRSPSchedule,
    copy_in,
    mean_out,
    sum_out,
)
from jpmhc.torch._optimizer import AdamAtan2
from jpmhc.torch._projection import project
from jpmhc.torch._side_path import coverage_gate, side_path, triBox, tribox
from jpmhc.torch._state import parameter_arrays
from jpmhc.torch._wrapping import Wrapped, wrap

__all__ = [
    "AdamAtan2",
    "CoverageGate",
    "HyperConnection",
    "SidePath",
    "TRSPSchedule",
    "Wrapped",
    "copy_in",
    "coverage_gate",
    "mean_out",
    "parameter_arrays",
    "project",
    "side_path",
    "softmax_cross_entropy",
    "stablemax_cross_entropy",
    "sum_out",
    "triBox",
    "tribox",
    "wrap",
]
