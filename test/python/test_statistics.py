# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bootstrap intervals, tests of pairs, tables and curves."""

import csv
import io
import math
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpmhc.errors import ConfigError, DataError, OutputError
from jpmhc.eval import curves
from jpmhc.eval import statistics as stats
from jpmhc.eval.tables import ResultTable

# Efron and Tibshirani, An Introduction to the Bootstrap, table 14.1: spatial test data A.
SPATIAL = [48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24]
SPATIAL += [26, 30, 41]

numbers = st.floats(-100, 100).map(lambda x: round(x, 2))


def variance(samples):
    return samples.var(axis=-1)


# ---- bootstrap ----


@pytest.mark.parametrize(
    ("method", "low", "high"), [("percentile", 100.8, 233.9), ("bca", 115.8, 259.6)]
)
def test_intervals_of_the_spatial_data_are_those_of_the_book(method, low, high):
    """Table 14.2, made with 2000 resamples, whose quantiles scatter by 2 or 3."""
    found = stats.bootstrap(SPATIAL, variance, confidence=0.9, method=method, resamples=20_000)
    assert found.estimate == pytest.approx(171.5, abs=0.05)
    assert found.low == pytest.approx(low, abs=4) and found.high == pytest.approx(high, abs=4)


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_intervals_hold_the_truth_as_often_as_they_say(method):
    """Of 400 samples 90 % within 4 standard deviations of chance, less what n = 30 costs."""
    samples = np.random.default_rng(0).normal(size=(400, 30))
    found = [
        stats.bootstrap(row, confidence=0.9, method=method, resamples=400, seed=k)
        for k, row in enumerate(samples)
    ]
    share = np.mean([interval.low <= 0 <= interval.high for interval in found])
    assert 0.83 < share < 0.96


@given(st.lists(numbers, min_size=1, max_size=12), st.sampled_from(["bca", "percentile"]))
def test_an_interval_lies_within_the_values_and_is_deterministic(values, method):
    found = stats.bootstrap(values, method=method, resamples=200)
    assert min(values) - 1e-9 <= found.low <= found.high <= max(values) + 1e-9
    assert found == stats.bootstrap(values, method=method, resamples=200)
    assert found.n == len(values) and found.estimate == pytest.approx(np.mean(values))


def test_equal_values_have_no_spread():
    found = stats.bootstrap([0.25] * 5)
    assert (found.low, found.high, found.half_width) == (0.25, 0.25, 0.0)
    assert stats.bootstrap([3.0]).high == 3.0


def test_extreme_statistics_keep_the_interval_within_the_resamples():
    """The largest value is as biased as can be: the correction must not divide by nothing."""
    values = [0.0] * 30 + [1000.0]
    found = stats.bootstrap(values, lambda s: s.max(axis=-1), confidence=0.999999, resamples=200)
    assert 0 <= found.low <= found.high <= 1000


def test_large_samples_are_resampled_in_parts():
    values = np.random.default_rng(1).normal(size=30_000)
    found = stats.bootstrap(values, method="percentile", resamples=200)
    assert found.half_width == pytest.approx(1.96 / math.sqrt(30_000), rel=0.25)


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: stats.bootstrap([]), DataError, "at least 1"),
        (lambda: stats.bootstrap([1, math.nan]), DataError, "finite ones, got nan at 1"),
        (lambda: stats.bootstrap([1, 2], method="bcs"), ConfigError, "did you mean 'bca'"),
        (lambda: stats.bootstrap([1, 2], confidence=1), ConfigError, "confidence"),
        (lambda: stats.bootstrap([1, 2], resamples=1), ConfigError, "resamples"),
        (lambda: stats.bootstrap([1, 2], seed=-1), ConfigError, "seed"),
        (lambda: stats.sign_test([1], [1, 2]), DataError, "got 1 and 2"),
        (lambda: stats.permutation_test([1], [math.inf]), DataError, "finite"),
        (lambda: stats.permutation_test([1], [2], resamples=9), ConfigError, "resamples"),
        (lambda: stats.paired_seeds(-1), ConfigError, "seeds"),
        (lambda: stats.compare(("a", {}), ("b", {})), DataError, "at least 1"),
    ],
)
def test_bad_input_is_a_typed_error(action, error, message):
    with pytest.raises(error, match=message):
        action()


# ---- tests of pairs ----


