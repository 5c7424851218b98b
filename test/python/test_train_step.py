# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""TrainStep: one compiled step against NumPy, its state, its checks, resumption."""

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, nn, optim

RNG = np.random.default_rng(0)
X = RNG.standard_normal((8, 4)).astype(np.float32)
Y = RNG.standard_normal((8, 3)).astype(np.float32)


def regression(model):
    def loss(x, y):
        difference = model(x) - y
        return (difference * difference).mean()

    return loss


def make(optimizer=None, **options):
    model = nn.Linear(4, 3).init(1)
    optimizer = optimizer or optim.AdamW(lr=0.05, weight_decay=0.1)
    step = jpmhc.TrainStep(model, regression(model), optimizer, X, Y, **options)
    return model, step


def adamw(p, g, m, v, t, lr, decay):
    p = p * (1 - lr * decay)
    m = 0.9 * m + 0.1 * g
    v = 0.999 * v + 0.001 * g * g
    return p - lr * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8), m, v


def test_steps_agree_with_numpy():
    model, step = make()
    w, b = model.weight.array.astype(np.float64), model.bias.array.astype(np.float64)
    moments = [np.zeros_like(a) for a in (w, w, b, b)]
    for t in range(1, 6):
        difference = X @ w.T + b - Y
        loss = (difference**2).mean()
        gw, gb = 2 * difference.T @ X / Y.size, 2 * difference.sum(0) / Y.size
        assert step(X, Y) == pytest.approx(loss, rel=1e-5)
        w, *moments[:2] = adamw(w, gw, *moments[:2], t, 0.05, 0.1)
        b, *moments[2:] = adamw(b, gb, *moments[2:], t, 0.05, 0.0)
    # Each step moves by about lr; five of them in float32 leave a few ulp of 0.05.
    np.testing.assert_allclose(model.weight.array, w, atol=2e-6)
    np.testing.assert_allclose(model.bias.array, b, atol=2e-6)


def test_loss_falls_and_learning_rate_is_an_argument():
    model, step = make()
    first = step(X, Y, lr=0.0)
    assert step(X, Y, lr=0.0) == first
    for _ in range(50):
        last = step(X, Y, lr=0.05)
    assert last < 0.7 * first and step.step == 52


def test_gradients_are_one_buffer_a_group():
    model, step = make()
    step(X, Y)
    assert step.gradients["decay"].size == model.buffers["decay"].size
    assert np.count_nonzero(step.gradients["decay"]) == 12


def test_clipping():
    model, step = make(max_grad_norm=1e-3)
    step(X, Y)
    total = np.sqrt(sum((g.astype(np.float64) ** 2).sum() for g in step.gradients.values()))
    assert step.grad_norm == pytest.approx(total, rel=1e-5)


def test_auxiliary_results():
    model = nn.Linear(4, 3).init(1)

    def loss(x, y):
        out = model(x)
        return ((out - y) ** 2).mean(), {"mean": out.mean()}

    step = jpmhc.TrainStep(model, loss, optim.AdamW(), X, Y)
    want = (X @ model.weight.array.T + model.bias.array).mean()
    _, auxiliary = step(X, Y)
    assert auxiliary["mean"] == pytest.approx(want, abs=1e-6)


def test_carried_state_is_detached_and_kept():
    model = nn.Linear(4, 4, bias=False).init(1)

    def loss(state, x):
        new = jpmhc.tanh(model(x) + state)
        return (new * new).mean(), new

    step = jpmhc.TrainStep(model, loss, optim.AdamW(lr=0.0), X, carry=np.zeros((8, 4), np.float32))
    state = np.zeros((8, 4))
    for _ in range(3):
        state = np.tanh(X @ model.weight.array.T + state)
        assert step(X) == pytest.approx((state**2).mean(), rel=1e-5)
        np.testing.assert_allclose(step.carry[0], state, atol=1e-6)


def test_carried_state_must_keep_its_type():
    model = nn.Linear(4, 4).init(1)
    with pytest.raises(errors.ShapeError, match="carried state"):
        jpmhc.TrainStep(
            model, lambda s, x: (model(x).mean(), x[:1]), optim.AdamW(), X,
            carry=np.zeros((8, 4), np.float32),
        )  # fmt: skip


