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
        ({"mixers": [IDENTITY * 0], "sigma2": 0}, errors.ConfigError, "does not vanish"),
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