@given(st.lists(st.tuples(numbers, numbers), min_size=1, max_size=8))
def test_exact_tests_against_all_signs(pairs):
    a, b = zip(*pairs, strict=True)
    differences = np.array(a) - np.array(b)
    all_signs = np.array(list(product([1, -1], repeat=len(pairs))))
    sums = np.abs(all_signs @ differences)
    expected = np.mean(sums >= abs(differences.sum()) - 1e-9)
    assert stats.permutation_test(a, b) == pytest.approx(expected)
    kept = differences[differences != 0]
    above, n = int((kept > 0).sum()), len(kept)
    extreme = [
        k for k in range(n + 1) if abs(2 * k - n) >= abs(2 * above - n)
    ]  # as far from the middle
    assert stats.sign_test(a, b) == pytest.approx(sum(math.comb(n, k) for k in extreme) / 2**n)


def test_sign_test_of_a_book_case():
    """9 of 10 above: 2 (1 + 10) / 1024."""
    assert stats.sign_test([1] * 9 + [0], [0] * 9 + [1]) == pytest.approx(22 / 1024)
    assert stats.sign_test([1, 2], [1, 2]) == 1.0


def test_random_permutations_agree_with_all_of_them(monkeypatch):
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.4, 1, 14), rng.normal(0, 1, 14)
    exact = stats.permutation_test(a, b)
    monkeypatch.setattr(stats, "_EXACT_UP_TO", 0)
    drawn = stats.permutation_test(a, b, resamples=40_000)
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 40_000))
    assert stats.permutation_test([1.0] * 30, [0.0] * 30, resamples=1000) == 1 / 1001  # never 0


def test_p_values_are_even_where_nothing_differs():
    rng = np.random.default_rng(3)
    p = [stats.permutation_test(*rng.normal(size=(2, 8))) for _ in range(400)]
    assert np.mean(np.array(p) <= 0.1) == pytest.approx(0.1, abs=0.06)  # 4 standard deviations


# ---- comparisons ----


def test_a_comparison_of_paired_seeds():
    a = {7: 0.52, 3: 0.48, 5: 0.50}
    b = {3: 0.40, 5: 0.44, 7: 0.45}
    found = stats.compare(("stiefel", a), ("birkhoff", b))
    assert found.seeds == (3, 5, 7)
    assert found.difference.estimate == pytest.approx(0.07)
    assert found.sign_p == found.permutation_p == 0.25
    assert found.title == "stiefel against birkhoff, n = 3 seeds"
    assert "difference +0.07, 95 % interval [+0.06, +0.08]" in str(found)


def test_few_seeds_are_said_in_the_title():
    found = stats.compare(("a", {0: 1.0, 1: 2.0}), ("b", {0: 0.0, 1: 0.5}))
    assert found.title == "a against b, n = 2 seeds; fewer than 3 seeds"


def test_unpaired_seeds_are_named():
    with pytest.raises(DataError, match="got seed 2 of b alone"):
        stats.compare(("a", {0: 1.0}), ("b", {0: 1.0, 2: 1.0}))


def test_paired_seeds_are_different_and_grow():
    seeds = stats.paired_seeds(100)
    assert len(set(seeds)) == 100 and all(0 <= seed < 2**32 for seed in seeds)
    assert stats.paired_seeds(10) == seeds[:10]
    assert not set(stats.paired_seeds(100, base=1)) & set(seeds)
    assert stats.paired_seeds(0) == []


# ---- tables ----

ROWS = {
    "stiefel_1": {"pass@1": [0.30, 0.32, 0.35, 0.31], "a|b": [0.1, 0.2, 0.3, 0.4]},
    "birkhoff": {"pass@1": [0.25, 0.26, 0.27, 0.28]},
}


def test_a_table_as_markdown():
    lines = ResultTable("ARC", ROWS, resamples=500).markdown().splitlines()
    assert lines[0] == "**ARC (mean ± half of the 95 % BCa bootstrap interval, n = 4 seeds)**"
    assert lines[2] == r"|  | pass@1 | a\|b |" and lines[3] == "|---|---:|---:|"
    assert lines[4].startswith("| stiefel_1 | 0.320 ± 0.0")
    assert lines[5].endswith("| – |")


def test_a_table_as_latex():
    text = ResultTable("100% & more", ROWS, style="interval", digits=2, resamples=500).latex()
    assert r"\caption{100\% \& more (mean and ends of the 95 \% BCa" in text
    assert r"stiefel\_1 & 0.32 [0.3" in text and r"\begin{tabular}{lrr}" in text
    assert text.count("&") == text.count(r"\&") + 2 * 3  # a header and two rows of three cells
    assert text.count(r"\begin") == text.count(r"\end") == 2


