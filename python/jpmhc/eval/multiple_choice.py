# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Multiple choice by log-likelihood: MMLU and HellaSwag from files in their published formats.

A model is asked how likely each choice is as the continuation of a context. Texts and metrics
are those of lm-evaluation-harness: `acc` takes the choice of the largest log-likelihood,
`acc_norm` that of the largest per character of the choice, `acc_bytes` per byte.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from jpmhc.data.checks import one_of, whole
from jpmhc.data.reading import as_text, field, json_lines, unreadable
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import DataError, shown
from jpmhc.eval.models import LanguageModel, loglikelihood

__all__ = [
    "MMLU_FORMS",
    "Accuracy",
    "Item",
    "choice_loglikelihoods",
    "encode_pair",
    "evaluate",
    "read_hellaswag",
    "read_mmlu",
]

LETTERS = ("A", "B", "C", "D")
MMLU_FORMS = ("letter", "answer")
_WHAT = "the questions"  # in errors
# The categories of MMLU's authors; what is in none of the first three is "other".
_CATEGORIES = {
    "stem": (
        "abstract_algebra anatomy astronomy college_biology college_chemistry "
        "college_computer_science college_mathematics college_physics computer_security "
        "conceptual_physics electrical_engineering elementary_mathematics high_school_biology "
        "high_school_chemistry high_school_computer_science high_school_mathematics "
        "high_school_physics high_school_statistics machine_learning"
    ).split(),
    "humanities": (
        "formal_logic high_school_european_history high_school_us_history "
        "high_school_world_history international_law jurisprudence logical_fallacies "
        "moral_disputes moral_scenarios philosophy prehistory professional_law world_religions"
    ).split(),
    "social sciences": (
        "econometrics high_school_geography high_school_government_and_politics "
        "high_school_macroeconomics high_school_microeconomics high_school_psychology "
        "human_sexuality professional_psychology public_relations security_studies sociology "
        "us_foreign_policy"
    ).split(),
}
_BRACKETS = re.compile(r"\[.*?\]")


@dataclass(frozen=True)
class Item:
    """A question.

    Attributes:
        context: what the choices continue, without a blank at its end.
        choices: as text; a blank comes before each.
        gold: the index of the right one.
        groups: what it also counts for, such as its subject.
    """

    context: str
    choices: tuple[str, ...]
    gold: int
    groups: tuple[str, ...]


@dataclass(frozen=True)
class Accuracy:
    """Fractions of items answered rightly, 0..1, by metric.

    Attributes:
        count: how many items.
        acc, acc_norm, acc_bytes: see the module.
    """

    count: int
    acc: float
    acc_norm: float
    acc_bytes: float


def read_mmlu(
    folder: str | os.PathLike,
    *,
    form: str = "letter",
    shots: int = 5,
    subjects: Iterable[str] | None = None,
) -> list[Item]:
    """The test questions of MMLU's own archive.

    Args:
        folder: with `test/SUBJECT_test.csv` and, for shots, `dev/SUBJECT_dev.csv`: rows of
            question, four answers and the letter of the right one.
        form: "letter" lists the answers and takes a letter as the choice (the task `mmlu` of
            lm-evaluation-harness); "answer" does not list them and takes the answers themselves
            (its `mmlu_continuation`).
        shots: how many questions of the subject's dev file come before, with their answers.
        subjects: by default all that the folder has.

    Raises:
        ConfigError: an unknown form or subject, or negative shots.
        DataError: a file is missing or a row is malformed; it names file, row and field.
    """
    one_of("form", form, MMLU_FORMS)
    shots = whole("shots", shots, 0)
    files = sorted(Path(folder, "test").glob("*_test.csv"))
    known = [path.name.removesuffix("_test.csv") for path in files]
    if not known:
        raise DataError("no questions", expected="test/SUBJECT_test.csv", where=folder)
    items = []
    for subject in known if subjects is None else subjects:
        one_of("subject", subject, known)
        examples = _mmlu_rows(Path(folder, "dev", f"{subject}_dev.csv"))[:shots] if shots else []
        begin = description(subject, form)
        for question, answers, gold in examples:
            context, choices = _mmlu_text(question, answers, form)
            begin += f"{context} {choices[gold]}\n\n"
        for question, answers, gold in _mmlu_rows(Path(folder, "test", f"{subject}_test.csv")):
            context, choices = _mmlu_text(question, answers, form)
            items.append(Item(begin + context, choices, gold, (subject, _category(subject))))
    return items


def description(subject: str, form: str) -> str:
    """What MMLU's prompts begin with."""
    kind = "multiple choice questions" if form == "letter" else "questions"
    title = subject.replace("_", " ")
    return f"The following are {kind} (with answers) about {title}.\n\n"


def _category(subject: str) -> str:
    found = (name for name, subjects in _CATEGORIES.items() if subject in subjects)
    return next(found, "other")


def _mmlu_text(question: str, answers: tuple[str, ...], form: str) -> tuple[str, tuple[str, ...]]:
    if form == "answer":
        return f"Question: {question.strip()}\nAnswer:", answers
    listed = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, answers, strict=True))
    return f"{question.strip()}\n{listed}\nAnswer:", LETTERS


