# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""jpmhc.torch.wrap: compiled jpmhc functions and modules inside PyTorch."""

import copy
import pickle

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra jpmhc[torch] is not installed")

import jpmhc  # noqa: E402
import jpmhc.torch as jt  # noqa: E402
from jpmhc import errors, nn, ops  # noqa: E402

OPS = torch.ops.jpmhc


def gate(a, b):
    return jpmhc.silu(a) * b


def gated(a, b):
    return torch.nn.functional.silu(a) * b


def pair(dtype=torch.float32, grad=True):
    torch.manual_seed(0)
    return [torch.randn(3, 4).to(dtype).requires_grad_(grad) for _ in range(2)]


def mlp():
    class Mlp(nn.Module):
        def __init__(self):
            self.layers = [nn.Linear(4, 8), nn.Linear(8, 4)]

        def forward(self, x):
            return self.layers[1](jpmhc.silu(self.layers[0](x)))

    return Mlp().init(0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_function_and_its_gradients(dtype):
    a, b = pair(dtype)
    got, want = jt.wrap(gate)(a, b), gated(a, b)
    tolerance = {"rtol": 0.02, "atol": 0.02} if dtype == torch.bfloat16 else {}
    torch.testing.assert_close(got, want, **tolerance)
    seed = torch.randn(3, 4).to(dtype)
    for one, other in zip(
        torch.autograd.grad(got, (a, b), seed), torch.autograd.grad(want, (a, b), seed), strict=True
    ):
        torch.testing.assert_close(one, other, **tolerance)


def test_numerical_gradient():
    """Central differences of the function itself."""
    a, b = pair()
    function = jt.wrap(lambda x, y: (gate(x, y) * x).sum())
    (slope,) = torch.autograd.grad(function(a, b), a)
    direction = torch.randn(3, 4)
    with torch.no_grad():
        step = 1e-2
        change = (function(a + step * direction, b) - function(a - step * direction, b)) / step / 2
    # Truncation of step² and rounding of 1e-7 / step.
    assert change.item() == pytest.approx((slope * direction).sum().item(), rel=2e-3, abs=2e-3)


def test_several_results_and_integers():
    table = torch.randn(5, 3, requires_grad=True)
    ids = torch.tensor([1, 4, 1])

    def look_up(rows, which):
        chosen = ops.embedding(rows, which)
        return {"rows": chosen, "sum": (chosen.sum(), which)}

    rows, total, same = jt.wrap(look_up)(table, ids)
    assert torch.equal(rows, table[ids]) and torch.equal(same, ids)
    total.backward()
    assert table.grad.sum(1).tolist() == [0, 6, 0, 0, 3]
    with pytest.raises(errors.RangeError, match="got 7"):
        jt.wrap(look_up)(table, torch.tensor([1, 7, 1]))


def test_module_shares_its_parameters():
    ours = mlp()
    module = jt.wrap(ours)
    x = torch.randn(6, 4)
    names = dict(ours.named_parameters())
    assert [name for name, _ in module.named_parameters()] == list(names)
    want = jpmhc.compile(ours, x.numpy())(x.numpy())
    assert np.array_equal(module(x).detach(), want)
    first = module(x).square().mean()
    optimizer = jt.AdamAtan2(module.parameters(), lr=0.01)
    for _ in range(10):
        optimizer.zero_grad()
        loss = module(x).square().mean()
        loss.backward()
        optimizer.step()
    assert loss < first
    for name, parameter in module.named_parameters():
        assert np.array_equal(parameter.detach(), names[name].array)


def test_gradients_of_parameters():
    ours = mlp()
    module = jt.wrap(ours)
    x = torch.randn(6, 4)
    module(x).square().mean().backward()
    pullback = jpmhc.value_and_grad(lambda v: (ours(v) * ours(v)).mean())
    _, want = jpmhc.compile(pullback, x.numpy())(x.numpy())
    for parameter, expected in zip(module.parameters(), want.values(), strict=True):
        torch.testing.assert_close(parameter.grad, torch.from_numpy(np.array(expected)))


@pytest.mark.parametrize("again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies(again):
    module = jt.wrap(gate)
    other = again(module)
    del module
    a, b = pair()
    torch.testing.assert_close(other(a, b), gated(a, b))


def test_opcheck():
    function = jt.wrap(gate)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        arguments = ([value.T.contiguous().T for value in pair(dtype)], 2, function._number)
        for _ in range(2):
            torch.library.opcheck(OPS.call.default, (pair(dtype), 2, function._number))
        torch.library.opcheck(OPS.call.default, arguments)
        fixed = pair(dtype, grad=False)
        torch.library.opcheck(OPS.call_vjp.default, (fixed, fixed[:1], 2, function._number))


def test_compiles_without_a_graph_break():
    function = jt.wrap(gate)
    a, b = pair()
    compiled = torch.compile(lambda x, y: function(x, y) + 1, fullgraph=True, backend="aot_eager")
    out = compiled(a, b)
    torch.testing.assert_close(out, gated(a, b) + 1)
    (slope,) = torch.autograd.grad(out.sum(), a)
    torch.testing.assert_close(slope, torch.autograd.grad(gated(a, b).sum(), a)[0])


def test_wrong_uses():
    with pytest.raises(errors.DTypeError, match="a tensor"):
        jt.wrap(gate)(torch.zeros(2), 3.0)
    with pytest.raises(errors.ConfigError, match="a function"):
        jt.wrap(3)
    with pytest.raises(errors.ConfigError, match="init"):
        jt.wrap(nn.Linear(2, 2))
    linear = nn.Linear(2, 2).init(0)
    with pytest.raises(errors.CompileError, match="wrap\\(fn, module\\)"):
        jt.wrap(lambda x: linear(x))(torch.zeros(3, 2))
    assert jt.wrap(lambda x: linear(x), linear)(torch.zeros(3, 2)).shape == (3, 2)
    with pytest.raises(errors.ShapeError):
        jt.wrap(gate)(torch.zeros(2, 3), torch.zeros(3, 2))
