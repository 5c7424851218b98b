# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules: parameters, layers of transformers, and the blocks of the two papers."""

from jpmhc.nn import initializers
from jpmhc.nn.layers import Attention, Embedding, LayerNorm, Linear, RMSNorm, SwiGLU
from jpmhc.nn.module import Module, Parameter
from jpmhc.nn.residual import (
    CoverageGate,
    HyperConnection,
    SidePath,
    copy_in,
    mean_out,
    sum_out,
)
from jpmhc.nn.sparse import SparseEmbedding

__all__ = [
    "Attention",
    "CoverageGate",
    "Embedding",
    "HyperConnection",
    "LayerNorm",
    "Linear",
    "Module",
    "Parameter",
    "RMSNorm",
    "SidePath",
    "SparseEmbedding",
    "SwiGLU",
    "copy_in",
    "initializers",
    "mean_out",
    "sum_out",
]
