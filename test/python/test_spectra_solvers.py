# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the Green's functions of jpmhc.spectra."""

import itertools
import warnings

import numpy as np
import pytest

from jpmhc import errors, spectra


def cayley(*upper):
    skew = np.zeros((4, 4))
    skew[np.triu_indices(4, 1)] = upper
    skew -= skew.T
    return np.linalg.solve(np.eye(4) - skew, np.eye(4) + skew)


def scaled_sines():
    i, j = np.meshgrid(np.arange(4), np.arange(4), indexing="ij")
    a = np.sin(1 + 3 * i + 4 * j + i * j)
    return a * np.sqrt(4 / (a * a).sum())


IDENTITY = np.eye(4)
STOCHASTIC = np.array(
    [[0.5, 0.5, 0, 0], [0.2, 0.4, 0.3, 0.1], [0, 0, 0.7, 0.3], [0.3, 0.1, 0, 0.6]]
)
ORTHOGONAL = cayley(0.5, -0.3, 0.8, 0.2, -0.6, 0.4)
GAUSSIAN = scaled_sines()
MIXERS = {
    "identity": IDENTITY,
    "stochastic": STOCHASTIC,
    "orthogonal": ORTHOGONAL,
    "gaussian": GAUSSIAN,
}
#: G(0.5 + 0.05i) at L σ² = 0.05, from an independent float64 solution that Monte Carlo confirms.
PANEL = {
    (1, "identity"): -2.739910669650 - 1.133147206029j,
    (1, "stochastic"): 0.419197430322 - 2.162554011882j,
    (1, "gaussian"): -1.040028743057 - 1.217743692457j,
    (2, "identity"): -2.808261578368 - 0.964201681266j,
    (2, "stochastic"): 1.743953568836 - 0.469933664886j,
    (2, "gaussian"): 0.142978539393 - 0.448237856281j,
    (10, "identity"): -2.809178786738 - 0.840274713578j,
    (10, "stochastic"): 0.963773813061 - 0.209807161351j,
    (10, "gaussian"): 1.455906290680 - 0.149541888617j,
}
PANEL |= {(depth, "orthogonal"): PANEL[depth, "identity"] for depth in (1, 2, 10)}


def test_scalar_dyson_has_the_values_that_monte_carlo_confirmed():
    z = np.array([[1 + 0.1j]])
    g, roots = spectra.scalar_dyson(1.0, 0.05, z, all_roots=True)
    assert g.shape == (1, 1) and roots.shape == (1, 1, 3)
    # To the digits of an independent float64 solution.
    assert abs(g[0, 0] - (0.019230864122 - 2.711167475913j)) < 1e-12
    assert np.allclose(roots.prod(), 1 / (z * 0.05**2), rtol=1e-10)


def test_scalar_dyson_refuses_bad_input():
    with pytest.raises(errors.ConfigError, match="upper half plane"):
        spectra.scalar_dyson(1.0, 0.05, 1 - 1j)
    with pytest.raises(errors.ConfigError, match="sigma2 >= 0, got -1"):
        spectra.scalar_dyson(1.0, -1.0, 1 + 1j)
    with pytest.raises(errors.DTypeError, match="array of complex128"):
        spectra.scalar_dyson(1.0, 1.0, "x")


SCALARS = [
    (value, error)
    for values, error in (
        (("x", None, 1j), errors.DTypeError),
        (([1.0, 2.0],), errors.ShapeError),
        ((np.nan, np.inf, -1), errors.ConfigError),
    )
    for value in values
]


@pytest.mark.parametrize(("value", "error"), SCALARS)
def test_one_number_is_asked_for_by_name(value, error):
    with pytest.raises(error, match="sigma2"):
        spectra.scalar_dyson(1.0, value, 1 + 1j)
    with pytest.raises(error, match="tolerance"):
        spectra.block_chain([IDENTITY], 0.1, 1 + 1j, tolerance=value)
    if value != -1:
        with pytest.raises(error, match=r"\ba\b"):
            spectra.scalar_dyson(value, 0.1, 1 + 1j)


