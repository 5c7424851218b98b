# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Generating sets, side paths, sampled products, drawn mixers, diagnostics, the command."""

from __future__ import annotations

import itertools
import json
import math
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest

from jpmhc import spectra
from jpmhc.errors import ConfigError, DataError, DTypeError, OutputError, ShapeError
from jpmhc.spectra import cli, operators, output, solvers, trsp
from jpmhc.spectra.distance import smoothed_cdf, smoothing_grid
from jpmhc.spectra.sampling import Welford

BISTOCHASTIC = spectra.panel_mixers()["bistochastic"]


def first_moment(mixers, sigma2):
    """tr_q of the recursion C ← A C Aᵀ + σ² tr_q(C) I, exact at any size."""
    c = np.eye(len(mixers[0]))
    for mixer in mixers:
        c = mixer @ c @ mixer.T + sigma2 * np.trace(c) / len(c) * np.eye(len(c))
    return np.trace(c) / len(c)


# Generating sets.

# n, K: generating and all subsets, those of odd permutations alone, largest gap, sets that tie,
# largest 1 - σ₂ (by an independent enumeration of n! × n! matrices).
TABLE = [
    (3, 2, 9, 15, 3, 0.5, 6, 0.0),
    (3, 3, 19, 20, 1, 2 / 3, 12, 1 / 3),
    (3, 4, 15, 15, 0, 0.75, 6, 0.5),
    (4, 2, 108, 276, 36, 1 - 1 / math.sqrt(2), 24, 0.0),
    (4, 3, 1572, 2024, 204, 2 / 3, 96, 0.1461490624),
    (4, 4, 9864, 10626, 492, 1 - math.sqrt(3) / 4, 144, 0.3385621722),
]


@pytest.mark.parametrize("n,count,generating,subsets,odd,gap,ties,singular", TABLE)
def test_exhaustive_search(n, count, generating, subsets, odd, gap, ties, singular):
    found = spectra.generating_sets(n, count)
    record = found.record
    assert found.method == "exhaustive"
    assert (record["generating"], record["subsets"]) == (generating, subsets)
    assert record["subsets_in_classes"] == subsets  # the classes leave no set out
    assert record["generating_all_odd"] == record["generating_without_gap"] == odd
    assert found.gap == pytest.approx(gap, abs=1e-9)
    assert found.ties == ties
    assert found.largest_singular_gap == pytest.approx(singular, abs=1e-9)


def test_all_four_permutations_of_five():
    found = spectra.generating_sets(5, 4)
    assert found.record["subsets"] == found.record["subsets_in_classes"] == 8_214_570
    assert found.record["generating_all_odd"] == found.record["generating_without_gap"]
    assert found.gap == pytest.approx(regular_gaps(found.best)[0], abs=1e-7)


def regular_gaps(basis):
    """Both gaps from the n! × n! matrix of the walk."""
    n = len(basis[0])
    elements = list(itertools.permutations(range(n)))
    number = {element: k for k, element in enumerate(elements)}
    walk = np.zeros((len(elements),) * 2)
    for element in elements:
        for step in basis:
            moved = tuple(element[step[k]] for k in range(n))
            walk[number[element], number[moved]] += 1 / len(basis)
    moduli = np.sort(np.abs(np.linalg.eigvals(walk)))[::-1]
    return moduli[0] - moduli[1], 1 - np.linalg.svd(walk, compute_uv=False)[1]


@pytest.mark.parametrize("seed", range(4))
def test_representations_have_the_spectrum_of_the_whole_walk(seed):
    rng = np.random.default_rng(seed)
    basis = {tuple(rng.permutation(4).tolist()) for _ in range(4)}
    got = spectra.spectral_gaps(sorted(basis))
    # T may be defective: an eigenvalue of the large matrix is right to the root of rounding.
    np.testing.assert_allclose(got, regular_gaps(sorted(basis)), atol=1e-6)


