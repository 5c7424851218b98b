# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The modules of jpmhc.torch: against jpmhc.nn, and under what PyTorch does with modules."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra jpmhc[torch] is not installed")

from torch.func import functional_call  # noqa: E402
from torch.utils.checkpoint import checkpoint as recomputed  # noqa: E402

import jpmhc  # noqa: E402
import jpmhc.torch as jt  # noqa: E402
from jpmhc import checkpoint, errors, nn, optim  # noqa: E402

N, STREAMS, CHANNELS = 6, 4, 8


class Block(torch.nn.Module):
    """A hyper-connection, a side path and an output, as a model has them."""

    def __init__(self, manifold="birkhoff"):
        super().__init__()
        self.inner = jt.HyperConnection(
            torch.nn.Linear(CHANNELS, CHANNELS), STREAMS, manifold=manifold
        )
        self.schedule = jt.TRSPSchedule(3)

    def forward(self, x):
        out = jt.sum_out(self.inner(jt.copy_in(x, STREAMS)))
        return self.schedule(2, x, out)


def block(manifold="birkhoff", seed=0):
    torch.manual_seed(seed)
    return Block(manifold)


def tokens(seed=1):
    return torch.randn(N, CHANNELS, generator=torch.Generator().manual_seed(seed))


def gradients(model, x, forward=None):
    model.zero_grad()
    loss = (model if forward is None else forward)(x).square().mean()
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()]


def assert_same(got, want):
    assert torch.equal(got[0], want[0])
    assert all(torch.equal(a, b) for a, b in zip(got[1], want[1], strict=True))


# ---- against jpmhc.nn ----


def paired(manifold, affine=False):
    """The module of jpmhc.nn and the one of PyTorch, with the values of the first."""
    ours = nn.HyperConnection(
        nn.Linear(CHANNELS, CHANNELS), CHANNELS, STREAMS, manifold, affine=affine
    ).init(3)
    module = jt.HyperConnection(
        torch.nn.Linear(CHANNELS, CHANNELS), STREAMS, manifold, affine=affine
    )
    return ours, module


@pytest.mark.parametrize("manifold", ["birkhoff", "stiefel", "permutation"])
def test_checkpoints_go_either_way(tmp_path, manifold):
    ours, module = paired(manifold, affine=True)
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, {"model": ours.state_dict()})
    checkpoint.load(path, {"model": jt.parameter_arrays(module)})
    x = np.random.default_rng(0).standard_normal((N, STREAMS, CHANNELS)).astype(np.float32)
    want = jpmhc.compile(ours, x)(x)
    # The sub-layer's product is another library's here: a few ulp.
    np.testing.assert_allclose(module(torch.from_numpy(x)).detach(), want, atol=1e-5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    checkpoint.save(path, {"model": jt.parameter_arrays(module)})
    ours.load_state_dict(checkpoint.read(path)[0]["model"])
    assert set(module.state_dict()) == set(ours.state_dict())
    for name, value in module.state_dict().items():
        assert np.array_equal(value.numpy(), ours.state_dict()[name])
    again = jt.HyperConnection(torch.nn.Linear(CHANNELS, CHANNELS), STREAMS, manifold, affine=True)
    again.load_state_dict({k: torch.tensor(v) for k, v in ours.state_dict().items()})
    assert torch.equal(again.weight, module.weight)


@pytest.mark.parametrize("manifold", ["birkhoff", "stiefel", "grassmann", "permutation", "free"])
def test_first_values_are_those_of_jpmhc_nn(manifold):
    ours, module = paired(manifold)
    assert np.array_equal(module.bias.detach(), ours.bias.array)
    assert np.array_equal(module.alpha.detach(), ours.alpha.array)
    assert module.weight.std().item() == pytest.approx(ours.weight.array.std(), rel=0.2)


def test_starts_as_the_plain_residual():
    module = jt.HyperConnection(torch.nn.Linear(CHANNELS, CHANNELS), STREAMS, "stiefel")
    x = tokens()
    out = module(jt.copy_in(x, STREAMS))
    # The dynamic part is of size 0.01 times 0.1 (cayley_alpha).
    torch.testing.assert_close(jt.mean_out(out), x + module.sublayer(x), rtol=0, atol=0.05)


def test_leading_axes_reach_the_sublayer():
    seen = []

    class Sublayer(torch.nn.Module):
        def forward(self, value, factor):
            seen.append((tuple(value.shape), factor))
            return value * factor

    module = jt.HyperConnection(Sublayer(), 2, dim=CHANNELS)
    x = torch.randn(3, 5, 2, CHANNELS)
    out = module(x, 2.0)
    assert seen == [((3, 5, CHANNELS), 2.0)] and out.shape == x.shape
    flat = module(x.reshape(15, 2, CHANNELS), factor=2.0)
    assert torch.equal(out.reshape(flat.shape), flat)


def test_side_path_and_schedule_agree_with_the_formula():
    torch.manual_seed(0)
    schedule = jt.TRSPSchedule(6)
    x, attn = torch.randn(2, 20, 4), torch.randn(2, 20, 4)
    for layer in (0, 3, 5):
        width = min(2**layer, 20)
        assert schedule.width(layer, 20) == width
        want = x + attn + schedule.gate(width, 20) * jt.triBox(x, width)
        torch.testing.assert_close(schedule(layer, x, attn), want)
    path = jt.SidePath(3, gate=schedule.gate)
    want = x + attn + schedule.gate(3, 20) * jt.triBox(x, 3)
    torch.testing.assert_close(path(x, attn), want)
    static = jt.SidePath(layer=2)
    want = x + attn + 0.5 * jt.triBox(x, 4)
    torch.testing.assert_close(static(x, attn), want)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: jt.HyperConnection(torch.nn.Linear(4, 4), 2, "stifel"), "stiefel"),
        (lambda: jt.HyperConnection(torch.nn.Linear(4, 4), 0), "n of HyperConnection"),
        (lambda: jt.HyperConnection(torch.nn.Tanh(), 2), "dim"),
        (lambda: jt.HyperConnection(torch.nn.Linear(4, 4), 2, tau=0.0), "tau"),
        (lambda: jt.HyperConnection(torch.nn.Linear(4, 4), 2, norm="batch"), "norm"),
        (lambda: jt.SidePath(0), "width"),
        (lambda: jt.SidePath(layer=-1), "layer"),
        (lambda: jt.TRSPSchedule(0), "layers"),
        (lambda: jt.TRSPSchedule(2).width(2, 8), "0 … 1"),
        (lambda: jt.AdamAtan2([torch.zeros(2)], betas=(1.0, 0.9)), "betas"),
    ],
)
def test_wrong_options(make, text):
    with pytest.raises(errors.ConfigError) as caught:
        make()
    assert text in str(caught.value)