@pytest.mark.parametrize("value", ["x", None, 0, -1, 2.5, np.nan, True])
def test_sweeps_are_counted(value):
    with pytest.raises(errors.ConfigError, match="max_sweeps"):
        spectra.block_chain([IDENTITY], 0.1, 1 + 1j, max_sweeps=value)


def test_an_exception_of_the_progress_callback_comes_through():
    def fail(done, total):
        raise RuntimeError(f"stop at {total}")

    with pytest.raises(RuntimeError, match="stop at 3"):
        spectra.scalar_dyson(1.0, 1.0, [1j, 2j, 3j], progress=fail)


@pytest.mark.parametrize(("depth", "name"), PANEL)
def test_the_panel_has_its_values(depth, name):
    g = spectra.greens_function([MIXERS[name]] * depth, 0.05 / depth, 0.5 + 0.05j)
    # The reference is given to 12 digits.
    assert abs(g - PANEL[depth, name]) < 2e-12


def test_different_mixers_have_their_values():
    layers = [GAUSSIAN, STOCHASTIC, ORTHOGONAL @ GAUSSIAN], [0.05, 0.02, 0.1]
    g = spectra.greens_function(*layers, [0.2 + 0.02j, 0.6 + 0.02j])
    expected = [2.083299254278 - 3.219884528032j, 1.494135280810 - 1.455491489756j]
    assert np.abs(g - expected).max() < 2e-12
    assert abs(spectra.Layers.of(*layers).first_moment - 0.260460854798701) < 1e-14


def test_the_order_of_layers_matters():
    one = spectra.greens_function([GAUSSIAN, STOCHASTIC], [0.1, 0.3], 0.4 + 0.15j)
    other = spectra.greens_function([STOCHASTIC, GAUSSIAN], [0.3, 0.1], 0.4 + 0.15j)
    assert abs(one - other) > 1e-3


def test_the_limit_is_that_of_samples():
    rng = np.random.default_rng(7)
    mixers, sigma2, p, z = [STOCHASTIC, GAUSSIAN, STOCHASTIC.T], [0.1, 0.2, 0.05], 100, 0.4 + 0.1j
    traces = []
    for _ in range(8):
        j = np.eye(4 * p)
        for a, variance in zip(mixers, sigma2, strict=True):
            noise = rng.standard_normal((4 * p, 4 * p)) * np.sqrt(variance / (4 * p))
            j = (np.kron(a, np.eye(p)) + noise) @ j
        traces.append(np.mean(1 / (z - np.linalg.svd(j, compute_uv=False) ** 2)))
    # Three standard errors of the mean, and a bias of 0.65/N at most.
    allowed = 3 * np.std(traces) / np.sqrt(8) + 0.65 / (4 * p)
    assert allowed < 0.02
    assert abs(np.mean(traces) - spectra.greens_function(mixers, sigma2, z)) < allowed


def test_singular_value_densities_have_their_values():
    s = [0.3, 0.6, 1.0]
    density = spectra.singular_value_density([IDENTITY] * 2, 0.025, [0.8, 1.0, 1.2], 1e-3)
    w = np.array([0.8, 1.0, 1.2]) + 1e-3j
    g = spectra.greens_function([IDENTITY] * 2, 0.025, w**2)
    assert np.allclose(density, -2 / np.pi * (w * g).imag, rtol=1e-12)
    for eta in (1e-2, 1e-6):
        density = spectra.singular_value_density([GAUSSIAN] * 10, 0.005, s, eta)
        assert (density > 0).all()
    # Total mass 1, with a Cauchy tail of 2 η / (π s) left out.
    grid = np.linspace(0, 3, 3001)
    density = spectra.singular_value_density([GAUSSIAN], 0.05, grid, 1e-2)
    assert abs(np.trapezoid(density, grid) - 1) < 3e-3


