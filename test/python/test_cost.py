# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the compiler says that a program computes and moves."""

import numpy as np
import pytest

import jpmhc
from jpmhc import manifolds, nn, optim, profiling
from jpmhc.cost import roofline


def test_counts_of_a_small_program():
    def program(x, w):
        return jpmhc.exp(x) @ w

    compiled = jpmhc.compile(program, jpmhc.spec((6, 8)), jpmhc.spec((8, 3)))
    kernels = {kernel.name: kernel for kernel in compiled.cost().kernels}
    product = kernels.pop("gemm")
    assert (product.calls, product.flops) == (1, 2 * 6 * 8 * 3)
    assert product.bytes == product.floor == 4 * (6 * 8 + 8 * 3 + 6 * 3)
    (exponential,) = kernels.values()
    assert exponential.flops == 16 * 6 * 8 and exponential.exact
    assert exponential.bytes == exponential.floor == 2 * 4 * 6 * 8
    assert "test_cost.py:" in exponential.location


def test_functions_count_as_often_as_they_are_called():
    @jpmhc.function
    def square(x):
        return x * x + 1.0

    def costs(depth):
        def program(x):
            for _ in range(depth):
                x = square(x)
            return x

        return jpmhc.compile(program, jpmhc.spec((4, 16))).cost()

    assert costs(6).flops == 2 * costs(3).flops


def test_run_time_lengths_are_lower_bounds():
    compiled = jpmhc.compile(lambda x, width: jpmhc.ops.tribox(x, width), jpmhc.spec((2, 64, 8)), 5)
    assert not all(kernel.exact for kernel in compiled.cost().kernels)
    assert "+" in str(compiled.cost())


def test_measured_times_stand_beside():
    model = nn.Linear(32, 16)
    step = jpmhc.TrainStep(
        model.init(0),
        lambda x: jpmhc.ops.softmax_cross_entropy(model(x), jpmhc.constant(np.zeros(64, np.int32))),
        optim.AdamAtan2(lr=1e-3),
        jpmhc.spec((64, 32)),
    )
    x = np.ones((64, 32), np.float32)
    with profiling.profile() as times:
        step(x)
        step(x)
    cost = step.cost(times)
    assert all(kernel.measured is not None for kernel in cost.kernels)
    assert sum(k.measured for k in cost.kernels) <= sum(e.seconds for e in times.entries)
    lines = cost.by_line()
    assert len(lines.kernels) < len(cost.kernels)
    assert lines.flops == cost.flops and lines.floor == cost.floor


@pytest.mark.parametrize("n", [2, 4, 6])
@pytest.mark.parametrize(
    ("name", "parameters"),
    [(name, {}) for name in manifolds.names()]
    + [("birkhoff", {"rounds": 3}), ("stiefel", {"exact": True}), ("stiefel", {"steps": 5})],
)
def test_what_a_manifold_says_it_costs(name, parameters, n):
    manifold = manifolds.get(name, parameters)
    tokens = 64
    raw = jpmhc.spec((tokens, manifold.raw_size(n)))
    compiled = jpmhc.compile(lambda x: jpmhc.ops.project(x, name, n, **parameters), raw)
    counted = compiled.cost().flops / tokens
    # Leading terms only: up to this size the compiler knows every loop and counts all the rest.
    assert 0.6 * manifold.flops(n) <= counted <= 1.5 * manifold.flops(n)


def test_roofline_is_a_machines():
    machine = roofline()
    assert 1e8 < machine.bandwidth < 1e13 and 1e9 < machine.rate < 1e15
    assert 1e-9 < machine.launch < 1e-2
    assert machine.seconds(10**9, 0) == pytest.approx(1e9 / machine.bandwidth)
    assert machine.seconds(0, 0, launches=3) == pytest.approx(3 * machine.launch)
    assert roofline() is machine
