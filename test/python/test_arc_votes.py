# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Votes over augmentations, pass@k in both senses, and submission files."""

import dataclasses
import json
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jpmhc.data import arc
from jpmhc.errors import ConfigError, DataError, OutputError, RangeError, ShapeError
from jpmhc.eval import arc_votes
from jpmhc.eval.arc_votes import Ballot, Judge
from jpmhc.eval.pass_at_k import all_wrong, pass_at_k, pass_at_k_of_all

CANVAS = 4
A, B, C = (np.array(g, dtype=np.uint8) for g in ([[1]], [[2, 2]], [[3], [3]]))


# ---- pass@k of samples ----


@given(
    st.integers(1, 7).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n)))
)
def test_pass_at_k_is_the_share_of_the_draws(case):
    n, right, k = case
    draws = list(combinations(range(n), k))
    hits = sum(any(place < right for place in draw) for draw in draws)
    assert pass_at_k(n, right, k) == pytest.approx(hits / len(draws), rel=1e-14, abs=0)


@pytest.mark.parametrize("n", [1, 10, 1001, 10_000])
def test_pass_at_k_in_extreme_cases(n):
    for k in {1, 2, n // 2 or 1, n}:
        if k > n:
            continue
        assert pass_at_k(n, 0, k) == 0.0
        assert pass_at_k(n, n, k) == 1.0
        assert pass_at_k(n, n - k + 1, k) == 1.0  # k > N - c
        exact = 1 - Fraction(comb(n - 1, k), comb(n, k)) if n > 1 else 1
        assert pass_at_k(n, 1, k) == pytest.approx(float(exact), rel=1e-13)


@given(st.integers(2, 10_000), st.data())
def test_pass_at_k_is_accurate_for_many_samples(n, data):
    """Against exact fractions: to 1e-12 of pass@k, and of 1 - pass@k as `all_wrong` gives it."""
    right = data.draw(st.integers(1, n))
    k = data.draw(st.integers(1, min(n, 1000)))
    wrong = Fraction(comb(n - right, k), comb(n, k))
    assert pass_at_k(n, right, k) == pytest.approx(float(1 - wrong), rel=1e-12)
    if wrong > Fraction(1, 10**290):  # above the smallest normal number
        assert all_wrong(n, right, k) == pytest.approx(float(wrong), rel=1e-11)


def test_pass_at_1_is_the_mean():
    assert pass_at_k(8, 3, 1) == pytest.approx(3 / 8, rel=1e-15)


@given(st.integers(1, 6), st.integers(1, 3), st.data())
def test_pass_at_k_of_several_outputs_is_the_share_of_the_draws(n, outputs, data):
    right = np.array(
        data.draw(
            st.lists(
                st.lists(st.booleans(), min_size=outputs, max_size=outputs), min_size=n, max_size=n
            )
        )
    )
    k = data.draw(st.integers(1, n))
    draws = list(combinations(range(n), k))
    hits = sum(right[list(draw)].any(axis=0).all() for draw in draws)
    assert pass_at_k_of_all(right, k) == pytest.approx(hits / len(draws), abs=1e-12)


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (lambda: pass_at_k(3, 4, 1), ConfigError),
        (lambda: pass_at_k(3, -1, 1), ConfigError),
        (lambda: pass_at_k(3, 1, 0), ConfigError),
        (lambda: pass_at_k(3, 1, 4), ConfigError),
        (lambda: pass_at_k_of_all(np.ones(3), 1), ShapeError),
        (lambda: pass_at_k_of_all(np.ones((3, 17)), 1), ShapeError),
        (lambda: pass_at_k_of_all(np.ones((3, 2)), 4), ConfigError),
    ],
)
def test_bad_numbers_are_typed_errors(action, error):
    with pytest.raises(error):
        action()


# ---- votes ----