GOOD = {"mixers": [IDENTITY], "sigma2": 0.1, "z": 1 + 1j}


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"mixers": []}, errors.ShapeError, "at least one matrix"),
        ({"mixers": IDENTITY}, errors.ShapeError, r"\[L, q, q\]"),
        ({"mixers": [np.ones((2, 3))]}, errors.ShapeError, "square matrix, got shape"),
        ({"mixers": [IDENTITY, np.eye(3)]}, errors.ShapeError, r"mixers\[1\].*as mixers\[0\]"),
        ({"mixers": [IDENTITY * np.nan]}, errors.ConfigError, "finite entries"),
        ({"mixers": [IDENTITY * 1j]}, errors.DTypeError, "float64"),
        ({"mixers": 3}, errors.DTypeError, "sequence of matrices"),
        ({"mixers": [IDENTITY * 0] * 2, "sigma2": 0}, errors.ConfigError, "does not vanish"),
        ({"sigma2": -0.1}, errors.ConfigError, "numbers ≥ 0"),
        ({"sigma2": np.inf}, errors.ConfigError, "numbers ≥ 0"),
        ({"sigma2": [0.1, 0.2]}, errors.ShapeError, "one number or 1"),
        ({"z": 1 - 1j}, errors.ConfigError, "upper half plane"),
        ({"z": 1.0}, errors.ConfigError, "upper half plane"),
        ({"z": [1j, np.nan]}, errors.ConfigError, "at index 1"),
        ({"method": "magic"}, errors.ConfigError, "magic"),
    ],
)
def test_bad_input_is_refused_by_name(change, error, text):
    with pytest.raises(error, match=text):
        spectra.greens_function(**(GOOD | change))


@pytest.mark.parametrize("eta", [0, -1, np.nan, "x", None])
def test_a_density_needs_a_positive_width(eta):
    with pytest.raises(errors.ConfigError, match="eta"):
        spectra.singular_value_density([IDENTITY], 0.1, [1.0], eta)
    with pytest.raises(errors.ConfigError, match="≥ 0"):
        spectra.singular_value_density([IDENTITY], 0.1, [-1.0], 0.1)


def test_results_do_not_depend_on_the_number_of_threads():
    from jpmhc import _spectral

    s, before = np.linspace(0.01, 2, 333), _spectral.get_num_threads()
    found = []
    for threads in (1, 2, 3):
        _spectral.set_num_threads(threads)
        found.append(spectra.singular_value_density([STOCHASTIC] * 3, 0.02, s, 1e-4))
    _spectral.set_num_threads(before)
    for one, other in itertools.pairwise(found):
        assert np.array_equal(one, other)


def test_ctrl_c_stops_a_long_computation():
    import signal
    import threading
    import time

    rng = np.random.default_rng(0)
    mixers = rng.standard_normal((10, 32, 32)) / 6
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    before = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        spectra.greens_function(mixers, 0.01, np.linspace(0.1, 1, 2000) + 1e-3j)
    assert time.monotonic() - before < 20


def test_no_warning_where_all_converges():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        spectra.greens_function([STOCHASTIC] * 50, 0.001, np.linspace(0.02, 1.1, 30) + 0.02j)


def test_one_layer_has_the_values_that_monte_carlo_confirmed():
    found = spectra.kronecker_layer(STOCHASTIC, 0.05, 0.6 + 0.1j)
    assert abs(found.value - (0.675431710422 - 1.941842239101j)) < 2e-12
    found = spectra.kronecker_layer(GAUSSIAN, 0.5, [[0.6 + 0.1j]])
    assert abs(found.value[0, 0] - (0.056503527925 - 0.925748616799j)) < 2e-12
    assert found.converged.all() and found.residual.max() < 1e-12


