# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tasks of RULER at any length, in RULER's own files."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from jpmhc.data import ruler, strips, tokenizers
from jpmhc.data.ahead import check_workers
from jpmhc.data.commands import _instances
from jpmhc.data.filler import Filler
from jpmhc.data.output import Card, OutputFolder
from jpmhc.data.questions import read_questions
from jpmhc.data.ruler import TASKS, RulerTask
from jpmhc.errors import ConfigError, DataError

_MOST_COUNTED = 20  # instances that --stats looks at


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of its own."""
    add = parser.add_argument
    add("--tasks", nargs="+", choices=TASKS, metavar="TASK", help="(all that the files allow)")
    add("--lengths", type=int, nargs="+", default=[8192], help="most tokens (%(default)s)")
    add("--count", type=int, default=500, metavar="N", help="instances of each (%(default)s)")
    add("--first", type=int, default=0, metavar="K", help="begin with instance (question) K")
    add(
        "--template",
        default="{task}",
        help="a model's own markers around {task}; \\n is a new line",
    )
    add("--split", choices=ruler.SPLITS, default="test", help="(%(default)s)")
    add("--essays", type=Path, metavar="FILE", help="text for the tasks that hide in essays")
    add("--squad", type=Path, metavar="FILE", help="questions of qa_1")
    add("--hotpotqa", type=Path, metavar="FILE", help="questions of qa_2")
    add("--seed", type=int, default=0, help="(%(default)s)")
    add("--workers", type=int, default=1, help="processes (%(default)s)")
    _instances.add_text_options(parser)


def run(options: argparse.Namespace) -> None:
    """Makes the instances and shows, counts and writes them as asked for."""
    if options.first < 0:
        raise ConfigError("--first", expected="at least 0", given=options.first)
    if options.count < 1:
        raise ConfigError("--count", expected="at least 1", given=options.count)
    check_workers(options.workers, 1)
    tasks = _tasks(options)
    _check_lengths(tasks, options.first)
    for task in tasks.values() if options.preview else ():
        for index in task.indices(options.preview, options.first):
            show(task, index)
    if options.png:
        draw(options.png, list(tasks.values()), options.first)
    if options.stats or not (options.preview or options.output or options.png):
        for name, task in tasks.items():
            print(f"{name}: {_count(task, options)}")
    if options.output is not None:
        _write(options, tasks)


def _tasks(options: argparse.Namespace) -> dict[str, RulerTask]:
    """The task of each file."""
    haystack = Filler.from_file(options.essays) if options.essays else None
    files = {"qa_1": options.squad, "qa_2": options.hotpotqa}
    questions = {name: read_questions(path) for name, path in files.items() if path}
    given = {None, "haystack" if haystack else None}
    names = options.tasks or [
        name for name, maker in TASKS.items() if maker.needs in given or name in questions
    ]
    tokenizer = tokenizers.load(options.tokenizer)
    return {
        f"{length}/{name}/{options.split}.jsonl": RulerTask(
            name,
            tokenizer,
            length=length,
            haystack=haystack,
            questions=questions.get(name),
            template=options.template.replace("\\n", "\n"),
            split=options.split,
            seed=options.seed,
        )
        for length in options.lengths
        for name in names
    }


def _check_lengths(tasks: dict[str, RulerTask], first: int) -> None:
    """All lengths that are too short in one error, before anything is made.

    Raises:
        DataError: the first instance of a task has no room in its length.
    """
    short = []
    for task in tasks.values():
        if task.questions is None:  # of questions some may fit where the first does not
            try:
                least = task.least(first)
                needed = f"at least {least} tokens" if least > task.length else None
            except DataError as error:
                needed = error.expected
            if needed:
                short.append(f"{task.length} for {task.name}, which needs {needed}")
    if short:
        hint = "longer --lengths, other --tasks or a tokenizer that makes fewer tokens"
        raise DataError("lengths too short", given="; ".join(short), hint=hint)


def _count(task: RulerTask, options: argparse.Namespace) -> str:
    indices = task.indices(options.count, options.first)
    seen = [task.instance(index).length for index in indices[:_MOST_COUNTED]]
    return (
        f"{len(indices)} instances; tokens of the first {len(seen)}: {min(seen)} to {max(seen)}, "
        f"{np.mean(seen):.1f} on average, {task.tokens_to_generate} of them to be generated"
    )


def show(task: RulerTask, index: int) -> None:
    """Prints an instance with what matters marked."""
    instance = task.instance(index)
    text = instance.input + instance.answer_prefix
    marks = _instances.places(text, instance.marks, "needle")
    title = f"{task.name}, instance {index}, {instance.length} tokens of {task.length}"
    whole = text + instance.completion
    marks = [*marks, (len(text), len(whole), "answer")]
    _instances.show(title, _instances.marked(whole, marks))


def draw(path: str, tasks: Sequence[RulerTask], first: int) -> None:
    """Draws where what is to be found lies in the first instance of each task."""
    rows = []
    for task in tasks:
        instance = task.instance(task.indices(1, first)[0])
        found = _instances.places(instance.input, instance.marks, "what is to be found")
        task_begin = instance.input.rfind(instance.input[:24])
        example = [(0, task_begin, "worked example")] if task_begin else []
        note = f"{instance.length} of {task.length}"
        # What an example has in common with the task is no answer.
        later = [place for place in found if place[0] >= task_begin]
        rows.append(strips.Strip(task.name, len(instance.input), tuple([*example, *later]), note))
    kinds = ("what is to be found", "worked example")
    unit = "characters of the input; to the right its tokens, those to be generated among them"
    strips.draw(path, rows, kinds, title="RULER, one instance of each task", unit=unit)


def _write(options: argparse.Namespace, tasks: dict[str, RulerTask]) -> None:
    files = [
        _instances.Lines(name, task.indices(options.count, options.first), _maker(task))
        for name, task in tasks.items()
    ]
    request = {
        "format": "jpmhc-ruler-1",
        "files": {
            file.name: {"instances": len(file.indices), **task.options()}
            for file, task in zip(files, tasks.values(), strict=True)
        },
    }
    with OutputFolder(options.output, request) as output:
        _instances.write_lines(output, files, workers=options.workers, quiet=options.quiet)
        output.write_json("manifest.json", request)
        output.write_card(_card(options, tasks, {f.name: len(f.indices) for f in files}))


def _maker(task: RulerTask):
    return lambda index: task.instance(index).record()


def _card(options: argparse.Namespace, tasks: dict[str, RulerTask], counts: dict[str, int]) -> Card:
    sources = {s.name: s.sha256 for t in tasks.values() if (s := t.haystack or t.questions)}
    named = ", ".join(f"{name} (SHA-256 {digest})" for name, digest in sources.items())
    tokenizer = next(iter(tasks.values())).tokenizer
    return Card(
        title="RULER",
        command_line=options.command_line,
        source=f"word lists of wonderwords; {named}" if named else "word lists of wonderwords",
        licence=options.licence,
        counts=counts,
        notes=(
            "`length` is the exact number of tokens of input and answer prefix and of those to be "
            "generated; it is never above that in the file's folder",
            "wording and parameters as published; random choices are this project's own",
            f"tokenizer: {tokenizer.name} (SHA-256 {tokenizer.fingerprint})",
            f"seed: {options.seed}, split: {options.split}",
        ),
    )