def test_annealing_finds_what_the_exhaustive_search_finds():
    first, second = (
        spectra.generating_sets(4, 4, method="annealing", seed=3, proposals=500) for _ in range(2)
    )
    assert first.gap == pytest.approx(1 - math.sqrt(3) / 4, abs=1e-7)
    assert first.best == second.best
    assert first.record["evaluated"] == 4 * 501 and first.ties is None


@pytest.mark.parametrize(
    "arguments",
    [
        (9, 3),
        (1, 2),
        (4, 1),
        (3, 7),
        (4.0, 2),
        (True, 2),
        (4, 3, "exhaustiv"),
        (5, 5, "exhaustive"),
    ],
)
def test_bad_searches(arguments):
    n, count, *method = arguments
    with pytest.raises(ConfigError):
        spectra.generating_sets(n, count, **({"method": method[0]} if method else {}))


def test_bad_bases():
    with pytest.raises(ConfigError, match=r"permutations of 0\.\.2"):
        spectra.spectral_gaps([[0, 1, 1]])
    with pytest.raises(ConfigError, match="once"):
        spectra.spectral_gaps([[0, 1], [0, 1]])
    with pytest.raises(ShapeError):
        spectra.spectral_gaps([])


# Side paths.


def test_tribox_and_its_adjoint():
    x, y = np.sin(np.arange(8) + 1.0), np.cos(np.arange(8) + 2.0)
    forward = [0.841470984808, 0.858427595312, 0.782494887952, 0.534628441858,
               0.067877399707, -0.364014898945, -0.461233578247, -0.134396232797]  # fmt: skip
    backward = [-1.372609449491, -0.021614632527, 0.461832898321, 0.362619910255,
                0.023246018905, -0.252276510992, -0.218640061953, -0.101236695765]  # fmt: skip
    np.testing.assert_allclose(operators.tribox(x, 3), forward, atol=1e-12)
    np.testing.assert_allclose(operators.tribox_adjoint(y, 3), backward, atol=1e-12)


def test_tribox_forgets_a_spike():
    x = np.ones(300)
    x[10] = 1e20
    # b = 16: a spike is seen by 2b - 1 rows, and by none after.
    assert (operators.tribox(x, 16)[10 + 31 :] == 1).all()


@pytest.mark.parametrize("attention", operators.ATTENTION)
@pytest.mark.parametrize("width", [1, 3, 16, 200])
def test_operator_against_its_matrix(attention, width):
    operator = operators.SidePathOperator(96, width, 0.7, attention, window=5)
    matrix = operator.dense()
    np.testing.assert_allclose(matrix.sum(1), 1, atol=1e-13)
    np.testing.assert_allclose(operator.apply_adjoint(np.eye(96)), matrix.T, atol=1e-14)
    assert not np.triu(matrix, 1).any()
    np.testing.assert_allclose(operator.eigenvalues(), np.diag(matrix), atol=1e-14)
    assert operator.frobenius_squared() == pytest.approx(np.sum(matrix**2))
    bare = operators.SidePathOperator(9, 2, 0.0, "uniform", residual=0.0)
    assert bare.frobenius_squared() == pytest.approx(np.sum(bare.dense() ** 2))
    found = operators.largest_singular_values(operator, 3)
    # A value that repeats is found once: compare with the distinct ones.
    values = np.linalg.svd(matrix, compute_uv=False)
    distinct = values[np.r_[True, np.diff(values) < -1e-9]][:3]
    np.testing.assert_allclose(found.values[: len(distinct)], distinct, atol=1e-7)
    assert found.converged.all()