def test_a_layer_of_a_multiple_of_the_identity_solves_the_cubic():
    z = np.linspace(0.1, 3, 40) + 0.01j
    assert (
        np.abs(
            spectra.kronecker_layer(0.5 * IDENTITY, 1.0, z).value
            - spectra.scalar_dyson(0.5, 1.0, z)
        ).max()
        < 1e-10
    )


def test_the_block_of_one_layer_is_that_of_its_equation():
    z = 0.6 + 0.1j
    block = spectra.operator_valued([GAUSSIAN], 0.3, [z])[0]
    g = np.trace(block) / 4
    u = 1 - 0.3 * g
    right = u * np.linalg.inv(z * u * u * np.eye(4) - GAUSSIAN.T @ GAUSSIAN)
    assert np.abs(block - right).max() < 1e-10


def test_the_z1_map_is_exact_for_orthogonal_mixers_only():
    z = (np.linspace(0.02, 2.2, 60) + 1e-3j) ** 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        free = spectra.z1_map(ORTHOGONAL, 0.005, 10, z)
        scaled = spectra.free_product([2 * ORTHOGONAL, 0.3 * IDENTITY], [0.1, 0.2], z)
    chain = spectra.block_chain([ORTHOGONAL] * 10, 0.005, z)
    assert np.abs(free.value - chain.value).max() < 1e-9
    chain = spectra.block_chain([2 * ORTHOGONAL, 0.3 * IDENTITY], [0.1, 0.2], z)
    assert np.abs(scaled.value - chain.value).max() < 1e-9


def test_the_z1_map_outside_its_domain_answers_another_model_and_says_by_how_much():
    z = 0.3 + 0.05j
    with pytest.warns(spectra.DomainWarning, match=r"error .* is 0\.59 \(16%\) at z = 0.3"):
        found = spectra.z1_map(STOCHASTIC, 0.025, 2, z)
    # With Haar rotations between the layers Monte Carlo gives 1.8225 - 2.6400i.
    assert abs(found.value - (1.8224 - 2.6327j)) < 1e-4
    assert abs(spectra.greens_function([STOCHASTIC] * 2, 0.025, z) - (2.2079 - 3.0765j)) < 1e-4


def test_a_free_product_of_different_layers_tends_to_the_product_of_their_means():
    z = 1e4j
    with pytest.warns(spectra.DomainWarning):
        g = spectra.free_product([STOCHASTIC, GAUSSIAN], [0.1, 0.2], z).value
    mean = ((STOCHASTIC**2).sum() / 4 + 0.1) * (1 + 0.2)
    assert abs((z * (z * g - 1)).real - mean) < 1e-5


@pytest.mark.parametrize(
    ("mixers", "method"),
    [
        ([GAUSSIAN], "kronecker"),
        ([ORTHOGONAL, 2 * IDENTITY], "scalar"),
        ([STOCHASTIC] * 2, "chain"),
        ([STOCHASTIC, GAUSSIAN], "chain"),
    ],
)
def test_the_choice_is_explained_and_checked(mixers, method, capsys):
    z = np.linspace(0.1, 2, 20) + 0.05j
    solution = spectra.solve(mixers, 0.1, z)
    assert solution.method == method
    assert solution.error < 1e-8 and solution.second
    g = spectra.greens_function(mixers, 0.1, z, explain=True)
    text = capsys.readouterr().out
    assert f"method: {method}" in text and "why: " in text and "error: " in text
    assert np.array_equal(g, solution.value)
    assert np.abs(g - spectra.greens_function(mixers, 0.1, z, method="chain")).max() < 1e-9


def test_a_method_that_does_not_serve_is_refused():
    with pytest.raises(errors.ConfigError, match="one layer"):
        spectra.greens_function([GAUSSIAN] * 2, 0.1, 1j, method="kronecker")
    with pytest.raises(errors.ConfigError, match="orthogonal"):
        spectra.greens_function([GAUSSIAN] * 2, 0.1, 1j, method="scalar")
    with pytest.raises(errors.ConfigError, match="did you mean 'chain'"):
        spectra.greens_function([GAUSSIAN] * 2, 0.1, 1j, method="chains")