def test_wrong_shapes_name_what_was_expected():
    module = jt.HyperConnection(torch.nn.Linear(CHANNELS, CHANNELS), STREAMS)
    with pytest.raises(errors.ShapeError, match=r"\[..., 4, 8\]"):
        module(torch.zeros(3, 2, CHANNELS))
    module.sublayer = torch.nn.Linear(CHANNELS, 2 * CHANNELS)
    with pytest.raises(errors.ShapeError, match="output of a sub-layer"):
        module(torch.zeros(3, STREAMS, CHANNELS))


# ---- what PyTorch does with modules ----


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_graph_break(dynamic):
    model, x = block(), tokens()
    want = gradients(model, x)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    assert_same(gradients(model, x, compiled), want)


def test_compiles_with_the_default_backend():
    model, x = block(), tokens()
    loss, want = gradients(model, x)
    other, got = gradients(model, x, torch.compile(model, fullgraph=True))
    torch.testing.assert_close(other, loss)
    for one, expected in zip(got, want, strict=True):
        torch.testing.assert_close(one, expected, rtol=1e-4, atol=1e-6)


def test_functions_compile_without_a_graph_break():
    def step(raw, x, logits, target):
        h = jt.project(raw, "birkhoff", rounds=5)
        y = jt.tribox(x, 3, passes=1)
        return h.sum() + y.sum() + jt.stablemax_cross_entropy(logits, target)

    arguments = (torch.randn(3, 4, 4), torch.randn(9, 2), torch.randn(5, 7), torch.arange(5))
    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*arguments), step(*arguments))


def test_autocast_keeps_projections_in_float32():
    raw = torch.randn(5, 4, 4, dtype=torch.bfloat16, requires_grad=True)
    model, x = block(), tokens()
    with torch.autocast("cpu", torch.bfloat16):
        h = jt.project(raw, "birkhoff")
        out = model(x)
        out.sum().backward()
        assert model.inner.sublayer(x).dtype == torch.bfloat16
    assert h.dtype == torch.float32 and out.dtype == torch.float32
    assert torch.equal(h, jt.project(raw.float(), "birkhoff"))
    h.sum().backward()
    assert raw.grad.dtype == torch.bfloat16
    torch.testing.assert_close(out, model(x), rtol=0.02, atol=0.02)


