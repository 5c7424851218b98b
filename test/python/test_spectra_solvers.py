# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the Green's functions of jpmhc.spectra."""

import numpy as np
import pytest

from jpmhc import errors, spectra


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
    with pytest.raises(errors.DTypeError, match="array of numbers"):
        spectra.scalar_dyson(1.0, 1.0, "x")


def test_an_exception_of_the_progress_callback_comes_through():
    def fail(done, total):
        raise RuntimeError(f"stop at {total}")

    with pytest.raises(RuntimeError, match="stop at 3"):
        spectra.scalar_dyson(1.0, 1.0, [1j, 2j, 3j], progress=fail)
