# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of the limiting distribution: atoms, edges, moments, quantiles."""

import warnings

import numpy as np
import pytest

from jpmhc import errors, spectra
from jpmhc.spectra.bench import PANEL

STOCHASTIC, GAUSSIAN = PANEL["bistochastic"], PANEL["gaussian"]
PROJECTOR = np.diag([1.0, 1, 0, 0])


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_noise_alone_has_the_quarter_circle():
    found = spectra.spectrum([np.zeros((2, 2))], 1.0)
    (interval,) = found.intervals
    assert interval.lower.kind == "hard" and interval.upper.kind == "soft"
    assert abs(interval.upper.location - 2) < 1e-9 and interval.upper.error < 1e-8
    # The Catalan numbers.
    assert np.abs(found.moments - [1, 2, 5, 14]).max() < 1e-10
    s = np.array([0.0, 0.3, 1.0, 1.9, 2.5])
    inside = np.minimum(s, 2)
    cdf = (inside * np.sqrt(4 - inside**2) / 2 + 2 * np.arcsin(inside / 2)) / np.pi
    assert np.abs(found.cdf(s) - cdf).max() < 1e-9
    density = np.sqrt(4 - inside**2) / np.pi
    assert np.abs(found.density(s)[1:] - density[1:]).max() < 1e-9
    assert found.condition_number == np.inf


def test_products_of_noise_have_their_edge_and_moments():
    # For L noise layers of variance 1 the largest square is (L+1)^(L+1)/L^L.
    found = spectra.spectrum([np.zeros((1, 1))] * 3, 1.0)
    assert abs(found.largest**2 - 4**4 / 3**3) < 1e-7
    # Fuss-Catalan numbers binom(4k, k)/(3k + 1).
    assert np.allclose(found.moments, [1, 4, 22, 140], rtol=1e-10)


def test_the_edges_of_the_scalar_layer_are_those_of_its_cubic():
    a, sigma2 = 1.0, 0.05
    found = spectra.spectrum([a * np.eye(4)], sigma2)
    (interval,) = found.intervals

    # Where the cubic's discriminant in G vanishes.
    def discriminant(z):
        p = [z * sigma2**2, -2 * z * sigma2, z + sigma2 - a * a, -1]
        b, c, d, e = p
        return 18 * b * c * d * e - 4 * c**3 * e + c**2 * d**2 - 4 * b * d**3 - 27 * b**2 * e**2

    for edge in (interval.lower, interval.upper):
        z = edge.location**2
        assert discriminant(z * (1 - 1e-6)) * discriminant(z * (1 + 1e-6)) < 0
        assert edge.kind == "soft" and edge.error < 1e-6
    assert abs(found.condition_number - 1.90408790) < 1e-6


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("name", PANEL)
def test_masses_and_moments_of_the_panel(depth, name):
    found = spectra.spectrum([PANEL[name]] * depth, 0.05 / depth)
    assert found.mass_error is None or found.mass_error < 1e-9
    assert found.mean_square_error < 1e-9 and found.moment_error < 1e-10
    for interval in found.intervals:
        for edge in (interval.lower, interval.upper):
            assert edge.kind in ("soft", "hard") and edge.error < 1e-6
        # Bands that noise has not merged hold whole multiples of 1/q.
        if interval.lower.kind == "soft":
            assert abs(interval.mass * 4 - round(interval.mass * 4)) < 1e-8
    p = np.array([0.3, 0.6, 0.99])
    assert np.abs(found.cdf(found.quantile(p)) - p).max() < 1e-9


def test_higher_moments_are_those_of_samples():
    rng = np.random.default_rng(5)
    mixers, sigma2, p = [STOCHASTIC, GAUSSIAN], [0.1, 0.2], 60
    found = spectra.spectrum(mixers, sigma2)
    samples = []
    for _ in range(20):
        j = np.eye(4 * p)
        for a, variance in zip(mixers, sigma2, strict=True):
            noise = rng.standard_normal((4 * p, 4 * p)) * np.sqrt(variance / (4 * p))
            j = (np.kron(a, np.eye(p)) + noise) @ j
        squares = np.linalg.svd(j, compute_uv=False) ** 2
        samples.append([np.mean(squares**k) for k in range(1, 5)])
    error = 4 * np.std(samples, axis=0) / np.sqrt(20) + 2 / (4 * p) * found.moments
    assert (np.abs(np.mean(samples, axis=0) - found.moments) < error).all()


