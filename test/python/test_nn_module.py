# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules: names, buffers, initialisation."""

import numpy as np
import pytest

from jpmhc import errors, nn
from jpmhc.nn import initializers


class Net(nn.Module):
    def __init__(self):
        self.first = nn.Linear(4, 6)
        self.layers = [nn.Linear(6, 6, bias=False), nn.RMSNorm(6)]
        self.tied = self.first
        self.table = nn.SparseEmbedding(5, 3)


def test_names_in_order_and_shared_once():
    names = [name for name, _ in Net().named_parameters()]
    assert names == [
        "first.weight", "first.bias", "layers.0.weight", "layers.1.gain", "table.weight",
    ]  # fmt: skip


def test_one_buffer_a_group_and_views_of_it():
    net = Net().init(0)
    assert set(net.buffers) == {"decay", "no_decay", "sparse"}
    weight = net.first.weight.array
    assert weight.base is not None and np.shares_memory(weight, net.buffers["decay"])
    net.buffers["decay"][...] = 2
    assert (weight == 2).all() and (net.layers[0].weight.array == 2).all()
    for parameter in net.parameters():
        assert parameter.array.ctypes.data % 64 == 0


def test_init_depends_on_seed_and_name_alone():
    first, again, other = Net().init(3), Net().init(3), Net().init(4)
    np.testing.assert_array_equal(first.first.weight.array, again.first.weight.array)
    assert (first.first.weight.array != other.first.weight.array).any()

    class Larger(Net):
        def __init__(self):
            self.extra = nn.Linear(2, 2)
            super().__init__()

    np.testing.assert_array_equal(Larger().init(3).first.weight.array, first.first.weight.array)


def test_truncated_normal_has_the_stated_deviation():
    draw = initializers.truncated_normal(0.5)(initializers.generator(0, "w"), (400, 500))
    # The standard error of the deviation of 200k draws is about 0.5 / sqrt(400k) = 8e-4.
    assert abs(draw.std() - 0.5) < 4e-3
    assert np.abs(draw).max() <= 2 * 0.5 / 0.8796 + 1e-3


def test_state_dict_round_trip():
    one, two = Net().init(1), Net().init(2)
    two.load_state_dict({k: v.copy() for k, v in one.state_dict().items()})
    for a, b in zip(one.parameters(), two.parameters(), strict=True):
        np.testing.assert_array_equal(a.array, b.array)


@pytest.mark.parametrize(
    "change, kind, text",
    [
        (lambda s: s.update(first=np.zeros(1)), errors.ConfigError, "unknown parameter"),
        (lambda s: s.pop("first.bias"), errors.ConfigError, "first.bias"),
        (lambda s: s.update({"first.bias": np.zeros(7, np.float32)}), errors.ShapeError, "(7,)"),
        (lambda s: s.update({"first.bias": np.zeros(6, np.int32)}), errors.DTypeError, "int32"),
    ],
)
def test_wrong_state_changes_nothing(change, kind, text):
    net = Net().init(1)
    before = {k: v.copy() for k, v in net.state_dict().items()}
    state = {k: v + 1 for k, v in before.items()}
    change(state)
    with pytest.raises(kind) as caught:
        net.load_state_dict(state)
    assert text in str(caught.value)
    for name, array in net.state_dict().items():
        np.testing.assert_array_equal(array, before[name])


def test_uninitialised_model_says_so():
    with pytest.raises(errors.ConfigError, match=r"init\(seed\)"):
        nn.Linear(2, 2).weight.array  # noqa: B018


@pytest.mark.parametrize(
    "make, kind, text",
    [
        (lambda: nn.Attention(12, 4), errors.ShapeError, "head size under RoPE"),
        (lambda: nn.Attention(10, 4), errors.ShapeError, "multiple of 4 heads"),
        (lambda: nn.Attention(16, 4, groups=3), errors.ShapeError, "multiple of 3 groups"),
        (lambda: nn.Linear(0, 3), errors.ConfigError, "got 0"),
        (lambda: nn.SidePath(-1), errors.ConfigError, "got -1"),
        (lambda: nn.SidePath(0, width=0), errors.ConfigError, "got 0"),
    ],
)
def test_wrong_layers(make, kind, text):
    with pytest.raises(kind) as caught:
        make()
    assert text in str(caught.value)
    assert "test_nn_module.py" in str(caught.value.where)
