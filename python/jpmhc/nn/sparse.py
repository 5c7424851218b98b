# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tables of which a step touches few rows."""

from __future__ import annotations

from typing import Any

from jpmhc import ops
from jpmhc._location import here
from jpmhc.dtypes import tensor_type
from jpmhc.errors import CompileError
from jpmhc.nn import initializers
from jpmhc.nn.initializers import Initializer
from jpmhc.nn.layers import positive
from jpmhc.nn.module import Module, Parameter
from jpmhc.tracing import Frame, Operators, Tensor, as_tensor, current_trace


class SparseRows(Operators):
    """Rows of a sparse table that a differentiated function takes as an argument.

    The gradient then has the size of the batch, not of the table. The rows are gathered by the
    caller of the differentiated function, from ids that are one of its arguments.
    """

    def __init__(self, parameter: Parameter, ids: Tensor) -> None:
        self.parameter = parameter
        self.ids = ids
        self.shape = (*ids.shape, *parameter.shape[1:])

    @property
    def type(self) -> str:
        """The MLIR type of the rows."""
        return tensor_type(self.shape, "f32")

    def to_tensor(self) -> Tensor:
        """The rows, gathered in the frame that calls the differentiated function."""
        return ops.embedding(self.parameter, self.outer_ids())

    def outer_ids(self) -> Tensor:
        """The ids as a value of the calling frame.

        Raises:
            CompileError: the ids are computed inside the differentiated function.
        """
        frame = self.ids.frame
        for argument, operand in zip(frame.arguments, frame.operands, strict=True):
            if argument is self.ids:
                return as_tensor(operand)
        raise CompileError(
            "ids of a SparseEmbedding under differentiation",
            expected="an argument of the differentiated function",
            given="a value computed in it",
            where=here(),
        )


class SparseEmbedding(Module):
    """Rows of a table by id, where the optimiser moves only the rows of the batch.

    Args:
        count: ids lie in [0, count).
        dim: length of a row.
        init: draws the table; zeros by default.
    """

    def __init__(self, count: int, dim: int, *, init: Initializer | None = None) -> None:
        positive("count of SparseEmbedding", count)
        positive("dim of SparseEmbedding", dim)
        self.weight = Parameter((count, dim), init or initializers.zeros, group="sparse")

    def forward(self, ids: Any) -> Tensor:
        """ids [...] → [..., dim]. Under differentiation, ids must be one of the arguments."""
        ids = as_tensor(ids)
        frame = current_trace().frame
        if not _is_differentiated(frame):
            return ops.embedding(self.weight, ids)
        if frame.operands is None:
            raise CompileError(
                "SparseEmbedding under differentiation",
                expected="a call directly in the differentiated function",
                given="one inside a jpmhc.function",
                where=here(),
            )
        for source in frame.captured:
            if isinstance(source, SparseRows) and source.parameter is self.weight:
                if source.ids is ids:
                    return as_tensor(frame.captures[id(source)][1])
                raise CompileError(
                    "SparseEmbedding is used with two sets of ids in one step",
                    expected="one",
                    where=here(),
                )
        rows = SparseRows(self.weight, ids)
        return frame.capture(rows, rows.type)


def _is_differentiated(frame: Frame | None) -> bool:
    while frame is not None:
        if frame.operands is not None:
            return True
        frame = frame.parent
    return False