def test_ranking_by_hand():
    """3 votes for B; A and C have 2 each, of which C halts more surely."""
    ballot = Ballot()
    for grid, halting in [(A, 0.9), (B, 0.1), (C, 0.8), (B, 0.2), (A, 0.1), (C, 0.4), (B, 0.3)]:
        ballot.add(grid, halting)
    ranking = ballot.ranking()
    assert [c.votes for c in ranking] == [3, 2, 2]
    assert [c.halting for c in ranking] == pytest.approx([0.2, 0.6, 0.5])
    for candidate, grid in zip(ranking, (B, C, A), strict=True):
        np.testing.assert_array_equal(candidate.grid, grid)


@given(st.permutations([(A, 0.5), (A, 0.25), (B, 0.25), (B, 0.5), (C, 0.75), (C, 0.0), (C, 1e-9)]))
def test_the_order_of_votes_does_not_matter(votes):
    ballot = Ballot()
    for grid, halting in votes:
        ballot.add(grid, halting)
    ranking = ballot.ranking()
    assert [c.votes for c in ranking] == [3, 2, 2]
    np.testing.assert_array_equal(ranking[1].grid, A)  # equal with B: the smaller grid
    np.testing.assert_array_equal(ranking[2].grid, B)


@pytest.fixture
def puzzles():
    """A task with two tests, and one with one."""
    grids = np.random.default_rng(1).integers(0, 10, (8, 2, 3))
    pairs = [(g, np.rot90(g)) for g in grids]
    tasks = (
        arc.Task.from_grids("two", pairs[:2], pairs[2:4]),
        arc.Task.from_grids("one", pairs[4:6], pairs[6:7]),
    )
    learnt = (arc.Task.from_grids("learnt", pairs[6:7], pairs[7:]),)
    return arc.ArcPuzzles(arc.TaskSets(learnt, tasks), variants=12, canvas=CANVAS, seed=2)


def judge_of(puzzles):
    return Judge(puzzles.sets.evaluation, puzzles.identifiers(), CANVAS)


def truth(batch):
    return np.where(batch.labels == arc.IGNORE, arc.PAD, batch.labels)


def run(puzzles, spoil=lambda origins: np.zeros(len(origins), bool), batch_size=8):
    """A judge of the truth, but for rows that `spoil` names, which get a grid of one cell."""
    judge = judge_of(puzzles)
    for batch in arc.EvaluationBatches(puzzles.evaluation, batch_size):
        tokens = truth(batch)
        bad = spoil(puzzles.evaluation.origins(batch.rows[: batch.count]))
        tokens[: batch.count][bad] = arc.encode_grid(np.zeros((1, 1), np.uint8), CANVAS)
        judge.add(batch, tokens, np.full(batch_size, 0.5))
    return judge


def test_the_truth_under_all_augmentations_is_one_candidate(puzzles):
    judge = run(puzzles)
    for (name, k), ballot in judge.ballots.items():
        (candidate,) = ballot.ranking()
        assert candidate.votes == 12 and candidate.halting == 0.5
        np.testing.assert_array_equal(candidate.grid, judge.tasks[name].tests[k].output)
    result = judge.result()
    scores = result.as_dict((1, 2, 1000))
    assert scores.pop("tasks") == 2
    assert set(scores.values()) == {1.0}
    assert result.solved(1) == ["two", "one"]


def test_a_task_counts_only_when_every_test_is_right(puzzles):
    """The second test of task 1, `two`, is right under the first 3 of 12 augmentations alone."""
    judge = run(puzzles, lambda o: (o[:, 0] == 1) & (o[:, 1] == 1) & (o[:, 2] >= 3))
    result = judge.result()
    assert result.exact_accuracy == 1.0  # without augmentation both are right
    assert result.solved(1) == ["one"] and result.solved(2) == ["two", "one"]
    assert result.pass_at_votes(1) == 0.5 and result.partial_at_votes(1) == 0.75
    assert result.pass_at_samples(1) == pytest.approx((3 / 12 + 1) / 2)
    assert result.pass_at_samples(4) == pytest.approx((pass_at_k(12, 3, 4) + 1) / 2)
    assert result.pass_at_samples(1000) == 1.0