def _mmlu_rows(path: Path) -> list[tuple[str, tuple[str, ...], int]]:
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.reader(file))
    except OSError as error:
        raise unreadable(path, _WHAT, error) from error
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError("no CSV file in UTF-8", given=error, where=path) from error
    found = []
    for number, row in enumerate(rows, start=1):
        where = f"{path}: row {number}"
        if len(row) != 6:
            expected = "question, four answers and a letter"
            raise DataError("bad row", expected=expected, given=f"{len(row)} fields", where=where)
        letter = row[5].strip()
        if letter not in LETTERS:
            expected = "A, B, C or D"
            raise DataError("bad answer", expected=expected, given=shown(letter), where=where)
        found.append((row[0], tuple(row[1:5]), LETTERS.index(letter)))
    return found


def read_hellaswag(path: str | os.PathLike) -> list[Item]:
    """The questions of a `hellaswag_*.jsonl` that has labels, as lm-evaluation-harness words them.

    Raises:
        DataError: the file cannot be read or a line is malformed; it names line and field.
    """
    items = []
    for where, record in json_lines(path, _WHAT):
        activity, first, second = (
            field(record, name, str, where) for name in ("activity_label", "ctx_a", "ctx_b")
        )
        endings = [
            as_text(text, "endings", where) for text in field(record, "endings", list, where)
        ]
        if not endings:
            raise DataError("bad field 'endings'", expected="at least 1", given=0, where=where)
        gold = _label(record.get("label"), len(endings), where)
        context = _hellaswag_text(f"{activity}: {first} {second.capitalize()}")
        choices = tuple(_hellaswag_text(text) for text in endings)
        items.append(Item(context, choices, gold, ()))
    if not items:
        raise DataError("no questions", where=path)
    return items


def _label(value: object, count: int, where: str) -> int:
    number = int(value) if isinstance(value, int | str) and str(value).isdecimal() else -1
    if not 0 <= number < count:
        expected = f"0..{count - 1}"
        raise DataError("bad field 'label'", expected=expected, given=shown(value), where=where)
    return number


def _hellaswag_text(text: str) -> str:
    # The brackets are left over from WikiHow.
    text = _BRACKETS.sub("", text.strip().replace(" [title]", ". "))
    return text.replace("  ", " ")


def encode_pair(
    tokenizer: Tokenizer, context: str, continuation: str
) -> tuple[np.ndarray, np.ndarray]:
    """Tokens of a context and of what continues it, split as lm-evaluation-harness does.

    Blanks at the end of the context go to the continuation; both are tokenized together and cut
    after as many tokens as the context has alone.
    """
    kept = context.rstrip()
    continuation = context[len(kept) :] + continuation
    whole = tokenizer.encode(kept + continuation)
    size = min(tokenizer.encode(kept).size, whole.size)
    return whole[:size], whole[size:]


def choice_loglikelihoods(
    model: LanguageModel,
    tokenizer: Tokenizer,
    context: str,
    choices: Sequence[str],
    *,
    length: int | None = None,
) -> np.ndarray:
    """The log-likelihood of each choice as the continuation of a context, float64 [choices].

    Args:
        length: the most tokens that the model takes; longer contexts lose their beginning.

    Raises:
        DataError: a context without tokens, or a choice without tokens or longer than `length`.
    """
    sums = []
    for choice in choices:
        before, after = encode_pair(tokenizer, context, f" {choice}")
        if not before.size or not after.size:
            raise DataError("empty context or choice", given=shown((context, choice)))
        tokens = np.concatenate([before, after])
        if length is not None:
            if after.size >= length:
                raise DataError(
                    "choice too long", expected=f"below {length} tokens", given=after.size
                )
            tokens = tokens[-length:]
        sums.append(loglikelihood(model, tokens)[-after.size :].sum())
    return np.array(sums)


def evaluate(
    model: LanguageModel,
    tokenizer: Tokenizer,
    items: Sequence[Item],
    *,
    length: int | None = None,
) -> dict[str, Accuracy]:
    """Accuracies over all items (as "all", each item counting once) and by group.

    The groups of MMLU are subjects and the categories stem, humanities, social sciences, other.

    Of equal log-likelihoods the first choice is taken.

    Raises:
        DataError: no items, or as `choice_loglikelihoods`.
    """
    if not items:
        raise DataError("no questions")
    hits: dict[str, list[tuple[bool, ...]]] = {"all": []}
    for item in items:
        sums = choice_loglikelihoods(model, tokenizer, item.context, item.choices, length=length)
        characters = np.array([max(len(choice), 1) for choice in item.choices])
        sizes = np.array([max(len(choice.encode()), 1) for choice in item.choices])
        found = (sums.argmax(), (sums / characters).argmax(), (sums / sizes).argmax())
        hit = tuple(bool(choice == item.gold) for choice in found)
        for group in ("all", *item.groups):
            hits.setdefault(group, []).append(hit)
    return {
        name: Accuracy(len(rows), *np.mean(rows, axis=0).tolist()) for name, rows in hits.items()
    }