def test_given_attention_and_large_contexts():
    rng = np.random.default_rng(0)
    weights = np.tril(rng.random((40, 40)))
    weights /= weights.sum(1, keepdims=True)
    operator = operators.SidePathOperator(40, 4, 0.5, weights)
    np.testing.assert_allclose(operator.eigenvalues(), np.diag(operator.dense()), atol=1e-14)
    large = operators.singular_values(operators.SidePathOperator(8192, 64, 0.5, "sink"), 2)
    assert large.method == "Golub-Kahan" and large.converged.all()
    # 1·e₁ᵀ/2.5 has the norm √T/2.5; the rest adds at most (1 + g‖M‖)/2.5.
    assert abs(large.values[0] - math.sqrt(8192) / 2.5) < (1 + 0.5 * 2.5) / 2.5


def test_long_calls_hand_on_their_results_and_errors():
    assert operators._interruptible(lambda: np.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(np.linalg.LinAlgError):
        operators._interruptible(lambda: np.linalg.inv(np.zeros((2, 2))))


@pytest.mark.parametrize(
    "options,error",
    [
        ({"tokens": 0}, ConfigError),
        ({"width": 0}, ConfigError),
        ({"gate": -1.0}, ConfigError),
        ({"gate": math.nan}, ConfigError),
        ({"attention": "sinks"}, ConfigError),
        ({"attention": np.eye(3)}, ShapeError),
        ({"attention": np.ones((8, 8)) / 8}, ConfigError),
        ({"attention": 0.5 * np.eye(8)}, ConfigError),
        ({"gate": 0.0, "residual": 0.0}, ConfigError),
    ],
)
def test_bad_operators(options, error):
    with pytest.raises(error):
        operators.SidePathOperator(**{"tokens": 8, **options})


def test_skeleton_against_its_formula_and_laplacian():
    tokens = 37
    theta = 2 * np.pi * np.arange(tokens) / tokens
    formula = 2 * sum(1 - np.cos(2**level * theta) for level in range(6))
    np.testing.assert_allclose(trsp.skeleton_spectrum(tokens), formula, atol=1e-12)
    assert trsp.algebraic_connectivity(2, as_set=True) == pytest.approx(2)
    assert trsp.algebraic_connectivity(3, as_set=True) == pytest.approx(3)
    assert trsp.algebraic_connectivity(2**20, 16) == pytest.approx(0.0513, abs=1e-4)


def test_claims_of_the_theory():
    found = trsp.side_path(128, 8, contexts=[64, 1024, 2**17])
    verdicts = [claim["holds"] for claim in found.claims]
    assert verdicts == [True] + [False] * 6
    numbers = [claim["numbers"] for claim in found.claims]
    assert numbers[0]["least"] == pytest.approx(4)
    assert numbers[3]["full_depth"] == pytest.approx(1.995, abs=1e-3)
    assert numbers[3]["eight_layers"] == pytest.approx(0.115, abs=1e-3)
    assert numbers[5]["norms"][4] == pytest.approx(20.55, abs=1e-2)
    factors = [0.1463, 0.0346, 0.0082]
    np.testing.assert_allclose(numbers[6]["factors"], factors, atol=1e-4)
    assert trsp.kernel_energy(16) == pytest.approx(513 / 12288)
    band = found.bands[4]
    assert band["width"] == 16 and band["energy"] > band["kernel_energy"]
    assert output.picture_bytes(found.figure(), "png").startswith(b"\x89PNG")
    assert "log2" in found.text()


# Sampling.


def test_welford():
    values = np.random.default_rng(0).standard_normal((50, 3)) + 1e6
    statistics = Welford()
    for value in values:
        statistics.update(value)
    np.testing.assert_allclose(statistics.mean, values.mean(0))
    error = values.std(0, ddof=1) / math.sqrt(50)
    np.testing.assert_allclose(statistics.standard_error, error, rtol=1e-6)


@pytest.mark.parametrize("haar", [False, True])
def test_sampled_moments(haar):
    mixers, sigma2 = [BISTOCHASTIC] * 3, 0.1
    found = spectra.monte_carlo(mixers, sigma2, channels=10, samples=200, seed=5, haar=haar)
    energy = np.sum(BISTOCHASTIC**2) / 4 + sigma2
    expected = energy**3 if haar else first_moment(mixers, sigma2)
    # Both are exact at any N; four standard errors, and a seed that is fixed.
    assert abs(found.moments[0] - expected) < 4 * found.moments_error[0]
    inside = np.sum(found.density) * (found.edges[1] - found.edges[0])
    assert inside + found.outside == pytest.approx(1)


def test_samples_do_not_depend_on_threads():
    first, second = (
        spectra.monte_carlo([BISTOCHASTIC] * 2, 0.05, samples=12, seed=7, threads=threads)
        for threads in (1, 3)
    )
    for name in ("values", "density", "moments", "moments_error"):
        assert (getattr(first, name) == getattr(second, name)).all(), name
    other = spectra.monte_carlo([BISTOCHASTIC] * 2, 0.05, samples=12, seed=8)
    assert (first.values != other.values).any()


def test_products_without_noise_and_with_branches():
    none = spectra.monte_carlo([BISTOCHASTIC] * 2, 0.0, channels=3, samples=2)
    exact = np.linalg.svd(BISTOCHASTIC @ BISTOCHASTIC, compute_uv=False)
    np.testing.assert_allclose(none.values[0], np.repeat(exact, 3), atol=1e-14)
    rng = np.random.default_rng(0)
    branches = rng.standard_normal((2, 8, 8))
    got = spectra.monte_carlo([BISTOCHASTIC] * 2, 0.0, channels=2, samples=1, branches=branches)
    layers = [np.kron(BISTOCHASTIC, np.eye(2)) + branch for branch in branches]
    expected = np.linalg.svd(layers[1] @ layers[0], compute_uv=False)
    np.testing.assert_allclose(got.values[0], expected, atol=1e-12)


@pytest.mark.parametrize(
    "mixers,sigma2,options,error",
    [
        ([], 0.1, {}, ShapeError),
        ([np.ones((2, 3))], 0.1, {}, ShapeError),
        ([np.eye(2), np.eye(3)], 0.1, {}, ShapeError),
        ([np.full((2, 2), np.nan)], 0.1, {}, ConfigError),
        ([np.eye(2) * 1j], 0.1, {}, DTypeError),
        ([np.eye(2)], -0.1, {}, ConfigError),
        ([np.eye(2)], [0.1, 0.2], {}, ShapeError),
        ([np.eye(2)], "much", {}, DTypeError),
        ([np.eye(2)], 0.1, {"samples": 0}, ConfigError),
        ([np.eye(2)], 0.1, {"branches": [np.eye(2)]}, ConfigError),
        ([np.eye(2)], 0.0, {"branches": [np.eye(2)]}, ShapeError),
        (np.ones((3, 1, 2, 2)), 0.1, {"samples": 4}, ShapeError),
    ],
)
def test_bad_samples(mixers, sigma2, options, error):
    with pytest.raises(error):
        spectra.monte_carlo(mixers, sigma2, **options)


# Distances.


def test_smoothing_is_a_sum_of_cauchy_kernels():
    values = np.abs(np.random.default_rng(0).standard_normal((3, 40)))
    values[:, :4] = 0
    eta = 0.05
    grid = smoothing_grid(values.max(), eta)
    distances = [grid[None, :, None] + sign * values[:, None, :] for sign in (-1, 1)]
    exact = np.arctan(np.array(distances) / eta).sum(0).mean(-1) / np.pi
    # Sharing a value by two points h = η/2 apart errs by h²/8 · max F'' = 0.0065 at most for one
    # value, of which 40 are averaged.
    np.testing.assert_allclose(smoothed_cdf(values, grid, eta), exact, atol=1e-3)


def test_distances():
    rng = np.random.default_rng(0)
    first, second = rng.random((2, 200, 20)) + 1
    noise = spectra.sample_distance(first, second, 0.01)
    moved = spectra.sample_distance(first, second + 0.1, 0.01)
    assert noise.w1 < 0.02 and noise.low <= noise.high
    assert moved.w1 == pytest.approx(0.1, abs=0.02) and moved.low < moved.w1 < moved.high

    def uniform(s, eta):
        edges = [(1, -1), (-1, -2), (1, 2), (-1, 1)]  # of the interval and of its mirror image
        return sum(sign * np.arctan((s + edge) / eta) for sign, edge in edges) / np.pi

    assert spectra.density_distance(uniform, first, 0.01).w1 < 0.02
    with pytest.raises(ConfigError):
        spectra.density_distance(uniform, first, 0.0)
    with pytest.raises(ShapeError):
        spectra.density_distance(uniform, first[0], 0.01)


def test_rotations_make_the_scalar_theory_right():
    mixers, z = [BISTOCHASTIC] * 2, np.array([0.3 + 0.05j])
    options = {"channels": 50, "samples": 30, "seed": 4}
    with pytest.warns(solvers.DomainWarning):
        scalar = spectra.z1_map(BISTOCHASTIC, 0.025, 2, z).value
    exact = spectra.greens_function(mixers, 0.025, z)
    rotated = spectra.monte_carlo(mixers, 0.025, haar=True, **options).greens_function(z)
    plain = spectra.monte_carlo(mixers, 0.025, **options).greens_function(z)
    # Sampled to about 0.01 at N = 200; the two theories are 0.6 apart.
    assert abs(rotated - scalar) < 0.06 and abs(plain - exact) < 0.06
    assert abs(scalar - exact) > 0.5


# The panel.


@pytest.fixture(scope="module")
def small_panel():
    names = ("bistochastic", "gaussian")
    mixers = {name: spectra.panel_mixers()[name] for name in names}
    return spectra.panel(samples=40, mixers=mixers, depths=[1, 2], points=60)


def test_panel_holds_theory_against_samples(small_panel):
    cells = {(cell.mixer, cell.depth): cell for cell in small_panel.cells}
    assert len(cells) == 4 and not small_panel.failures()
    for cell in cells.values():
        assert cell.distance.w1 < cell.floor.w1 + 0.001, (cell.mixer, cell.depth)
        assert cell.distance.low <= cell.distance.high
    # What the scalar theory is off by at L = 2, from an independent computation.
    assert cells["bistochastic", 2].scalar_distance.w1 == pytest.approx(0.0888, abs=0.002)
    assert cells["gaussian", 2].scalar_distance.w1 == pytest.approx(0.1123, abs=0.003)
    assert "bistochastic" in small_panel.text()


def test_panel_tells_its_progress_within_a_cell():
    told = []
    mixers = {"identity": np.eye(2)}
    spectra.panel(
        samples=10,
        channels=2,
        mixers=mixers,
        depths=[1, 2],
        points=9,
        progress=lambda *pair: told.append(pair),
    )
    assert told == [(k, 40) for k in range(1, 41)]


def test_panel_is_written_and_reproducible(small_panel, tmp_path):
    small_panel.write(tmp_path / "panel")
    names = sorted(path.name for path in (tmp_path / "panel").iterdir())
    assert names == ["panel.json", "panel.png", "panel.svg", "sampled.csv", "theory.csv"]
    assert small_panel.files()["panel.svg"] == (tmp_path / "panel/panel.svg").read_bytes()
    content = json.loads((tmp_path / "panel/panel.json").read_text())
    assert len(content["cells"]) == 4 and len(content["cells"][0]["density"]) == 60
    assert (tmp_path / "panel/theory.csv").read_text().count("\n") == 4 * 60 + 1


def test_panel_names_points_that_did_not_converge(monkeypatch, capsys):
    def density(layers, sigma2, s, eta, **options):
        return np.where(np.abs(s - 0.5) < 1e-2, np.nan, 1.0)

    monkeypatch.setattr("jpmhc.spectra.figure_one.singular_value_density", density)
    found = spectra.panel(samples=8, depths=[1], mixers={"one": np.eye(2)}, channels=4)
    assert np.isnan(found.cells[0].distance.w1)
    assert found.failures()[0].startswith("one, L = 1: ")
    assert output.picture_bytes(found.figure(), "png")
    arguments = ["panel", "--samples", "8", "--channels", "2", "--depths", "1", "--quiet"]
    assert cli.main(arguments) == 3
    assert "did not converge: 0.49" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options",
    [
        {"depths": [0]},
        {"depths": []},
        {"noise": -1.0},
        {"samples": 0},
        {"points": 1},
        {"mixers": {}},
    ],
)
def test_bad_panels(options):
    with pytest.raises(ConfigError):
        spectra.panel(**options)