def test_bfloat16_streams_with_float32_parameters():
    model = jt.HyperConnection(torch.nn.Linear(CHANNELS, CHANNELS), STREAMS, "birkhoff")
    model.sublayer.to(torch.bfloat16)
    x = torch.randn(N, STREAMS, CHANNELS)
    out = model(x.to(torch.bfloat16))
    out.sum().backward()
    assert out.dtype == torch.bfloat16 and model.weight.grad.dtype == torch.float32
    model.sublayer.to(torch.float32)
    torch.testing.assert_close(out.float(), model(x), rtol=0.05, atol=0.05)


def test_functional_call():
    model, x = block(), tokens()
    doubled = {name: 2 * value.detach() for name, value in model.named_parameters()}
    out = functional_call(model, doubled, (x,))
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(doubled[name])
    assert torch.equal(out, model(x))


def test_activation_checkpointing():
    model, x = block(), tokens()
    want = gradients(model, x)
    assert_same(gradients(model, x, lambda v: recomputed(model, v, use_reentrant=False)), want)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_and_pickles(again):
    model, x = block(), tokens()
    other = again(model)
    assert_same(gradients(other, x), gradients(model, x))
    assert other.inner.weight.data_ptr() != model.inner.weight.data_ptr()


def test_frozen_parameters_get_no_gradient():
    model, x = block(), tokens()
    model.inner.weight.requires_grad_(False)
    model(x).sum().backward()
    assert model.inner.weight.grad is None and model.inner.bias.grad is not None


def test_empty_batch():
    model = block()
    x = torch.zeros(2, 0, CHANNELS)
    out = model(x)
    out.sum().backward()
    assert out.shape == x.shape
    assert all(not p.grad.any() for p in model.parameters())


# ---- AdamAtan2 ----


@pytest.mark.parametrize("correction", ["outside", "inside"])
def test_adam_atan2_agrees_with_jpmhc_optim(correction):
    options = {"lr": 0.05, "weight_decay": 0.1, "bias_correction": correction}
    x, y = np.float32(np.random.default_rng(1).standard_normal((2, 8, 4)))
    ours = nn.Linear(4, 4).init(2)
    step = jpmhc.TrainStep(
        ours, lambda a, b: ((ours(a) - b) * (ours(a) - b)).mean(), optim.AdamAtan2(**options), x, y
    )
    module = torch.nn.Linear(4, 4)
    checked = {name: torch.tensor(value) for name, value in ours.state_dict().items()}
    module.load_state_dict(checked)
    groups = [
        {"params": [module.weight]},
        {"params": [module.bias], "weight_decay": 0.0},
    ]
    optimizer = jt.AdamAtan2(groups, **options)
    for _ in range(5):
        step(x, y)
        optimizer.zero_grad()
        (module(torch.from_numpy(x)) - torch.from_numpy(y)).square().mean().backward()
        optimizer.step()
    # Five steps of 0.05 with gradients of another summation order.
    np.testing.assert_allclose(module.weight.detach(), ours.weight.array, atol=1e-4)
    np.testing.assert_allclose(module.bias.detach(), ours.bias.array, atol=1e-4)


def test_adam_atan2_resumes_bit_by_bit():
    def run(model, optimizer, steps):
        for seed in steps:
            optimizer.zero_grad()
            model(tokens(seed)).square().mean().backward()
            optimizer.step(closure=None)

    model = block()
    optimizer = jt.AdamAtan2(model.parameters(), lr=0.01)
    run(model, optimizer, (1, 2))
    saved = pickle.dumps((model.state_dict(), optimizer.state_dict()))
    run(model, optimizer, (3, 4))
    other = block(seed=5)
    resumed = jt.AdamAtan2(other.parameters(), lr=0.5)
    values, state = pickle.loads(saved)
    other.load_state_dict(values)
    resumed.load_state_dict(state)
    run(other, resumed, (3, 4))
    for a, b in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(a, b)


def test_adam_atan2_of_a_transposed_parameter():
    values, gradient = torch.randn(3, 5), torch.randn(3, 5)
    straight = torch.nn.Parameter(values.clone())
    transposed = torch.nn.Parameter(values.T.contiguous().T)
    for parameter in (straight, transposed):
        optimizer = jt.AdamAtan2([parameter], lr=0.1)
        for _ in range(3):
            parameter.grad = gradient.clone()
            optimizer.step()
    assert torch.equal(straight, transposed)


def test_adam_atan2_takes_float32_only():
    parameter = torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
    parameter.grad = torch.zeros_like(parameter)
    with pytest.raises(errors.DTypeError, match="float32"):
        jt.AdamAtan2([parameter]).step()
