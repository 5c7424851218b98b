# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The custom ops of jpmhc.torch: opcheck, float64 references, errors, memory, threads."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra jpmhc[torch] is not installed")

import jpmhc  # noqa: E402
import jpmhc.torch as jt  # noqa: E402
from jpmhc import errors, manifolds  # noqa: E402
from jpmhc.conformance.cases import load_cases  # noqa: E402
from jpmhc.conformance.runner import error_of  # noqa: E402
from jpmhc.torch import _engine, _projection, _side_path  # noqa: E402
from jpmhc.torch._projection import encode  # noqa: E402
from jpmhc.torch._streams import BlockOptions, hyper_connection  # noqa: E402

OPS = torch.ops.jpmhc
VECTORS = Path(__file__).parent.parent / "data" / "vectors"
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
LAYOUTS = ("contiguous", "transposed", "sliced")


def make(*shape, dtype=torch.float32, layout="contiguous", grad=True):
    """Random numbers in a layout; the same numbers in each."""
    generator = torch.Generator().manual_seed(7)
    values = torch.randn(shape, generator=generator).to(dtype)
    if layout == "transposed" and len(shape) > 1:
        values = values.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif layout in ("transposed", "sliced") and shape:
        holder = torch.zeros([2 * size + 1 for size in shape], dtype=dtype)
        view = holder[tuple(slice(1, 1 + 2 * size, 2) for size in shape)]
        values = view.copy_(values)
    return values.requires_grad_(grad)


def read_arguments(rows, dtype, layout, grad=True, n=2, p=3):
    def real(*shape):
        return make(*shape, dtype=torch.float32, layout=layout, grad=grad)

    m = 2 * n + n * n
    x = make(rows, n, p, dtype=dtype, layout=layout, grad=grad)
    return (x, real(m, n * p), real(3), real(m), None, None)


BLOCK = (BlockOptions("birkhoff", "rounds=5", "rms", "sigmoid", post_scale=2.0).encode(),)


def samples(dtype, layout, rows):
    """Arguments of every op: name, arguments, whether it has a reverse-mode rule."""

    def real(*shape, grad=True, dtype=dtype):
        return make(*shape, dtype=dtype, layout=layout, grad=grad)

    f32 = torch.float32
    segments = torch.zeros(2, rows, dtype=torch.int32)
    target = torch.zeros(rows, dtype=torch.int64)
    gate = [real(4, dtype=f32) for _ in range(3)] + [real(dtype=f32) for _ in range(2)]
    fixed = [value.detach() for value in gate]
    maps = [real(rows, 2, 2, dtype=f32), real(rows, 2, dtype=f32)]
    fixed_maps = [value.detach() for value in maps]
    streams = make(rows, 2, 3, dtype=dtype, layout=layout)
    saved = [real(rows, 8, dtype=f32, grad=False), real(rows, 2, dtype=f32, grad=False)]
    d_maps = [real(rows, 2, dtype=f32, grad=False), real(rows, 2, 2, dtype=f32, grad=False)]
    tensors = (
        *read_arguments(rows, dtype, layout, False), *saved,
        real(rows, 3, grad=False), *d_maps, real(rows, 2, 3, grad=False),
    )  # fmt: skip
    yield "project", (real(rows, 9), 3, "birkhoff", "rounds=5")
    yield (
        "project_vjp",
        (real(rows, 9, grad=False), real(rows, 3, 3, grad=False), 3, "stiefel", ""),
    )
    yield "tribox", (real(2, rows, 3), 2, 2, segments)
    yield "tribox_transpose", (real(2, rows, 3), 2, 1, None)
    yield "side_path", (real(2, rows, 3), real(2, rows, 3), real(), 2, 2, None)
    yield (
        "side_path_vjp",
        (real(2, rows, 3, grad=False), real(2, rows, 3, grad=False), real(grad=False), 2, 2, None),
    )
    yield "coverage_gate", (2, 8, *gate)
    yield "coverage_gate_vjp", (2, 8, *fixed, torch.ones(()))
    yield "streams_read", (*read_arguments(rows, dtype, layout), *BLOCK)
    yield "streams_read_vjp", (*tensors, *BLOCK)
    yield "streams_write", (streams, torch.zeros_like(streams), *maps, real(rows, 3), 0.5)
    yield (
        "streams_write_vjp",
        (streams.detach(), *fixed_maps, real(rows, 3, grad=False), streams.detach(), 0.5),
    )
    for loss in ("softmax_cross_entropy", "stablemax_cross_entropy"):
        yield loss, (real(rows, 5), target, -100)
        yield f"{loss}_vjp", (real(rows, 5, grad=False), target, torch.ones(()), -100)
    if dtype == torch.float32:
        moments = [real(rows, 3, grad=False) for _ in range(3)]
        positive = real(rows, 3, grad=False).square()
        yield "adam_atan2_", (*moments, positive, 0.1, 1, 0.9, 0.95, 0.1, "outside")