# The laboratory.


def test_small_singular_values_of_products_keep_their_digits():
    from jpmhc.spectra.laboratory import _product_spectra

    drawn = np.broadcast_to(np.diag([1.0, 0.1, 0.01]), (1, 20, 3, 3))
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    got = _product_spectra(rotation @ drawn @ rotation.T)[0, -1]
    np.testing.assert_allclose(got, [1, 1e-20, 1e-40], rtol=1e-9)


# Diagnostics.


def test_diagnostics_of_arrays():
    rng = np.random.default_rng(0)
    h = rng.standard_normal((2, 30, 10)) + 0.5
    values = np.linalg.svd(h, compute_uv=False)
    rank = np.sum(values**2, -1) / values[:, 0] ** 2
    np.testing.assert_allclose(spectra.stable_rank(h), rank)
    flat = np.exp(np.mean(np.log(values), -1)) / values.mean(-1)
    np.testing.assert_allclose(spectra.spectral_flatness(h), flat)
    unit = h[0] / np.linalg.norm(h[0], axis=1, keepdims=True)
    cosines = (unit @ unit.T)[np.triu_indices(30, 1)]
    assert spectra.anisotropy(h[0]) == pytest.approx(cosines.mean())
    same = np.tile(rng.standard_normal(6), (5, 1))
    assert spectra.stable_rank(same) == pytest.approx(1)
    assert spectra.anisotropy(same) == pytest.approx(1)
    assert spectra.spectral_flatness(same) == 0
    assert spectra.spectral_flatness(np.eye(4)) == pytest.approx(1)
    matrix = rng.standard_normal((10, 10))
    gain = spectra.signal_propagation_rate(lambda x: 3 * x, matrix)
    assert gain == pytest.approx(3)


