# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers behind a ReLU: against samples, and against independent noise."""

import numpy as np
import pytest

from jpmhc import errors, spectra
from jpmhc.spectra.bench import PANEL

STOCHASTIC, IDENTITY = PANEL["bistochastic"], np.eye(4)


def sampled(mixers, sigma2, z, p, count, seed, masked=True):
    """Mean and standard error of (1/N) tr (z - JᵀJ)⁻¹ with half of the noise's rows zero."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        j = np.eye(4 * p)
        for a in mixers:
            noise = rng.standard_normal((4 * p, 4 * p)) * np.sqrt(sigma2 / (4 * p))
            if masked:
                noise *= (rng.random(4 * p) < 0.5)[:, None]
            j = (np.kron(a, np.eye(p)) + noise) @ j
        found.append(np.mean(1 / (z - np.linalg.svd(j, compute_uv=False) ** 2)))
    return np.mean(found), np.std(found) / np.sqrt(count)


@pytest.mark.parametrize(
    ("mixers", "sigma2", "z"),
    [
        ([IDENTITY], 0.1, 1.0 + 0.05j),
        ([STOCHASTIC], 1.0, 0.3 + 0.1j),
        ([STOCHASTIC, STOCHASTIC.T], 0.5, 0.3 + 0.1j),
        ([STOCHASTIC] * 5, 0.2, 0.4 + 0.1j),
    ],
)
def test_the_limit_is_that_of_samples(mixers, sigma2, z):
    found = spectra.activated_greens_function(mixers, sigma2, z)
    assert found.converged and found.exact == (len(mixers) <= 3)
    mean, error = sampled(mixers, sigma2, z, 100, 8, 11)
    # Three standard errors of the samples and of the fibres, and a bias of 1/N.
    assert abs(found.value - mean) < 3 * (error + found.error) + 1 / 400
    # Noise of the same mean variance without the zero rows has another limit.
    independent = spectra.greens_function(mixers, sigma2 / 2, z)
    if len(mixers) == 1:
        assert abs(found.value - independent) > 3 * (error + 1 / 400)


def test_an_activation_that_is_the_identity_changes_nothing():
    z = np.array([0.3 + 0.1j, 0.5 + 0.1j])
    for values, probabilities in (([1.0], [1.0]), ([1.0, -1.0], [0.3, 0.7])):
        found = spectra.activated_greens_function(
            [STOCHASTIC, IDENTITY], 0.1, z, values=values, probabilities=probabilities
        )
        plain = spectra.greens_function([STOCHASTIC, IDENTITY], 0.1, z)
        assert np.abs(found.value - plain).max() < 1e-9


def test_bad_input():
    with pytest.raises(errors.ConfigError, match="sum 1"):
        spectra.activated_greens_function([IDENTITY], 0.1, 1j, probabilities=[0.5, 0.6])
    with pytest.raises(errors.ShapeError, match="one length"):
        spectra.activated_greens_function([IDENTITY], 0.1, 1j, values=[1.0])
    with pytest.raises(errors.ConfigError, match="multiple of 4"):
        spectra.activated_greens_function([IDENTITY], 0.1, 1j, fibres=9)
    with pytest.raises(errors.ConfigError, match="upper half plane"):
        spectra.activated_greens_function([IDENTITY], 0.1, -1j)