OP_NAMES = [name for name, _ in samples(torch.float32, "contiguous", 4)]


QUICK = ("test_schema", "test_autograd_registration", "test_faketensor")
FULL = (*QUICK, "test_aot_dispatch_dynamic")


@pytest.mark.parametrize("name", OP_NAMES)
def test_opcheck(name):
    """Every element type in every layout; compiled, every type and every layout once."""
    for dtype in DTYPES:
        for layout in (*LAYOUTS, "empty"):
            rows = 0 if layout == "empty" else 4
            for other, arguments in samples(dtype, layout, rows):
                if other == name:
                    is_full = dtype == torch.float32 or layout == "contiguous"
                    op, checks = getattr(OPS, name).default, FULL if is_full else QUICK
                    torch.library.opcheck(op, arguments, test_utils=checks)


# ---- float64 references ----


def torch_dtype_of(values):
    return torch.float32 if values.is_float else torch.int64


def projection(case, raw):
    n = len(case.attrs["basis"][0]) if "basis" in case.attrs else None
    try:
        manifolds.get(case.op, case.attrs).raw_size(n or raw.shape[1])
    except errors.ConfigError as error:
        pytest.skip(f"option that the compiler does not serve: {error}")
    return jt.project(raw, case.op, n=n, **case.attrs)


def side_path(case, x, attn, w1, b1, w2, b2, beta):
    gate = jt.coverage_gate(case.attrs["width"], case.attrs["context"], w1, b1, w2, b2, beta)
    return jt.side_path(x, attn, gate, case.attrs["width"])


def block(case, x, weight, sublayer, **rest):
    options = dict(case.attrs)
    names = ("manifold", "norm", "read_write", "eps", "tau", "post_scale")
    chosen = {name: options.pop(name) for name in names if name in options}
    scale = options.pop("scale", 1.0)
    return hyper_connection(
        x,
        weight,
        lambda value: torch.nn.functional.silu(value @ sublayer.T),
        BlockOptions(parameters=encode(options), **chosen).encode(),
        scale=scale,
        **rest,
    )


def loss(case, logits, target):
    function = getattr(jt, case.op)
    return function(logits, target, ignore_index=case.attrs["ignore"])


FUNCTIONS = {
    "tribox": lambda case, x: jt.triBox(x, case.attrs["width"]),
    "box": lambda case, x: jt.tribox(x, case.attrs["width"], passes=1),
    "side_path": side_path,
    "hyper_connection": block,
    "stablemax_cross_entropy": loss,
    "softmax_cross_entropy": loss,
    **dict.fromkeys(("birkhoff", "stiefel", "grassmann", "permutation"), projection),
}


def reference_cases():
    """Every sixth case of a file that a function serves: each kind is there."""
    chosen = []
    for name in ("manifolds", "blocks", "side_path", "training"):
        cases = [c for c in load_cases(VECTORS / f"{name}.json.gz") if c.op in FUNCTIONS]
        chosen += cases[:: 1 if name == "training" else 6]
    return chosen


@pytest.mark.parametrize("case", reference_cases(), ids=lambda case: case.id)
def test_float64_reference(case):
    """Outputs and gradients within the tolerance of the case for float32."""
    inputs = {
        name: torch.tensor(value.values, dtype=torch_dtype_of(value)).requires_grad_(
            name in case.grads
        )
        for name, value in case.inputs.items()
    }
    out = FUNCTIONS[case.op](case, **inputs)
    want = {"out": case.outputs["out"]}
    got = {"out": out.detach()}
    if case.grads:
        seed = torch.tensor(case.cotangents["out"].values, dtype=torch.float32)
        gradients = torch.autograd.grad(out, [inputs[name] for name in case.grads], seed)
        got |= {f"grad.{name}": g for name, g in zip(case.grads, gradients, strict=True)}
        want |= {f"grad.{name}": value for name, value in case.grads.items()}
    for name, value in want.items():
        bound = case.tolerance["f32"]["grad" if name.startswith("grad.") else "out"]
        assert error_of(got[name].numpy(), value.values, case.scale[name]) <= bound, name


# ---- behaviour ----


def test_second_derivative_of_tribox():
    x, u = make(7, 3), make(7, 3, grad=False)
    w = make(7, 3).detach().mul(3).requires_grad_()
    (v,) = torch.autograd.grad(jt.tribox(x, 3), x, w, create_graph=True)
    (dw,) = torch.autograd.grad(v, w, u)
    torch.testing.assert_close(dw, jt.tribox(u, 3), rtol=0, atol=0)


