# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The graph builder: ops are verified when made, and mistakes come back with their place."""

import numpy as np
import pytest

from jpmhc import _core

HERE = ("model.py", 12, 3)
VECTOR = "tensor<4xf32>"


@pytest.fixture
def graph():
    return _core.Graph()


def begin(graph, name="f", *types):
    return graph.begin_function(name, list(types or [VECTOR]), loc=HERE)


def expect(text, function, *args, **kwargs):
    with pytest.raises(_core.DiagnosticError) as caught:
        function(*args, **kwargs)
    assert text in caught.value.args[0]
    return caught.value.args[1:]


def test_op_with_inferred_type_and_location(graph):
    (x,) = begin(graph)
    (y,) = graph.op("arith.addf", [x, x], loc=HERE)
    assert (y.type, y.shape, y.dtype, y.is_tensor) == (VECTOR, (4,), "f32", True)
    graph.end_function([y])
    graph.verify()
    assert 'loc("model.py":12:3)' in graph.print(debug_info=True)


def test_dynamic_sizes_are_none(graph):
    (x,) = begin(graph, "f", "tensor<?x4xbf16>")
    assert x.shape == (None, 4) and x.dtype == "bf16"


def test_wrong_ops_leave_nothing_behind(graph):
    x, n = begin(graph, "f", VECTOR, "tensor<3xf32>")
    before = graph.print()
    where = expect("same type", graph.op, "arith.addf", [x, n], loc=HERE)
    assert where == HERE
    expect("unknown op 'arith.ad'", graph.op, "arith.ad", [x, x])
    expect("no attribute 'fast'", graph.op, "arith.addf", [x, x], {"fast": "true"})
    expect("fastmath", graph.op, "arith.addf", [x, x], {"fastmath": "1 : i32"})
    expect("in 'dense<'", graph.op, "arith.constant", [], {"value": "dense<"})
    expect("cannot infer", graph.op, "tensor.collapse_shape", [x], {"reassociation": "[[0]]"})
    expect("in 'vector<4>'", graph.op, "arith.negf", [x], {}, ["vector<4>"])
    assert graph.print() == before


def test_values_of_other_functions_and_graphs(graph):
    (x,) = begin(graph)
    (y,) = begin(graph, "inner")
    expect("belongs to another function", graph.op, "arith.addf", [x, y])
    graph.end_function([y])
    graph.op("arith.negf", [x])
    other = _core.Graph()
    begin(other)
    with pytest.raises(ValueError, match="another's"):
        other.op("arith.negf", [x])


def test_value_of_a_closed_region(graph):
    (x,) = begin(graph)
    (inside,) = graph.begin_region([VECTOR])
    graph.op("arith.addf", [inside, x])
    graph.end_region("linalg.yield", [inside])
    expect("closed region", graph.op, "arith.negf", [inside])


def test_functions_and_regions_close_in_order(graph):
    expect("got none", graph.op, "arith.constant", [], {"value": "1.0 : f32"})
    expect("got none", graph.end_function, [])
    (x,) = begin(graph)
    expect("exists already", graph.begin_function, "f", [VECTOR])
    expect("got a function", graph.end_region, "linalg.yield", [x])
    graph.begin_region([])
    expect("open region", graph.end_function, [x])
    expect("every function to be ended", graph.verify)


def test_an_abandoned_function_is_gone(graph):
    (x,) = begin(graph)
    begin(graph, "inner")
    graph.begin_region([VECTOR])
    graph.abandon_function()
    graph.end_function([x])
    graph.verify()
    assert "inner" not in graph.print()


def test_arguments_found_while_tracing(graph):
    (x,) = begin(graph)
    late = graph.add_argument("tensor<4xf32>")
    graph.set_argument_attribute(1, "jpmhc.inplace", "unit")
    (y,) = graph.op("arith.addf", [x, late])
    graph.end_function([y])
    assert "%arg1: tensor<4xf32> {jpmhc.inplace}" in graph.print()
    expect("expected an argument number", graph.set_argument_attribute, 7, "jpmhc.inplace", "unit")


def test_argument_attributes_are_known_ones(graph):
    (x,) = begin(graph)
    graph.set_argument_attribute(0, "jpmhc.note", '"early"')
    expect("expected a known attribute of the jpmhc dialect", graph.end_function, [x])


def test_constants(graph):
    begin(graph, "f")
    values = np.array([[1, 2], [3, 4]], np.float32)
    assert graph.constant("tensor<2x2xf32>", values.tobytes()).shape == (2, 2)
    graph.constant("tensor<3xi1>", np.array([1, 0, 1], bool).tobytes())
    graph.constant("tensor<0x3xf32>", b"")
    graph.constant("tensor<5xbf16>", b"\x80\x3f")
    text = graph.print()
    assert "dense<[[1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]>" in text
    assert "dense<[true, false, true]>" in text and "dense<1.000000e+00> : tensor<5xbf16>" in text
    expect("expected 16 bytes", graph.constant, "tensor<2x2xf32>", b"\0" * 12)
    expect("static tensor", graph.constant, "tensor<?xf32>", b"\0" * 4)


def test_structured_ops_check_their_operands(graph):
    x, m = begin(graph, "f", VECTOR, "tensor<3x4xf32>")
    expect("permutation of 2 axes", graph.transpose, m, [0, 0], loc=HERE)
    expect("start value", graph.reduce, m, [0], "arith.addf", "0 : i32", loc=HERE)
    maps = ["(i, j) -> (i, j)", "(i, j) -> (i)", "(i, j) -> (i)"]
    expect("iteration", graph.contract, m, x, maps, "tensor<3xf32>", loc=HERE)
    maps[1] = "(i, j) -> (j)"
    assert graph.contract(m, x, maps, "tensor<3xf32>").shape == (3,)
    assert graph.reduce(m, [1], "arith.addf", "0.0 : f32").shape == (3,)
    assert graph.broadcast(x, [0], "tensor<2x4xf32>").shape == (2, 4)
    assert graph.transpose(m, [1, 0]).shape == (4, 3)
