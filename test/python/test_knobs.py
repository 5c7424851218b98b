# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of the process: traces, dumps, checks for numbers that are not finite."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import jpmhc
from jpmhc import knobs, profiling
from jpmhc.errors import ConfigError, DataError, NotFiniteError, OutputError


def program(x):
    return jpmhc.log(x) * 2.0 @ jpmhc.constant(np.ones((8, 3), np.float32))


@pytest.fixture(scope="module")
def compiled():
    return jpmhc.compile(program, jpmhc.spec((4, 8)))


def test_trace_names_kernels_and_lines(compiled, tmp_path):
    path = tmp_path / "trace.json"
    with knobs.scope(trace=path):
        compiled(np.ones((4, 8), np.float32))
    events = json.loads(path.read_text())["traceEvents"]
    assert {"program", "gemm"} <= {event["name"] for event in events}
    inner = [event for event in events if event["name"] != "program"]
    assert all("test_knobs.py:" in event["args"]["location"] for event in inner)
    whole = next(event for event in events if event["name"] == "program")
    assert sum(event["dur"] for event in inner) <= whole["dur"]
    compiled(np.ones((4, 8), np.float32))  # no longer traced
    with knobs.scope(trace=path):
        pass
    assert json.loads(path.read_text())["traceEvents"] == []


def test_trace_of_a_whole_process(tmp_path):
    path = tmp_path / "trace.json"
    code = (
        "import jpmhc, numpy as np\n"
        "f = jpmhc.compile(lambda x: x + x, jpmhc.spec((3,)))\n"
        "f(np.ones(3, np.float32))\n"
    )
    environment = {**os.environ, "JPMHC_TRACE": str(path)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)
    assert profiling.read_trace(path)


def test_trace_that_cannot_be_written(compiled, tmp_path):
    with pytest.raises(OutputError, match="cannot write the trace"):
        with knobs.scope(trace=tmp_path / "missing" / "trace.json"):
            compiled(np.ones((4, 8), np.float32))


def test_check_names_the_first_kernel(compiled):
    x = np.ones((4, 8), np.float32)
    x[2, 3] = 0
    with knobs.scope(check="finite"):
        with pytest.raises(NotFiniteError, match=r"test_knobs.py:\d+.*wrote -inf at element 19"):
            compiled(x)
        x[2, 3] = np.nan
        with pytest.raises(NotFiniteError, match="argument 0 of 'program'"):
            compiled(x)
        x[2, 3] = 1
        compiled(x)
    x[2, 3] = 0
    assert not np.isfinite(compiled(x)[2]).any()


def test_check_sees_products():
    product = jpmhc.compile(lambda a, b: a @ b, jpmhc.spec((2, 64)), jpmhc.spec((64, 64)))
    a, b = np.full((2, 64), 1e30, np.float32), np.full((64, 64), 1e30, np.float32)
    with knobs.scope(check="finite"), pytest.raises(NotFiniteError, match="'gemm' wrote inf"):
        product(a, b)


def test_dump_writes_every_stage(tmp_path):
    with knobs.scope(dump=tmp_path):
        jpmhc.compile(program, jpmhc.spec((5, 8)))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert any(name.endswith("lowering-to-kernels.mlir") for name in names)
    assert names[-1].endswith("lowering-the-host-code.mlir")
    numbers = [int(name[:4]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + len(names)))


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"chek": "finite"}, "did you mean 'check'"),
        ({"check": "infinite"}, "expected one of '', 'finite', got 'infinite'"),
        ({"trace": 3}, "expected a path, got 3"),
        ({"num_threads": "2"}, "JPMHC_NUM_THREADS in the environment"),
    ],
)
def test_bad_knobs(values, text):
    with pytest.raises(ConfigError, match=text):
        with knobs.scope(dump="somewhere", **values):
            pass
    assert knobs.get("dump") == os.environ.get("JPMHC_DUMP")


def test_scopes_nest(tmp_path):
    with knobs.scope(check="finite"):
        with knobs.scope(check=""):
            assert knobs.get("check") == ""
        assert knobs.get("check") == "finite"
    assert knobs.get("check") == os.environ.get("JPMHC_CHECK")


def test_profile_adds_up(compiled):
    with profiling.profile() as times:
        for _ in range(3):
            compiled(np.ones((4, 8), np.float32))
    assert all(kernel.calls % 3 == 0 for kernel in times.kernels)
    assert [entry.name for entry in times.entries] == ["program"]
    assert set(times.seconds_by_kernel()) == {kernel.name for kernel in times.kernels}
    assert "gemm" in str(times)


def test_foreign_trace(tmp_path):
    path = tmp_path / "trace.json"
    path.write_text("[1]")
    with pytest.raises(DataError, match="not a trace of jpmhc"):
        profiling.read_trace(path)


def test_what_runs_after_a_scope_is_not_traced(compiled, tmp_path):
    """Another program runs first, on the device that the traced one has used."""
    other = jpmhc.compile(lambda x: x + 2.0, jpmhc.spec((3,)))
    with knobs.scope(trace=tmp_path / "first.json"):
        compiled(np.ones((4, 8), np.float32))
    other(np.ones(3, np.float32))
    with knobs.scope(trace=tmp_path / "second.json"):
        pass
    assert profiling.read_trace(tmp_path / "second.json") == []


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("JPMHC_CHECK", "finit", "JPMHC_CHECK: knob check: expected one of '', 'finite'"),
        (
            "JPMHC_NUM_THREADS",
            "0",
            "JPMHC_NUM_THREADS: knob num_threads: expected an integer 1..128",
        ),
        ("JPMHC_NUM_THREADS", "many", "got 'many'"),
        ("JPMHC_NUM_THREADS", "1000", "got '1000'"),
        ("JPMHC_EMULATOR_SEED", "-1", "JPMHC_EMULATOR_SEED"),
    ],
)
def test_bad_variables_are_named(variable, value, text):
    code = "import jpmhc\ntry: jpmhc.spec((3,)); jpmhc.compile(lambda x: x + x, jpmhc.spec((3,)))\n"
    code += "except jpmhc.errors.ConfigError as error: print(error)\n"
    environment = {**os.environ, variable: value}
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=120
    )
    assert text in result.stdout, result.stderr