def test_compiled_code_runs_on_the_tensors_own_memory(monkeypatch):
    x = torch.randn(2, 9, 4)
    jt.tribox(x, 3)
    seen = []
    original = _engine.run_addresses
    monkeypatch.setattr(
        _engine,
        "run_addresses",
        lambda executable, number, addresses: (
            seen.extend(addresses),
            original(executable, number, addresses),
        ),
    )
    y = jt.tribox(x, 3)
    assert seen[0] == x.data_ptr() and seen[-1] == y.data_ptr()
    jt.tribox(x.transpose(0, 1).contiguous().transpose(0, 1), 3)
    assert seen[3] != x.data_ptr()


def test_threads_of_torch_are_used_and_change_nothing():
    x = torch.randn(4096, 16)
    before = torch.get_num_threads()
    try:
        results = []
        for count in (1, 2):
            torch.set_num_threads(count)
            results.append(jt.project(x.reshape(-1, 4, 4), "birkhoff"))
            assert jpmhc.get_num_threads() == count
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


def test_python_threads_at_once():
    """Two threads compile and run the same and different functions; the lock is released."""
    inputs = [torch.randn(300 + i % 3, 4, 4) for i in range(12)]
    want = [jt.project(x, "stiefel", steps=3) for x in inputs]
    _projection._project._kernels.clear()
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda x: jt.project(x, "stiefel", steps=3), inputs))
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def test_widths_share_a_kernel():
    x = torch.randn(2, 11, 5)
    jt.tribox(x, 1)
    known = len(_side_path._tribox._kernels)
    for width in (1, 2, 7, 100):
        jt.tribox(x, width)
    assert len(_side_path._tribox._kernels) == known


def test_meta_tensors_have_shapes_only():
    x = torch.empty(5, 4, 4, device="meta")
    assert jt.project(x, "stiefel").shape == (5, 4, 4)
    with pytest.raises(errors.ShapeError):
        torch.ops.jpmhc.project(x.reshape(5, 16), 3, "stiefel", "")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: jt.tribox(torch.zeros(3, 2).double(), 2), errors.DTypeError, "got float64"),
        (lambda: jt.tribox(torch.zeros(3), 2), errors.ShapeError, "[..., T, D]"),
        (lambda: jt.tribox(torch.zeros(3, 2), 0), errors.ConfigError, "got 0"),
        (lambda: jt.tribox(torch.zeros(3, 2), 2, passes=3), errors.ConfigError, "1 or 2"),
        (
            lambda: jt.tribox(torch.zeros(3, 2), 2, segments=torch.zeros(2, dtype=torch.int32)),
            errors.ShapeError,
            "segments",
        ),
        (
            lambda: jt.side_path(torch.zeros(3, 2), torch.zeros(2, 2), torch.zeros(()), 1),
            errors.ShapeError,
            "attn",
        ),
        (lambda: jt.project(torch.zeros(2, 4, 4), "birkhof"), errors.ConfigError, "birkhoff"),
        (
            lambda: jt.project(torch.zeros(2, 4, 4), "birkhoff", round=3),
            errors.ConfigError,
            "rounds",
        ),
        (lambda: jt.project(torch.zeros(2, 4, 3), "birkhoff"), errors.ShapeError, "16"),
        (lambda: jt.project(torch.zeros(4), "birkhoff"), errors.ShapeError, "logits"),
        (
            lambda: jt.softmax_cross_entropy(torch.zeros(2, 3), torch.tensor([0, 3])),
            errors.RangeError,
            "got 3",
        ),
        (
            lambda: jt.softmax_cross_entropy(torch.zeros(2, 3), torch.zeros(2)),
            errors.DTypeError,
            "target",
        ),
        (
            lambda: jt.coverage_gate(2, 0, *[torch.zeros(3)] * 3, *[torch.zeros(())] * 2),
            errors.ConfigError,
            "got 0",
        ),
    ],
)
def test_wrong_arguments(call, error, text):
    with pytest.raises(error) as caught:
        call()
    assert text in str(caught.value)


def test_no_valid_target_gives_zero():
    logits = torch.randn(3, 4, requires_grad=True)
    value = jt.softmax_cross_entropy(logits, torch.full((3,), -100))
    value.backward()
    assert value.item() == 0 and not logits.grad.any()


def test_nan_stays_in_its_row():
    raw = torch.randn(5, 4, 4)
    raw[2, 1, 1] = np.nan
    rows = jt.project(raw, "birkhoff").isnan().flatten(1).any(1)
    assert rows.tolist() == [False, False, True, False, False]