def test_a_grid_of_another_size_is_wrong(puzzles):
    judge = run(puzzles, lambda o: np.full(len(o), True))
    result = judge.result()
    assert result.exact_accuracy == result.pass_at_votes(1000) == result.pass_at_samples(12) == 0


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda b, p, h: (b, p, [*h[:-1], np.nan]), DataError, "row 7: bad halting score.*nan"),
        (lambda b, p, h: (b, p, [np.inf, *h[1:]]), DataError, "row 0: bad halting score"),
        (lambda b, p, h: (b, p[:, :9], h), ShapeError, "bad predictions"),
        (lambda b, p, h: (b, p[:3], h), ShapeError, "bad predictions"),
        (lambda b, p, h: (b, p, h[:3]), ShapeError, "bad halting scores"),
        (lambda b, p, h: (dataclasses.replace(b, tokens=b.tokens[:, :9]), p[:, :9], h),
         ShapeError, r"expected \[B, 16\], got \[8, 9\]"),
        (lambda b, p, h: (dataclasses.replace(b, tokens=np.roll(b.tokens, 1)), p, h),
         DataError, "an input that is no test"),
        (lambda b, p, h: (dataclasses.replace(b, puzzle_ids=b.puzzle_ids + 99), p, h),
         RangeError, "no such puzzle id"),
    ],
)  # fmt: skip
def test_of_a_bad_batch_nothing_is_counted(puzzles, spoil, error, message):
    judge, batch = judge_of(puzzles), arc.EvaluationBatches(puzzles.evaluation, 8).batch(0)
    with pytest.raises(error, match=message):
        judge.add(*spoil(batch, truth(batch), np.full(8, 0.5)))
    assert not any(ballot.ranking() for ballot in judge.ballots.values())


def test_missing_predictions_are_wrong(puzzles):
    result = judge_of(puzzles).result()
    assert set(result.as_dict().values()) == {2, 0.0}


def test_ranks_merge_to_the_whole(puzzles):
    whole, parts = run(puzzles), [judge_of(puzzles) for _ in range(2)]
    for rank, part in enumerate(parts):
        for batch in arc.EvaluationBatches(puzzles.evaluation, 8, rank=rank, ranks=2):
            part.add(batch, truth(batch), np.full(4, 0.5))
    parts[0].merge(parts[1])
    assert arc_votes.submission(parts[0]) == arc_votes.submission(whole)
    assert parts[0].result().as_dict() == whole.result().as_dict()
    with pytest.raises(DataError, match="other tasks"):
        whole.merge(Judge([], [], CANVAS))


def test_tests_with_equal_inputs_share_their_votes():
    pair = ([[1]], [[2]])
    task = arc.Task.from_grids("x", [([[3]], [[4]])], [pair, pair])
    puzzles = arc.ArcPuzzles(arc.TaskSets((), (task,)), variants=2, canvas=CANVAS)
    judge = run(puzzles)
    # Each of the two examples votes for both tests.
    assert [b.ranking()[0].votes for b in judge.ballots.values()] == [4, 4]
    assert judge.result().pass_at_samples(1) == 1.0


