# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Torch itself, and functions on its tensors as implementations of a case."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jpmhc.bench.cases import Prepared
from jpmhc.errors import MissingDependencyError

try:
    import torch
except ImportError as error:
    raise MissingDependencyError(
        "the peers need the package torch",
        hint="pip install 'jpmhc[torch]', or --no-peers for our times alone",
    ) from error

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4


def prepare_process(threads: int) -> None:
    """Sets torch's threads (before anything is compiled) and makes the C library keep freed memory.

    By default glibc unmaps a large block when it is freed, and every page of the next one faults:
    that can cost several times the pass over it. This is what jemalloc or tcmalloc would give.
    """
    torch.set_num_threads(threads)
    torch._dynamo.config.recompile_limit = 64  # one program a width of a filter
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
    except (OSError, AttributeError):
        pass  # another C library


def forget_compiled() -> None:
    """Drops what was compiled for an earlier case; earlier functions would compile again."""
    torch._dynamo.reset()


_COMPILE_OPTIONS: dict[str, Any] = {"options": {"max_fusion_size": 10000}}


def use_quick_backend() -> None:
    """From now on `compiled` traces and differentiates as ever, but makes no machine code."""
    _COMPILE_OPTIONS.clear()
    _COMPILE_OPTIONS["backend"] = "aot_eager"


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled by Inductor, whose default limit of 64 nodes a kernel cuts Sinkhorn into pieces."""
    return torch.compile(function, dynamic=False, **_COMPILE_OPTIONS)


def both(function: Callable[..., Any], name: str) -> dict[str, Callable[..., Any]]:
    """The function eagerly and compiled."""
    return {f"{name}/eager": function, f"{name}/compile": compiled(function)}


DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """As f32."""
    return tensor.detach().to(torch.float32).numpy()


def first_run(run: Callable[[], Any], is_compiled: bool) -> float:
    """Runs once; the seconds it took if that was compilation, else 0."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began if is_compiled else 0.0


def differentiated(
    function: Callable[..., Any],
    arrays: Sequence[np.ndarray],
    wrt: Sequence[int],
    dtype: str,
    is_compiled: bool,
) -> Prepared:
    """A function and its gradients.

    Args:
        arrays: the cotangent, then the arguments.
        wrt: numbers of the arguments to differentiate by.
    """
    cotangent, *inputs = (torch.tensor(array).to(DTYPES[dtype]) for array in arrays)
    leaves = [inputs[i].requires_grad_() for i in wrt]

    def run() -> list[torch.Tensor]:
        out = function(*inputs)
        return [out, *torch.autograd.grad(out, leaves, cotangent)]

    seconds = first_run(run, is_compiled)
    return Prepared(run, lambda result: [to_array(t) for t in result], seconds)