def test_a_table_as_csv():
    table = ResultTable("ARC", ROWS, method="percentile", resamples=500)
    rows = list(csv.DictReader(io.StringIO(table.csv())))
    assert [(row["model"], row["metric"], row["n"]) for row in rows] == [
        ("stiefel_1", "pass@1", "4"),
        ("stiefel_1", "a|b", "4"),
        ("birkhoff", "pass@1", "4"),
    ]
    assert float(rows[0]["mean"]) == pytest.approx(0.32)
    assert float(rows[0]["low"]) == table.cells["stiefel_1"]["pass@1"].low
    assert rows[0]["method"] == "percentile"


def test_a_table_says_few_seeds_and_shows_no_spread_of_one():
    table = ResultTable("x", {"a": {"m": [0.5]}, "b": {"m": [0.1, 0.2, 0.4]}})
    assert table.title.endswith("n = 1 to 3 seeds; fewer than 3 seeds)")
    assert "| a | 0.500 |" in table.markdown()
    assert "fewer" not in ResultTable("x", {"a": {"m": [1, 2]}}, unit="instances").title


@pytest.mark.parametrize(
    ("rows", "options", "error", "message"),
    [
        ({}, {}, DataError, "t: no scores"),
        ({"a": {"m": []}}, {}, DataError, "a, m: bad values"),
        ({"a": {"m": [math.nan]}}, {}, DataError, "a, m: .*nan at 0"),
        ({"a": {"m": [1]}}, {"style": "bars"}, ConfigError, "unknown style"),
        ({"a": {"m": [1]}}, {"digits": -1}, ConfigError, "digits"),
        ({"a": {"m": [1]}}, {"method": "x"}, ConfigError, "unknown method"),
    ],
)
def test_bad_tables_are_typed_errors(rows, options, error, message):
    with pytest.raises(error, match=message):
        ResultTable("t", rows, **options)


# ---- pictures ----


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved."""
    pytest.importorskip("matplotlib")
    figures = []
    monkeypatch.setattr(curves, "save_figure", lambda figure, path: figures.append(figure))
    return figures


def test_learning_curves_show_mean_band_n_and_interval(drawn):
    runs = {"stiefel": [([0, 10], [0.1, 0.5]), ([0, 10], [0.2, 0.7])]}
    curves.learning_curves("x.png", runs, title="ARC")
    (axes,) = drawn[0].axes
    expected = "ARC\nmean and 95 % BCa bootstrap interval, n = 2 seeds; fewer than 3 seeds"
    assert axes.get_title(loc="left") == expected
    np.testing.assert_allclose(axes.lines[0].get_ydata(), [0.15, 0.6])
    band = axes.collections[0].get_paths()[0].vertices
    assert band[:, 1].min() >= 0.1 and band[:, 1].max() <= 0.7 and axes.get_xlabel() == "step"


def test_accuracy_over_length_has_a_logarithmic_axis(drawn):
    results = {"a": {4096: [0.5, 0.6, 0.7], 1024: [0.9, 0.8, 1.0]}, "b": {1024: [0.1, 0.2, 0.3]}}
    curves.accuracy_over_length("x.png", results, title="needles", method="percentile")
    (axes,) = drawn[0].axes
    assert axes.get_title(loc="left").endswith("95 % percentile bootstrap interval, n = 3 seeds")
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["1K", "4K"]
    np.testing.assert_allclose(axes.lines[0].get_xdata(), [1024, 4096])
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["a", "b"]


def test_pictures_are_files_and_bad_ones_are_typed_errors(tmp_path):
    pytest.importorskip("matplotlib")
    results = {"a": {1024: [0.5, 0.6, 0.7]}}
    curves.accuracy_over_length(tmp_path / "x.png", results, title="x", unit="instances")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(OutputError):
        curves.accuracy_over_length(tmp_path / "no/x.png", results, title="x")
    with pytest.raises(DataError, match="no scores"):
        curves.accuracy_over_length(tmp_path / "x.png", {}, title="x")
    with pytest.raises(DataError, match="a: no run"):
        curves.learning_curves(tmp_path / "x.png", {"a": []}, title="x")
    with pytest.raises(DataError, match="a: bad run: .*got 1 values at 1 steps in run 1"):
        curves.learning_curves(tmp_path / "x.png", {"a": [([0, 1], [1, 2]), ([0], [1])]}, title="x")
