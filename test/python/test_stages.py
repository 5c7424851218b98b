# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every stage of a differentiated hyper-connection prints, and its text is read again."""

import json
import pathlib
import subprocess

import pytest

import jpmhc
from jpmhc import errors, manifolds, ops
from jpmhc.compiler import Program

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


@pytest.mark.parametrize("fn", [jpmhc.sin, jpmhc.cos, lambda x: x**1.7, lambda x: x**x])
def test_a_function_that_gpus_lack_is_refused_at_the_line(fn, tmp_path):
    """Not as calls of a library that is not there."""
    pattern = r"test_stages.py:\d+:\d+: math.\w+ is not served on a GPU for elements of 'f32'"
    with pytest.raises(errors.UnsupportedError, match=pattern):
        jpmhc.compile(lambda x: fn(x), jpmhc.spec((2, 3)), target="emulator")
    program = Program()
    program.add("main", lambda x: fn(x), [jpmhc.spec((2, 3))])
    with pytest.raises(errors.UnsupportedError, match=pattern):
        program.write_ptx(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_program_without_kernels_has_empty_ptx(tmp_path):
    program = Program()
    program.add("main", lambda x: x, [jpmhc.spec((2, 3))])
    program.write_ptx(tmp_path)
    assert ".target sm_100a" in (tmp_path / "kernels.ptx").read_text()
    assert json.loads((tmp_path / "manifest.json").read_text())["kernels"] == []
    assert json.loads((tmp_path / "report.json").read_text())["kernels"] == []