def test_randomized_svd():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((400, 300)) * np.geomspace(1, 0.01, 300)
    u, s, vt = spectra.randomized_svd(a, 5)
    np.testing.assert_allclose(s, np.linalg.svd(a, compute_uv=False)[:5], rtol=1e-5)
    np.testing.assert_allclose(u.T @ a, s[:, None] * vt, atol=1e-10)
    # Known singular values between two reflections, too large for a whole decomposition.
    values = np.geomspace(1, 0.01, 1050)
    left, right = (v / np.linalg.norm(v) for v in rng.standard_normal((2, 1050)))
    large = np.diag(values) - 2 * np.outer(left, left * values)
    large -= 2 * np.outer(large @ right, right)
    exact = np.sum(values**2)
    assert spectra.stable_rank(large) == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize(
    "h,error",
    [
        (np.ones(3), ShapeError),
        (np.ones((0, 3)), ShapeError),
        (np.full((2, 2), np.inf), ConfigError),
        (np.array([["a", "b"]]), DTypeError),
    ],
)
def test_bad_representations(h, error):
    for measure in (spectra.stable_rank, spectra.anisotropy, spectra.spectral_flatness):
        with pytest.raises(error):
            measure(h)


# The command and its files.


def test_command_prints_tables_and_json(capsys):
    assert cli.main(["generating-sets", "4", "3", "--quiet"]) == 0
    assert "0.6666666667, of 96 sets" in capsys.readouterr().out
    assert cli.main(["generating-sets", "4", "3", "--quiet", "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["kind"] == "generating-sets" and content["ties"] == 96


def test_command_samples_and_writes(tmp_path, capsys):
    arguments = ["--mixer", "bistochastic", "--depth", "2", "--samples", "9", "--channels", "5"]
    assert cli.main(["monte-carlo", *arguments, "--quiet", "-o", str(tmp_path / "out")]) == 0
    assert "9 samples of N = 20" in capsys.readouterr().out
    names = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert names == ["monte-carlo.csv", "monte-carlo.png", "monte-carlo.svg"]


def test_command_solves(tmp_path, capsys):
    np.save(tmp_path / "two.npy", np.stack([BISTOCHASTIC] * 2))
    expected = "G(0.5+0.05j) = 1.743953568836-0.469933664886j\n"
    for mixers in (["bistochastic", "--depth", "2"], [str(tmp_path / "two.npy")]):
        arguments = ["--mixer", *mixers, "--sigma2", "0.025", "--z", "0.5+0.05i"]
        assert cli.main(["greens-function", *arguments, "--quiet"]) == 0
        assert capsys.readouterr().out == expected
    arguments = ["--depth", "2", "--sigma2", "0.025", "0.025", "-o", str(tmp_path / "out")]
    assert cli.main(["singular-value-density", *arguments, "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mass"] == pytest.approx(1, abs=2e-3)
    assert (tmp_path / "out/density.csv").read_text().startswith("s,density\n")
    for wrong in (["--z", "0.5-1j"], ["--z", "1j", "--sigma2", "1", "2"]):
        assert cli.main(["greens-function", *wrong, "--quiet"]) == 1
        assert capsys.readouterr().err.startswith("error: ")


def test_command_says_edges_and_quantiles(tmp_path, capsys):
    arguments = ["spectrum", "--mixer", "gaussian", "--depth", "2", "--sigma2", "0.025", "--quiet"]
    assert cli.main([*arguments, "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.count("soft") == 8
    assert sorted(p.suffix for p in (tmp_path / "out").iterdir()) == [
        ".csv", ".json", ".png", ".svg",
    ]  # fmt: skip
    assert cli.main([*arguments, "--json", "--quantiles", "0.5", "--below", "0.1"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert len(content["intervals"]) == 4 and content["condition_number"] > 41
    assert content["quantiles"]["0.5"] == pytest.approx(0.5302681, abs=1e-6)
    for wrong in (["--quantiles", "2"], ["--below", "nan"]):
        assert cli.main([*arguments, *wrong]) == 1
        assert capsys.readouterr().err.startswith("error: --")


def test_command_explains(capsys):
    arguments = ["--mixer", "gaussian", "--depth", "2", "--quiet", "--explain"]
    assert cli.main(["greens-function", *arguments, "--z", "1+0.1j"]) == 0
    assert "only the block chain is exact" in capsys.readouterr().out
    assert cli.main(["singular-value-density", *arguments, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["method"] == "chain" and content["error"] < 1e-6


def test_command_works_without_the_compiler(tmp_path):
    package = pathlib.Path(spectra.__file__).resolve().parents[1]
    shutil.copytree(package, tmp_path / "jpmhc", ignore=shutil.ignore_patterns("*.so"))
    library = next(pathlib.Path(spectra._compiler.__file__).parent.parent.glob("_spectral*.so"))
    shutil.copy(library, tmp_path / "jpmhc")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}

    def run(*arguments):
        command = [sys.executable, "-m", "jpmhc.spectra", *arguments, "--quiet"]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    assert "0.6666666667" in run("generating-sets", "3", "3").stdout
    lacking = run("mixers")
    assert lacking.returncode == 1
    assert lacking.stderr.startswith("error: the mixer laboratory needs the compiler")
    lacking = run("monte-carlo", "--manifold", "stiefel")
    assert lacking.returncode == 1
    assert lacking.stderr.startswith("error: a drawn mixer needs the compiler")

    def python(*arguments):
        command = [sys.executable, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True)

    listed = python("-m", "jpmhc.bench", "--only", "spectra", "--list")
    assert listed.returncode == 0 and "spectra/panel" in listed.stdout.split()
    none = python("-m", "jpmhc.bench", "--only", "^dense")
    assert none.returncode == 1 and "the compiler is missing" in none.stderr
    lacking = python("-c", "import jpmhc; jpmhc.compile").stderr
    assert lacking.splitlines()[-1].startswith(
        "jpmhc.errors.MissingDependencyError: the compiler is missing"
    )


def test_command_diagnoses_files(tmp_path, capsys):
    np.save(tmp_path / "layer0.npy", np.eye(4))
    (tmp_path / "layer1.json").write_text("[[1, 0], [1, 0]]")
    files = [str(tmp_path / name) for name in ("layer0.npy", "layer1.json")]
    assert cli.main(["diagnose", *files, "--json"]) == 0
    content = json.loads(capsys.readouterr().out)
    assert content["stable_rank"] == pytest.approx([4, 1])
    assert content["anisotropy"] == pytest.approx([0, 1])
    (tmp_path / "broken.npy").write_bytes(b"no array")
    assert cli.main(["diagnose", str(tmp_path / "broken.npy")]) == 1
    assert "not an array" in capsys.readouterr().err
    with pytest.raises(DataError):
        cli._load(tmp_path / "missing.npy")


@pytest.mark.parametrize(
    "arguments,code",
    [
        (["monte-carlo", "--mixer", "bistochastik"], 1),
        (["monte-carlo", "--depth", "0"], 1),
        (["monte-carlo", "--sigma2", "-1"], 1),
        (["side-path", "--attention", "sinks"], 1),
        (["generating-sets", "4", "99"], 1),
    ],
)
def test_command_names_mistakes(arguments, code, capsys):
    assert cli.main([*arguments, "--quiet"]) == code
    assert capsys.readouterr().err.startswith("error: ")


def test_command_line_mistakes_and_help(capsys):
    for arguments in (["nothing"], []):
        with pytest.raises(SystemExit) as stop:
            cli.main(arguments)
        assert stop.value.code == 2
    for command in cli._COMMANDS:
        with pytest.raises(SystemExit) as stop:
            cli.main([command.name, "--help"])
        assert stop.value.code == 0
        assert f"jpmhc-spectra {command.name}" in capsys.readouterr().out.split("examples:")[1]


def test_files_are_written_all_or_none(tmp_path):
    output.write_files(tmp_path / "out", {"a": b"old", "b": b"old"})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))  # as a disk that is full
    try:
        with pytest.raises(OutputError, match="cannot write the results"):
            output.write_files(tmp_path / "out", {"a": b"new", "b": b"n" * 2000})
        with pytest.raises(OutputError):
            output.write_files(tmp_path / "fresh", {"b": b"n" * 2000})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["a", "b"]
    assert (tmp_path / "out/a").read_bytes() == b"old"
    assert not (tmp_path / "fresh").exists()


def test_a_folder_that_cannot_be_is_said_before_anything_is_computed(tmp_path, capsys):
    (tmp_path / "file").write_text("kept")
    for place in ("file", "file/below"):
        # The search would take minutes.
        arguments = ["generating-sets", "8", "5", "--proposals", "1000000"]
        assert cli.main([*arguments, "--quiet", "-o", str(tmp_path / place)]) == 1
        assert "expected a folder" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "kept"


def test_json_and_csv():
    content = {"z": np.array([1 + 2j]), "bad": np.array([np.nan, np.inf]), "n": np.int64(3)}
    read = json.loads(output.json_bytes("kind", content))
    assert read["z"] == [[1.0, 2.0]] and read["bad"] == ["nan", "inf"] and read["n"] == 3
    assert output.csv_bytes(["a", "b"], [[0.1, "x,y"]]) == b'a,b\n0.1,"x,y"\n'
