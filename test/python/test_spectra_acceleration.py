# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each accelerator helps by a number."""

import numpy as np
import pytest

from jpmhc import errors, spectra

MIXERS, SIGMA2 = [np.array([[1.2, 0.3], [-0.2, 0.7]])] * 3, 0.1
S = np.linspace(0.5, 1.0, 6)


def density(eta):
    return spectra.singular_value_density(MIXERS, SIGMA2, S, eta)


def test_richardson_removes_the_smoothing():
    # Nearly on the axis, where the solver is accurate to 1e-9 or better.
    limit = density(1e-10)
    widths = [0.02 / 2**k for k in range(4)]
    raw = np.abs(density(widths[-1]) - limit).max()
    extrapolated = np.abs(spectra.richardson([density(eta) for eta in widths]) - limit).max()
    assert raw > 1e-3
    assert extrapolated < raw / 100


def test_richardson_is_exact_for_polynomials():
    values = [3 + 2 * eta - eta**2 for eta in (0.4, 0.2, 0.1)]
    assert abs(spectra.richardson(values) - 3) < 1e-14
    with pytest.raises(errors.ShapeError):
        spectra.richardson([])
    with pytest.raises(errors.ShapeError):
        spectra.richardson([np.zeros(2), np.zeros(3)])


def test_aaa_continues_to_the_axis():
    # G at 60 points well above the axis, and the density on it.
    w = np.linspace(0.2, 1.6, 60) + 0.05j
    t = w * spectra.greens_function(MIXERS, SIGMA2, w**2)
    rational = spectra.aaa(w, t, tolerance=1e-10)
    limit = density(1e-10)
    raw = np.abs(density(0.05) - limit).max()
    continued = np.abs(-2 / np.pi * rational(S).imag - limit).max()
    assert rational.error < 1e-9 * np.abs(t).max()
    assert continued < raw / 100


def test_aaa_finds_a_rational_function():
    z = np.exp(2j * np.pi * np.arange(40) / 40)
    rational = spectra.aaa(z, 1 / (z - 1.5) + 2 / (z + 2j))
    assert len(rational.nodes) <= 4 and rational.error < 1e-12
    assert abs(rational(0.3) - (1 / (0.3 - 1.5) + 2 / (0.3 + 2j))) < 1e-12
    assert rational(z[3]) == pytest.approx(1 / (z[3] - 1.5) + 2 / (z[3] + 2j))
    with pytest.raises(errors.ShapeError):
        spectra.aaa([1j], [1.0])
    with pytest.raises(errors.ConfigError):
        spectra.aaa([1j, 2j], [1.0, np.nan])


def test_hutch_plus_plus_is_unbiased_and_reports_its_variance():
    rng = np.random.default_rng(3)
    basis, _ = np.linalg.qr(rng.standard_normal((60, 60)))
    matrix = basis * (1 / np.arange(1, 61) ** 1.5) @ basis.T
    matrix[0, 1] += 0.5
    estimates = [
        spectra.hutch_plus_plus(lambda x: matrix @ x, 60, 24, seed=seed, dtype=np.float64)
        for seed in range(400)
    ]
    values = np.array([estimate.value for estimate in estimates])
    error = values.std(ddof=1) / 20
    assert abs(values.mean() - np.trace(matrix)) < 4 * error
    # The variance that each reports is that of the estimates.
    reported = np.mean([estimate.variance for estimate in estimates])
    assert 0.5 < reported / values.var(ddof=1) < 2
    # Hutchinson's estimate with as many products varies more.
    signs = rng.integers(0, 2, (400, 60, 24)) * 2.0 - 1
    plain = np.einsum("kij,kij->k", signs, matrix @ signs) / 24
    assert values.var() < plain.var() / 3
    assert estimates[0].products == 24


def test_hutch_plus_plus_is_exact_with_enough_products():
    matrix = np.diag(np.arange(5.0))
    found = spectra.hutch_plus_plus(lambda x: matrix @ x, 5, 30, dtype=np.float64)
    assert abs(found.value - 10) < 1e-12 and found.variance == 0
    with pytest.raises(errors.ConfigError):
        spectra.hutch_plus_plus(lambda x: x, 5, 3)
