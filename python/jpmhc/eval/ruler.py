# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""RULER's scores, and the table of them by task, length and model as in TRSP's Table 5."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jpmhc.data.checks import one_of
from jpmhc.data.ruler import TASKS, Instance, RulerTask
from jpmhc.errors import DataError, unknown_name
from jpmhc.eval.models import GeneratingModel, generated
from jpmhc.eval.tables import escaped_for_latex, short_length

__all__ = ["Table", "any_match", "evaluate", "mean_over_tasks", "recall", "score", "titles"]

_CONTROL = re.compile(r"[\x00-\x1f]")
_ANY_MATCH = ("qa_1", "qa_2")
_AVERAGE = "Average"

titles = {
    "niah_single_1": "NIAH Single 1",
    "niah_single_2": "NIAH Single 2",
    "niah_single_3": "NIAH Single 3",
    "niah_multikey_1": "NIAH Multikey 1",
    "niah_multikey_2": "NIAH Multikey 2",
    "niah_multikey_3": "NIAH Multikey 3",
    "niah_multivalue": "NIAH Multivalue",
    "niah_multiquery": "NIAH Multiquery",
    "vt": "Variable Tracking",
    "cwe": "Common Words",
    "fwe": "Frequent Words",
    "qa_1": "QA 1 (SQuAD)",
    "qa_2": "QA 2 (HotpotQA)",
}


def _clean(prediction: str) -> str:
    return _CONTROL.sub("\n", prediction.strip()).strip().lower()


def recall(prediction: str, outputs: Sequence[str]) -> float:
    """The fraction of the outputs that occur in a prediction, capitals or not."""
    text = _clean(prediction)
    return sum(output.lower() in text for output in outputs) / len(outputs)


def any_match(prediction: str, outputs: Sequence[str]) -> float:
    """1 if one of the outputs occurs in a prediction, capitals or not, else 0."""
    return float(recall(prediction, outputs) > 0)


def score(task: str, predictions: Sequence[str], outputs: Sequence[Sequence[str]]) -> float:
    """The mean over instances of recall, or of `any_match` for qa_1 and qa_2; 0..1.

    Raises:
        ConfigError: an unknown task.
        DataError: no predictions, not as many outputs, or an instance without any.
    """
    one_of("task", task, TASKS)
    if not predictions or len(predictions) != len(outputs):
        expected = f"{max(len(outputs), 1)} predictions"
        raise DataError("bad predictions", expected=expected, given=len(predictions), where=task)
    empty = next((k for k, wanted in enumerate(outputs) if not wanted), None)
    if empty is not None:
        raise DataError("no outputs", where=f"{task}, instance {empty}")
    metric = any_match if task in _ANY_MATCH else recall
    return float(np.mean([metric(*pair) for pair in zip(predictions, outputs, strict=True)]))


def evaluate(model: GeneratingModel, task: RulerTask, count: int) -> float:
    """The score of a model's greedy answers to the first `count` instances.

    Raises:
        DataError: as `RulerTask.instance`, or `count` is not positive.
        ConfigError, ShapeError: as `models.generated`.
    """
    instances = [task.instance(index) for index in range(count)]
    answers = [_answer(model, task, instance) for instance in instances]
    return score(task.name, answers, [instance.outputs for instance in instances])


def _answer(model: GeneratingModel, task: RulerTask, instance: Instance) -> str:
    prompt = task.tokenizer.encode(instance.input + instance.answer_prefix)
    return task.tokenizer.decode(generated(model, prompt, task.tokens_to_generate))


def mean_over_tasks(scores: Mapping[str, float]) -> float:
    """The mean of the tasks' scores, each counting once.

    Raises:
        DataError: no scores.
    """
    if not scores:
        raise DataError("no scores", expected="at least one task")
    return float(np.mean(list(scores.values())))


