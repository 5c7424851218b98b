# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""value_and_grad and vjp: what they return, and for what."""

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, nn

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)


def test_gradient_of_an_argument():
    value, grad = jpmhc.value_and_grad(lambda x: (x * x).sum(), wrt=0)(X)
    assert value == pytest.approx((X.astype(np.float64) ** 2).sum(), rel=1e-6)
    np.testing.assert_allclose(grad, 2 * X, rtol=1e-6)


def test_gradients_of_parameters_by_parameter():
    model = nn.Linear(4, 2).init(1)
    value, grads = jpmhc.value_and_grad(lambda x: model(x).sum())(X)
    assert set(grads) == {model.weight, model.bias}
    np.testing.assert_allclose(grads[model.bias], [3, 3], rtol=1e-6)
    np.testing.assert_allclose(grads[model.weight], np.tile(X.sum(0), (2, 1)), rtol=1e-5)


def test_structure_of_several_arguments_and_integers():
    def f(batch, scale):
        return (batch["x"] * scale * batch["n"].astype("f32")).sum(), scale

    batch = {"x": X, "n": np.full((3, 4), 2, np.int32)}
    (_, auxiliary), (of_batch, of_scale) = jpmhc.value_and_grad(f, wrt=(0, 1))(
        batch, np.float32(3) * np.ones((), np.float32)
    )
    assert auxiliary == 3 and of_batch["n"] is None
    np.testing.assert_allclose(of_batch["x"], np.full((3, 4), 6), rtol=1e-6)
    assert of_scale == pytest.approx(2 * X.sum(), rel=1e-5)


def test_vjp_takes_cotangents():
    cotangent = np.ones((3, 2), np.float32)
    w = np.float32([[1, 2, 3, 4], [5, 6, 7, 8]])
    value, grad = jpmhc.vjp(lambda x, w: jpmhc.linear(x, w), wrt=0)(cotangent, X, w)
    np.testing.assert_allclose(value, X @ w.T, rtol=1e-5)
    np.testing.assert_allclose(grad, cotangent @ w, rtol=1e-6)


def test_stop_gradient():
    def f(x):
        return (x * jpmhc.ops.stop_gradient(x)).sum()

    _, grad = jpmhc.value_and_grad(f, wrt=0)(X)
    np.testing.assert_array_equal(grad, X)


def test_tied_block_is_differentiated_once():
    class Tied(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(4, 4)

        @jpmhc.function
        def block(self, x):
            return x + jpmhc.tanh(self.layer(x))

        def forward(self, x):
            for _ in range(3):
                x = self.block(x)
            return (x * x).mean()

    model = Tied().init(0)
    value, grads = jpmhc.value_and_grad(model)(X)
    step = 1e-2
    weight = model.layer.weight.array
    direction = np.sign(grads[model.layer.weight])
    evaluate = jpmhc.compile(model, X)
    start = weight.copy()
    weight[...] = start + step * direction
    up = evaluate(X)
    weight[...] = start - step * direction
    down = evaluate(X)
    weight[...] = start
    slope = (np.float64(up) - down) / (2 * step)
    # Central differences: the curvature's third-order term at this step is below a percent.
    assert slope == pytest.approx(np.abs(grads[model.layer.weight]).sum(), rel=2e-2)


@pytest.mark.parametrize(
    "fn, kind, text",
    [
        (lambda x: x, errors.ShapeError, "float tensor []"),
        (lambda x: (x > 0).sum(), errors.ShapeError, "float tensor []"),
    ],
)
def test_wrong_losses(fn, kind, text):
    with pytest.raises(kind) as caught:
        jpmhc.value_and_grad(fn, wrt=0)(X)
    assert text in str(caught.value)


def test_wrong_argument_number():
    with pytest.raises(errors.ShapeError, match=r"0 … 0"):
        jpmhc.value_and_grad(lambda x: x.sum(), wrt=1)(X)
    with pytest.raises(errors.ShapeError, match=r"expected a call with arguments, got \(0,\)"):
        jpmhc.value_and_grad(lambda: jpmhc.full((), 1.0), wrt=0)()


def test_integer_argument_has_no_gradient():
    with pytest.raises(errors.DTypeError, match="floating-point"):
        jpmhc.value_and_grad(lambda n: n.astype("f32").sum(), wrt=0)(np.arange(3, dtype=np.int32))
