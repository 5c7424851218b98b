# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tracing, functions, arguments: what becomes of a Python program."""

import numpy as np
import pytest

import jpmhc
from jpmhc import errors, nn


class Tied(nn.Module):
    """One block applied several times."""

    def __init__(self, dim, depth):
        self.layer = nn.Linear(dim, dim)
        self.depth = depth

    @jpmhc.function
    def block(self, x):
        return x + jpmhc.tanh(self.layer(x))

    def forward(self, x):
        for _ in range(self.depth):
            x = self.block(x)
        return x


def test_tied_block_is_one_function_and_computes_right():
    model = Tied(6, 3).init(1)
    x = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    compiled = jpmhc.compile(model, x)
    text = compiled.print_ir()
    assert text.count("func.func private") == 1
    assert text.count("call @") == 3
    want = x.astype(np.float64)
    for _ in range(3):
        want = want + np.tanh(want @ model.layer.weight.array.T + model.layer.bias.array)
    assert np.abs(compiled(x) - want).max() < 1e-5


def test_parameters_are_seen_without_a_copy():
    model = nn.Linear(3, 2).init(0)
    x = np.ones((1, 3), np.float32)
    compiled = jpmhc.compile(model, x)
    before = compiled(x)
    model.bias.array[...] = 5
    np.testing.assert_allclose(compiled(x), before + 5, rtol=1e-6)


def test_function_is_keyed_by_types_and_values():
    @jpmhc.function
    def scaled(x, factor):
        return x * factor

    def f(x, y):
        return scaled(x, 2.0) + scaled(x, 2.0), scaled(x, 3.0), scaled(y, 2.0)

    compiled = jpmhc.compile(f, jpmhc.spec((2,)), jpmhc.spec((3,)))
    assert compiled.print_ir().count("func.func private") == 3


def test_recursion_is_an_error():
    @jpmhc.function
    def loop(x):
        return loop(x)

    with pytest.raises(errors.CompileError, match="calls itself"):
        jpmhc.compile(loop, jpmhc.spec((2,)))


def test_value_of_another_function_is_an_error():
    kept = []

    @jpmhc.function
    def leak(x):
        kept.append(x * 2)
        return x

    def f(x):
        return leak(x) + kept[0]

    with pytest.raises(errors.CompileError, match="outside the function that made it"):
        jpmhc.compile(f, jpmhc.spec((2,)))


def test_captured_outer_value_becomes_an_argument():
    def f(x):
        outer = x * 3

        @jpmhc.function
        def inner(y):
            return y + outer

        return inner(x)

    x = np.float32([1, 2])
    np.testing.assert_array_equal(jpmhc.compile(f, x)(x), 4 * x)


def test_error_in_user_code_leaves_no_trace_behind():
    def f(x):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        jpmhc.compile(f, jpmhc.spec((2,)))
    with pytest.raises(errors.CompileError, match="traced values"):
        jpmhc.exp(np.float32(1))


def test_nested_containers():
    def f(batch, pair):
        return {"sum": batch["a"] + pair[0], "b": (pair[1],)}

    a = np.float32([1, 2])
    got = jpmhc.compile(f, {"a": a}, (a, a))({"a": a}, (a, 3 * a))
    np.testing.assert_array_equal(got["sum"], 2 * a)
    np.testing.assert_array_equal(got["b"][0], 3 * a)


def test_locations_reach_the_ir():
    def f(x):
        return x * 2

    line = f.__code__.co_firstlineno + 1
    text = jpmhc.compile(f, jpmhc.spec((2,))).print_ir(debug_info=True)
    assert f'test_tracing.py":{line}:' in text


@pytest.fixture(scope="module")
def doubled():
    return jpmhc.compile(lambda x: x * 2, jpmhc.spec((2, 3), name="image"))