def test_a_point_that_does_not_converge_is_nan_and_named():
    found = spectra.block_chain(
        [IDENTITY] * 10, 0.005, [0.5 + 1e-6j, 100j], iteration="damped", max_sweeps=45
    )
    assert found.converged.tolist() == [False, True]
    assert np.isnan(found.value[0]) and np.isfinite(found.value[1])
    with pytest.warns(spectra.ConvergenceWarning, match=r"1 of 2 points .* nan: 0.5\+1e-06j \[0\]"):
        spectra.solvers.warn_of_failures(found.converged, np.array([0.5 + 1e-6j, 100j]))


def test_acceleration_saves_sweeps():
    z = np.linspace(0.1, 2, 20) + 1e-3j
    sweeps = {
        iteration: spectra.block_chain([GAUSSIAN] * 10, 0.005, z, iteration=iteration).sweeps
        for iteration in ("damped", "anderson", "newton")
    }
    assert sweeps["anderson"].mean() < sweeps["damped"].mean() / 2
    assert sweeps["newton"].mean() < sweeps["damped"].mean() / 2


def test_singular_layers_and_layers_without_noise():
    projector = np.diag([1.0, 1, 0, 0])
    z = 0.4 + 0.1j
    g = spectra.greens_function([projector, STOCHASTIC, projector], 0, z)
    product = projector @ STOCHASTIC @ projector
    assert abs(g - np.mean(1 / (z - np.linalg.svd(product, compute_uv=False) ** 2))) < 1e-12
    # Half of the mass lies at zero.
    g = spectra.greens_function([projector, STOCHASTIC, projector], [0, 0.1, 0], 1e-8j)
    assert abs(1e-8j * g - 0.5) < 1e-3


def matrix_argument():
    real = np.diag([1.0, 0.5, 0.2, 0.8])
    real += 0.1 * np.array([[0, 1, 0, 2], [1, 0, 3, 0], [0, 3, 0, 1], [2, 0, 1, 0]])
    imaginary = 0.3 * np.eye(4)
    imaginary[:2, :2] += [[0.05, 0.05], [0.05, 0.1]]
    imaginary[2, 2] += 0.05
    imaginary[3, 3] += 0.05
    return real + 1j * imaginary


def test_one_layer_at_a_matrix_is_that_of_samples():
    b, p, sigma2 = matrix_argument(), 100, 0.5
    found = spectra.operator_layer(GAUSSIAN, sigma2, b)
    rng = np.random.default_rng(7)
    blocks = []
    for _ in range(8):
        y = np.kron(GAUSSIAN, np.eye(p)) + rng.standard_normal((4 * p, 4 * p)) * np.sqrt(
            sigma2 / (4 * p)
        )
        inverse = np.linalg.inv(np.kron(b, np.eye(p)) - y.T @ y)
        blocks.append(np.einsum("iaja->ij", inverse.reshape(4, p, 4, p)) / p)
    allowed = 4 * np.std(blocks, axis=0).max() / np.sqrt(8) + 1 / (4 * p)
    assert allowed < 0.03
    assert np.abs(np.mean(blocks, axis=0) - found).max() < allowed


def test_one_layer_at_a_number_is_the_block_of_the_chain():
    z = 0.6 + 0.1j
    found = spectra.operator_layer(STOCHASTIC, 0.05, z * np.eye(4))
    assert np.abs(found - spectra.operator_valued([STOCHASTIC], 0.05, z)).max() < 1e-10
    assert abs(np.trace(found) / 4 - (0.675431710422 - 1.941842239101j)) < 1e-11
    with pytest.raises(errors.ConfigError, match="positive definite"):
        spectra.operator_layer(STOCHASTIC, 0.05, np.eye(4))
    with pytest.raises(errors.ShapeError, match="shape"):
        spectra.operator_layer(STOCHASTIC, 0.05, 1j * np.eye(3))