@dataclass(frozen=True)
class Table:
    """Scores by model, length and task; what was not measured is left out.

    Attributes:
        scores: scores[model][length][task] in 0..1.

    Raises:
        ConfigError: an unknown task.
        DataError: a score that is not in 0..1; it names model, length and task.
    """

    scores: Mapping[str, Mapping[int, Mapping[str, float]]]

    def __post_init__(self) -> None:
        for model, of_model in self.scores.items():
            for length, of_length in of_model.items():
                for task, value in of_length.items():
                    where = f"{model}, {length}"
                    if task not in TASKS:
                        raise unknown_name("task", task, TASKS, where=where)
                    if not 0 <= value <= 1:
                        place = f"{where}, {task}"
                        raise DataError("bad score", expected="0..1", given=value, where=place)

    @property
    def lengths(self) -> list[int]:
        """All lengths, the shortest first."""
        return sorted({length for of_model in self.scores.values() for length in of_model})

    @property
    def tasks(self) -> list[str]:
        """The tasks that some model was measured on, in the order of TASKS."""
        found = {
            task for m in self.scores.values() for of_length in m.values() for task in of_length
        }
        return [task for task in TASKS if task in found]

    def rows(self) -> list[tuple[str, list[list[float | None]]]]:
        """Title and percentages [length][model] of each task and of the mean.

        The mean of a model at a length is left out where a task is.
        """
        rows = [(titles[task], self._percentages(task)) for task in self.tasks]
        means = [
            [
                float(np.mean([values[k][n] for _, values in rows]))
                if all(values[k][n] is not None for _, values in rows)
                else None
                for n in range(len(self.scores))
            ]
            for k in range(len(self.lengths))
        ]
        return [*rows, (_AVERAGE, means)]

    def _percentages(self, task: str) -> list[list[float | None]]:
        return [
            [
                100 * of_length[task] if task in (of_length := of_model.get(length, {})) else None
                for of_model in self.scores.values()
            ]
            for length in self.lengths
        ]

    def markdown(self) -> str:
        """A table for a page; of each task and length the best model is bold."""
        models = [model.replace("|", r"\|") for model in self.scores]
        heads = [f"{short_length(n)} {model}" for n in self.lengths for model in models]
        lines = ["| Task | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
        for title, groups in self.rows():
            cells = [cell for group in groups for cell in _cells(group, "**{}**")]
            lines.append(f"| {title} | " + " | ".join(cells) + " |")
        return "\n".join(lines) + "\n"

    def latex(self) -> str:
        """A `tabular` that needs the package booktabs."""
        models = len(self.scores)
        groups = " ".join(
            rf"& \multicolumn{{{models}}}{{c}}{{{short_length(length)}}}" for length in self.lengths
        )
        names = " & ".join(escaped_for_latex(model) for _ in self.lengths for model in self.scores)
        lines = [
            rf"\begin{{tabular}}{{l{'r' * models * len(self.lengths)}}}",
            r"\toprule",
            rf"{groups} \\",
            rf"Task & {names} \\",
            r"\midrule",
        ]
        for title, values in self.rows():
            if title == _AVERAGE:
                lines.append(r"\midrule")
            cells = [cell for group in values for cell in _cells(group, r"\textbf{{{}}}")]
            lines.append(rf"{title} & {' & '.join(cells)} \\")
        return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"

    def csv(self) -> str:
        """One line for each model, length and task, the mean among them, in per cent."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(["model", "length", "task", "score"])
        for n, model in enumerate(self.scores):
            for k, length in enumerate(self.lengths):
                for name, (_, values) in zip([*self.tasks, "mean"], self.rows(), strict=True):
                    if values[k][n] is not None:
                        writer.writerow([model, length, name, f"{values[k][n]:.2f}"])
        return text.getvalue()


def _cells(group: list[float | None], bold: str) -> list[str]:
    texts = ["" if value is None else f"{value:.1f}" for value in group]
    best = max((float(text) for text in texts if text), default=None)
    return [
        bold.format(text) if text and len(texts) > 1 and float(text) == best else text
        for text in texts
    ]