@pytest.mark.parametrize(
    "value, kind, text",
    [
        (np.zeros((3, 2), np.float32), errors.ShapeError, "expected (2, 3), got (3, 2)"),
        (np.zeros((2, 3)), errors.DTypeError, "got float64"),
        (np.zeros((3, 2), np.float32).T, errors.LayoutError, "not contiguous"),
        (np.zeros((2, 3), ">f4"), errors.LayoutError, "byte order"),
        ([[0.0] * 3] * 2, errors.JpmhcError, ""),
    ],
)
def test_wrong_arguments(doubled, value, kind, text):
    with pytest.raises(kind) as caught:
        doubled(value)
    assert text in str(caught.value)


def test_wrong_argument_is_named(doubled):
    with pytest.raises(errors.ShapeError, match="argument image"):
        doubled(np.zeros((1,), np.float32))


def test_declared_id_range():
    compiled = jpmhc.compile(lambda i: i * 2, jpmhc.spec((3,), "i32", high=10, allowed=-100))
    compiled(np.array([0, 9, -100], np.int32))
    with pytest.raises(errors.RangeError, match=r"at \(1,\): expected 0 … 9, got 10"):
        compiled(np.array([0, 10, 3], np.int32))


def test_unknown_target_suggests():
    with pytest.raises(errors.ConfigError, match="did you mean 'emulator'"):
        jpmhc.compile(lambda x: x, jpmhc.spec((1,)), target="emulatr")


def test_results_do_not_depend_on_threads():
    x = np.random.default_rng(1).standard_normal((300, 40)).astype(np.float32)
    compiled = jpmhc.compile(lambda v: jpmhc.exp(v @ v.T).sum(axis=0), x)
    results = []
    before = jpmhc.get_num_threads()
    for threads in (1, 2, 4):
        jpmhc.set_num_threads(threads)
        results.append(compiled(x))
    jpmhc.set_num_threads(before)
    assert all(np.array_equal(r, results[0]) for r in results)


def test_one_value_returned_twice():
    """Each result is an array of its own, though one buffer is computed."""
    x = np.arange(6, dtype=np.float32)
    first, second = jpmhc.compile(lambda x: (x + 1.0, x + 1.0), x)(x)
    np.testing.assert_array_equal(first, x + 1)
    np.testing.assert_array_equal(second, x + 1)
    assert not np.shares_memory(first, second)


@pytest.mark.parametrize("target", ["cpu", "emulator"])
@pytest.mark.parametrize(
    "name", ["memcpy", "sinf", "elementwise_0", "kernels", "jpmhcLaunch", "main"]
)
def test_any_name_of_a_function(name, target):
    """Symbols that compiled code has or calls are not the user's functions'."""

    def program(x):
        y = jpmhc.tanh(x) if target == "emulator" else jpmhc.sin(x)
        return y * y

    program.__name__ = name
    x = np.linspace(-1, 1, 9, dtype=np.float32)
    want = np.tanh(x) if target == "emulator" else np.sin(x)
    got = jpmhc.compile(program, x, target=target)(x)
    np.testing.assert_allclose(got, want**2, rtol=1e-5)  # a few ulp of polynomials


def test_a_value_of_an_abandoned_function_can_still_be_shown():
    kept = []

    def broken(x):
        kept.append(x + 1.0)
        raise KeyError("a mistake of the user's")

    with pytest.raises(KeyError):
        jpmhc.compile(broken, jpmhc.spec((2, 3)))
    assert repr(kept[0]) == "Tensor(tensor<2x3xf32>)" and kept[0].value.shape == (2, 3)
    with pytest.raises(errors.CompileError, match="outside the function that made it"):
        jpmhc.compile(lambda x: x + kept[0], jpmhc.spec((2, 3)))


@pytest.mark.parametrize("value", [lambda x: x, lambda x: nn.Linear(3, 2).weight])
def test_a_format_of_numbers_is_refused_at_the_line(value):
    with pytest.raises(errors.UnsupportedError, match=r"test_tracing.py:\d+.*the format '.3f'"):
        jpmhc.compile(lambda x: f"{value(x):.3f}", jpmhc.spec((2, 3)))


def test_a_traced_value_can_be_written_out():
    seen = []
    jpmhc.compile(lambda x: (seen.append(f"{x}"), x)[1], jpmhc.spec((2, 3)))
    assert seen == ["Tensor(tensor<2x3xf32>)"]
