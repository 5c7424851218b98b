# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of a differentiated hyper-connection prints, and its text is read again."""

import pathlib
import subprocess

import pytest

import jpmhc
from jpmhc import manifolds, ops

OPT = pathlib.Path(jpmhc.__file__).parents[2] / "bin" / "jpmhc-opt"
ROWS, STREAMS, CHANNELS = 5, 4, 3


@pytest.mark.skipif(not OPT.exists(), reason="jpmhc-opt is not built beside the package")
@pytest.mark.parametrize("stopped", [False, True])
@pytest.mark.parametrize("manifold", manifolds.names())
def test_a_sublayer_that_captures_traced_values(manifold, stopped):
    def loss(weight, x, gain):
        outer = jpmhc.exp(gain)
        factor = ops.stop_gradient(outer) if stopped else outer

        def sublayer(v):
            return v * factor + ops.stop_gradient(v)

        y = ops.hyper_connection(x, weight, sublayer, manifold=manifold, read_write="sigmoid")
        return (y**2).sum()

    logits = 2 * STREAMS + manifolds.get(manifold).raw_size(STREAMS)
    compiled = jpmhc.compile(
        jpmhc.value_and_grad(loss, (0, 2)),
        jpmhc.spec((logits, STREAMS * CHANNELS)),
        jpmhc.spec((ROWS, STREAMS, CHANNELS)),
        jpmhc.spec((CHANNELS,)),
    )
    for stage in compiled.stages:
        text = compiled.print_ir(stage)
        run = subprocess.run([OPT, "-"], input=text, capture_output=True, text=True)
        assert run.returncode == 0, f"{stage}: {run.stderr}"