def test_the_mass_at_zero_comes_from_ranks():
    found = spectra.spectrum([PROJECTOR, GAUSSIAN, PROJECTOR], [0, 0.1, 0])
    assert found.atoms == [(0.0, 0.5)] and found.fraction_below(0.0) >= 0.5 - 1e-12
    assert spectra.Layers.of([PROJECTOR, np.eye(4)[::-1], PROJECTOR], 0).zero_mass == 1
    # Noise between two projectors turns one against the other.
    between = spectra.Layers.of([PROJECTOR, np.eye(4)[::-1], PROJECTOR], [0, 1e-3, 0])
    assert between.zero_mass == 0.5
    assert spectra.Layers.of([PROJECTOR] * 3, 0.1).zero_mass == 0


def test_a_quantile_at_a_gap_is_below_it():
    projector = np.diag([1.0, 1.0, 0.0, 0.0])
    found = spectra.spectrum([projector, np.eye(4)], [0, 0.05])
    assert found.zero_mass == 0.5 and found.quantile(0.5) == 0
    two = spectra.spectrum([np.diag([1.0, 3.0])], 0.01)
    lower, upper = two.intervals
    # Half of the mass is in each interval; just above a half lies the other side of the gap.
    assert abs(two.quantile(0.5) - lower.upper.location) < 1e-5
    assert two.quantile(0.5 + 1e-6) > upper.lower.location


def test_without_noise_there_are_atoms_only():
    found = spectra.spectrum([np.diag([2.0, 2, 1, 0])], 0)
    assert found.intervals == []
    assert [mass for _, mass in found.atoms] == [0.25, 0.25, 0.5]
    assert np.allclose([location for location, _ in found.atoms], [0, 1, 2])
    assert found.quantile([0.2, 0.5, 0.9]).tolist() == pytest.approx([0, 1, 2])
    assert found.cdf([0.5, 1.5, 2.0]).tolist() == [0.25, 0.5, 1.0]


def test_weak_noise_has_narrow_bands():
    found = spectra.spectrum([GAUSSIAN], 1e-6)
    assert len(found.intervals) == 4 and found.mass_error < 1e-9
    values = np.sort(np.linalg.svd(GAUSSIAN, compute_uv=False))
    for interval, value in zip(found.intervals, values, strict=True):
        assert interval.lower.location < value < interval.upper.location


def test_mass_below_what_can_be_resolved_is_known():
    # The singular values of the product but one fall to 1e-14 and below.
    mixer = np.diag([1.0, 0.01])
    found = spectra.spectrum([mixer] * 12, 1e-9)
    assert abs(found.unresolved_mass - 0.5) < 1e-6
    assert abs(found.cdf(0.5) - 0.5) < 1e-6 and found.condition_number == np.inf


def test_deep_products_are_resolved_as_far_as_rounding_lets_them():
    found = spectra.spectrum([GAUSSIAN] * 100, 0.05 / 100)
    assert found.unresolved_mass == pytest.approx(0.75, abs=1e-6) and found.resolved_from > 0
    (interval,) = found.intervals
    assert interval.mass == pytest.approx(0.25, abs=1e-8) and found.mean_square_error < 1e-9
    for edge in (interval.lower, interval.upper):
        assert edge.kind == "soft" and edge.error < 1e-6
    assert found.quantile(0.5) == 0 and found.condition_number == np.inf


def test_progress_goes_from_0_to_100_once():
    told = []
    spectra.spectrum([STOCHASTIC] * 2, 0.025, progress=lambda *pair: told.append(pair))
    percents = [done for done, total in told if total == 100]
    assert len(percents) == len(told) and percents == sorted(percents) and percents[-1] == 100


def test_points_that_rounding_keeps_from_converging_count_where_they_are_good_enough():
    singular = STOCHASTIC.copy()
    singular[3] = singular[2]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", spectra.SpectrumWarning)
        found = spectra.spectrum([singular] * 5, [0.1, 0, 0, 0.1, 0])
    # Quantiles of 8 samples at N = 400, whose standard error is about 2 %.
    sampled = {0.3: 2.95e-5, 0.35: 6.44e-5, 0.4: 1.08e-4, 0.49: 2.41e-4}
    np.testing.assert_allclose(found.quantile(list(sampled)), list(sampled.values()), rtol=0.05)


def test_bad_input():
    found = spectra.spectrum([GAUSSIAN], 0.05)
    with pytest.raises(errors.ConfigError, match="fractions"):
        found.quantile(0.0)
    with pytest.raises(errors.ConfigError, match="≥ 0"):
        found.cdf(-1.0)
    with pytest.raises(errors.ConfigError, match="vanish"):
        spectra.spectrum([np.zeros((2, 2))], 0)
    with pytest.raises(errors.ShapeError):
        spectra.spectrum([], 0)


def test_the_bench_agrees_with_plain_numpy():
    from jpmhc.spectra import bench

    for cell in bench.panel_cells(7)[:8]:
        ours = bench.our_density(cell)
        assert np.abs(ours - bench.numpy_density(cell)).max() < 1e-8
        assert np.abs(ours - bench.chain_density(cell)).max() < 1e-8
