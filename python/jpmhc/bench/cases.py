# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a case of the benchmark is, and how a differentiated function becomes one."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import jpmhc
from jpmhc.dtypes import NUMPY

OURS = "jpmhc"
SEED = 0


@dataclass
class Prepared:
    """Something ready to be timed.

    Attributes:
        run: does the work once; returns what `outputs` understands.
        outputs: the results of a run as f32 arrays, in the order that all implementations share.
        compile_s: seconds from a function to something that runs, nothing of it known before.
        cached_s: the same when an earlier process has compiled it; None where that is not known.
    """

    run: Callable[[], Any]
    outputs: Callable[[Any], list[np.ndarray]]
    compile_s: float = 0.0
    cached_s: float | None = None


Maker = Callable[[str], Prepared]
"""From an element type ("f32", "bf16", "f16") to something that runs."""


@dataclass
class Case:
    """A piece of work that several implementations do.

    Attributes:
        name: family/what/sizes.
        ours: our implementation.
        peers: called when they are wanted, as it imports them: makers by name and mode.
        bytes_floor: the bytes that f32 operands take when each is moved once, as if every
            intermediate stayed in a cache; half of it for the 16-bit types.
        flops: multiplications and additions of the matrix products.
        target: the ratio to the best peer that we want; None where nothing is promised.
        tolerance: largest difference between implementations, relative to the largest number of
            an output, that f32 arithmetic in another order explains.
        dtypes: element types that the case is meant for.
        torch: whether the peers need it.
    """

    name: str
    ours: Maker
    peers: Callable[[], Mapping[str, Maker]] = field(default=dict)
    bytes_floor: int = 0
    flops: int = 0
    target: float | None = None
    tolerance: float = 1e-4
    dtypes: tuple[str, ...] = ("f32",)
    torch: bool = True


@dataclass
class Growth:
    """How a time grows with a size.

    Attributes:
        name: what grows with what.
        sizes: ascending.
        case: the case of a size.
        linear: whether growth beyond the first power would be a fault.
    """

    name: str
    sizes: Sequence[int]
    case: Callable[[int], Case]
    linear: bool = True


@contextmanager
def fresh_cache() -> Iterator[None]:
    """An empty folder as the compilation cache."""
    before = os.environ.get("JPMHC_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["JPMHC_CACHE_DIR"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["JPMHC_CACHE_DIR"]
            else:
                os.environ["JPMHC_CACHE_DIR"] = before


def timed_compile(compile_once: Callable[[], Any]) -> tuple[Any, float, float]:
    """What `compile_once` returns, and its seconds without and with a compilation cache."""
    with fresh_cache():
        times = []
        for _ in range(2):
            began = time.perf_counter()
            result = compile_once()
            times.append(time.perf_counter() - began)
    return result, times[0], times[1]


def widened(array: Any) -> np.ndarray:
    """As f32."""
    return np.asarray(array).astype(np.float32)


@dataclass
class Differentiated:
    """A function and its gradients by some of its arguments, for a random cotangent.

    Attributes:
        function: ours, on traced tensors.
        inputs: random f32 arrays.
        wrt: numbers of the arguments to differentiate by.
    """

    function: Callable[..., Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    wrt: tuple[int, ...]

    def arrays(self, shape_of_output: Callable[..., tuple[int, ...]]) -> list[np.ndarray]:
        """The cotangent and the inputs, the same for every implementation."""
        generator = np.random.default_rng(SEED)
        inputs = self.inputs(generator)
        shape = shape_of_output(*inputs)
        return [generator.standard_normal(shape, np.float32), *inputs]

    def ours(self, dtype: str) -> Prepared:
        """Compiled by us."""
        cotangent, *inputs = self.arrays(self._shape)
        given = [array.astype(NUMPY[dtype]) for array in (cotangent, *inputs)]
        pullback = jpmhc.vjp(self.function, wrt=self.wrt)
        compiled, cold, cached = timed_compile(lambda: jpmhc.compile(pullback, *given))

        def outputs(result: Any) -> list[np.ndarray]:
            value, gradients = result
            return [widened(a) for a in (value, *(gradients if len(self.wrt) > 1 else [gradients]))]

        return Prepared(lambda: compiled(*given), outputs, cold, cached)

    def _shape(self, *inputs: np.ndarray) -> tuple[int, ...]:
        shapes: list[tuple[int, ...]] = []

        def probe(*traced: Any) -> Any:
            result = self.function(*traced)
            shapes.append(tuple(result.shape))
            return result

        from jpmhc.compiler import Program

        Program().add("probe", probe, inputs)
        return shapes[0]

    def peer(self, function: Callable[..., Any], compiled: bool) -> Maker:
        """Of a function on torch tensors."""
        from jpmhc.bench.peers.support import differentiated

        def make(dtype: str) -> Prepared:
            return differentiated(function, self.arrays(self._shape), self.wrt, dtype, compiled)

        return make


def differentiated_case(
    name: str,
    work: Differentiated,
    peers: Callable[[], Mapping[str, Callable[..., Any]]],
    **about: Any,
) -> Case:
    """A case of a differentiated function.

    Args:
        peers: functions on torch tensors by formulation and mode; a mode that ends in "compile"
            has been compiled.
        about: further fields of `Case`.
    """

    def makers() -> dict[str, Maker]:
        return {
            mode: work.peer(function, mode.endswith("compile"))
            for mode, function in peers().items()
        }

    return Case(name, work.ours, makers, **about)