class Puzzles(nn.Module):
    def __init__(self):
        self.table = nn.SparseEmbedding(10, 4)
        self.out = nn.Linear(4, 3)

    def forward(self, ids, y):
        return ((self.out(self.table(ids)) - y) ** 2).mean()


def test_sparse_table_moves_only_the_rows_of_the_batch():
    model = Puzzles().init(2)
    model.table.weight.array[...] = 1.0
    ids = np.array([3, 5, 3, 7, 5, 3, 3, 3], np.int32)
    step = jpmhc.TrainStep(
        model, model, optim.AdamW(lr=0.0), ids, Y,
        sparse_optimizer=optim.SignSGD(lr=0.25, weight_decay=0.2),
    )  # fmt: skip
    w, b = model.out.weight.array.copy(), model.out.bias.array.copy()
    step(ids, Y)
    difference = np.ones((8, 4)) @ w.T + b - Y
    rows = np.zeros((10, 4))
    np.add.at(rows, ids, 2 * difference @ w / Y.size)
    want = np.ones((10, 4))
    used = [3, 5, 7]
    want[used] = 0.95 - 0.25 * np.sign(rows[used])
    np.testing.assert_allclose(model.table.weight.array, want, rtol=1e-6)


def test_id_out_of_the_table_stops_before_anything_runs():
    model = Puzzles().init(2)
    ids = np.zeros(8, np.int32)
    step = jpmhc.TrainStep(model, model, optim.AdamW(), ids, Y, sparse_optimizer=optim.SignSGD())
    before = {name: array.copy() for name, array in model.state_dict().items()}
    ids[4] = 10
    with pytest.raises(errors.RangeError, match=r"0 … 9, got 10"):
        step(ids, Y)
    assert step.step == 0
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_sparse_table_needs_an_optimizer():
    model = Puzzles().init(2)
    with pytest.raises(errors.ConfigError, match="sparse_optimizer"):
        jpmhc.TrainStep(model, model, optim.AdamW(), np.zeros(8, np.int32), Y)


@pytest.mark.parametrize("rate", [float("nan"), float("inf"), -0.1, "fast", True])
def test_wrong_learning_rate(rate):
    model, step = make()
    before = model.weight.array.copy()
    with pytest.raises(errors.ConfigError, match="learning rate"):
        step(X, Y, lr=rate)
    np.testing.assert_array_equal(model.weight.array, before)


@pytest.mark.parametrize(
    "build",
    [
        lambda: optim.AdamW(lr=float("nan")),
        lambda: optim.AdamW(betas=(0.9, 1.0)),
        lambda: optim.AdamAtan2(weight_decay=-1),
        lambda: optim.SignSGD(lr=-1),
    ],
)
def test_wrong_optimizers(build):
    with pytest.raises(errors.ConfigError):
        build()


def test_wrong_batch():
    _, step = make()
    with pytest.raises(errors.ShapeError, match=r"expected \(8, 4\)"):
        step(X[:4], Y)
    with pytest.raises(errors.DTypeError, match="structure"):
        step(X)


def test_resume_is_bit_by_bit_the_same(tmp_path):
    _, step = make(optim.AdamAtan2(lr=0.02))
    for _ in range(3):
        step(X, Y)
    step.save(tmp_path / "c.safetensors", config={"note": "test"})
    straight = [step(X, Y) for _ in range(4)]
    model, other = make(optim.AdamAtan2(lr=0.02), seed=9)
    metadata = other.load(tmp_path / "c.safetensors")
    assert metadata.config == {"note": "test"} and other.step == 3
    assert [other(X, Y) for _ in range(4)] == straight


def test_steps_are_equal_for_any_number_of_threads():
    before = jpmhc.get_num_threads()
    losses = []
    for threads in (1, 2, 4):
        jpmhc.set_num_threads(threads)
        _, step = make()
        losses.append([step(X, Y) for _ in range(5)])
    jpmhc.set_num_threads(before)
    assert losses[0] == losses[1] == losses[2]
