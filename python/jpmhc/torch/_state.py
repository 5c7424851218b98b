# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Parameters of PyTorch modules as the arrays that `jpmhc.checkpoint` reads and writes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import torch

from jpmhc.errors import LayoutError


def parameter_arrays(module: torch.nn.Module) -> dict[str, np.ndarray]:
    """The parameters by name as arrays on the same memory: nothing is copied.

    Names are those of `jpmhc.nn`: each parameter once, under the first of its names. To save,
    ``checkpoint.save(path, {"model": parameter_arrays(module)})``; to load, with the new values
    in place, ``checkpoint.load(path, {"model": parameter_arrays(module)})``.

    Raises:
        LayoutError: a parameter is not in this machine's memory.
    """
    return {name: _array(name, value.detach()) for name, value in module.named_parameters()}


def _array(name: str, tensor: torch.Tensor) -> np.ndarray:
    if tensor.device.type != "cpu":
        raise LayoutError(f"parameter {name}", expected="a tensor on the cpu", given=tensor.device)
    if tensor.dtype == torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return tensor.numpy()