def test_bad_predictions_are_typed_errors(puzzles):
    judge = judge_of(puzzles)
    batch = puzzles.evaluation.batch(np.arange(3))
    with pytest.raises(ShapeError, match=r"expected \[3, 16\], got \[2, 16\]"):
        judge.add(batch, truth(batch)[:2])
    with pytest.raises(ShapeError, match=r"halting scores: expected \[3\], got \[2\]"):
        judge.add(batch, truth(batch), np.zeros(2))
    training = puzzles.training.batch(np.arange(1))
    with pytest.raises(DataError, match="task learnt: a task that is not judged"):
        judge.add(training, truth(training))
    with pytest.raises(RangeError, match=r"no such puzzle id: expected 0\.\.0"):
        Judge(puzzles.sets.evaluation, ["<blank>"], CANVAS).add(batch, truth(batch))
    hidden = arc.Task.from_grids("h", [([[1]], [[1]])], [([[1]], None)])
    with pytest.raises(DataError, match="task h, test 1: output not known"):
        Judge([hidden], ["<blank>", "h"], CANVAS).result()


# ---- submissions ----


def test_submission_has_two_attempts_for_each_test(puzzles, tmp_path):
    judge = run(puzzles, lambda o: o[:, 2] >= 7)
    value = arc_votes.submission(judge)
    assert list(value) == ["two", "one"] and len(value["two"]) == 2
    assert value["one"][0]["attempt_1"] == puzzles.tasks[2].tests[0].output.tolist()
    # Under 5 augmentations the prediction was a cell of colour 0, which is its own image.
    assert value["one"][0]["attempt_2"] == [[0]]
    path = tmp_path / "submission.json"
    arc_votes.write_submission(path, judge)
    assert json.loads(path.read_text()) == value
    read = arc_votes.read_submission(path)
    assert arc_votes.score_submission(read, puzzles.sets.evaluation) == 1.0
    read["two"][1] = read["two"][1][1:]  # the right attempt is taken away
    assert arc_votes.score_submission(read, puzzles.sets.evaluation) == 0.5


def test_tasks_with_unknown_outputs_are_submitted():
    hidden = arc.Task.from_grids("h", [([[1, 2]], [[2, 1]])], [([[3, 4]], None)])
    puzzles = arc.ArcPuzzles(arc.TaskSets((), (hidden,)), variants=5, canvas=CANVAS)
    judge = judge_of(puzzles)
    for batch in arc.EvaluationBatches(puzzles.evaluation, 5):
        assert (batch.labels == arc.IGNORE).all()
        judge.add(batch, batch.tokens)  # a model that copies its input
    assert arc_votes.submission(judge)["h"][0]["attempt_1"] == [[3, 4]]


def test_empty_grids_are_no_attempts():
    task = arc.Task.from_grids("x", [([[1]], [[1]])], [([[2]], [[2]])])
    judge = Judge([task], ["<blank>", "x"], CANVAS)
    assert arc_votes.submission(judge) == {"x": [{"attempt_1": [[0]], "attempt_2": [[0]]}]}
    for _ in range(2):
        judge.ballots["x", 0].add(np.zeros((0, 0), np.uint8))
    judge.ballots["x", 0].add(A)
    assert arc_votes.submission(judge) == {"x": [{"attempt_1": [[1]], "attempt_2": [[1]]}]}
    assert len(judge.ballots["x", 0].ranking()) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "no JSON"),
        ("[]", "expected an object, got a list"),
        ('{"x": 1}', "bad field 'x': expected a list"),
        ('{"x": [{}]}', "task x, test 1: .*an attempt_1"),
        ('{"x": [{"attempt_1": [[11]]}]}', "task x, test 1: task attempt_1.*got 11"),
    ],
)
def test_bad_submissions_are_typed_errors(tmp_path, text, message):
    path = tmp_path / "s.json"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        arc_votes.read_submission(path)
    assert str(path) in str(caught.value)


def test_submissions_that_do_not_fit(tmp_path, puzzles):
    with pytest.raises(DataError, match="cannot read"):
        arc_votes.read_submission(tmp_path / "nothing")
    with pytest.raises(OutputError, match="cannot write"):
        arc_votes.write_submission(tmp_path / "no/folder", run(puzzles))
    with pytest.raises(DataError, match="task two: .*expected 2 tests, got none"):
        arc_votes.score_submission({}, puzzles.sets.evaluation)
