# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Accuracy on the bridged needle corpus (`jpmhc.data.needle`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from jpmhc.data.checks import whole
from jpmhc.data.needle import Instance, NeedleCorpus
from jpmhc.data.needle_themes import content_stems
from jpmhc.data.reading import field
from jpmhc.data.tokenizers import Tokenizer
from jpmhc.errors import DataError
from jpmhc.eval.models import GeneratingModel, generated

__all__ = ["Outcome", "Score", "evaluate", "exact_match", "literal_guess", "score"]

_FIRST_WORD = re.compile(r"\s*(\w*)")


@dataclass(frozen=True)
class Outcome:
    """What a model said to one instance.

    Attributes:
        index, hops: of the instance.
        depth: where its needle begins, as a fraction of the haystack.
        chance: how often a guess among the people of its haystack is right.
        continuation: the greedy continuation of its prompt.
        correct: whether its first word is the answer.
    """

    index: int
    hops: int
    depth: float
    chance: float
    continuation: str
    correct: bool


@dataclass(frozen=True)
class Score:
    """Accuracy over instances.

    Attributes:
        outcomes: one for each.
    """

    outcomes: tuple[Outcome, ...]

    @property
    def count(self) -> int:
        """How many instances."""
        return len(self.outcomes)

    @property
    def accuracy(self) -> float:
        """The fraction that is right."""
        return sum(outcome.correct for outcome in self.outcomes) / self.count

    @property
    def chance(self) -> float:
        """The accuracy of guessing one of the people of each haystack."""
        return sum(outcome.chance for outcome in self.outcomes) / self.count

    def by_hops(self) -> dict[int, Score]:
        """The same for each number of bridges."""
        return self._by(lambda outcome: outcome.hops)

    def by_depth(self, bins: int = 10) -> dict[float, Score]:
        """The same for each part of the haystack that the needle lies in, by where it begins."""
        bins = whole("bins", bins, 1)
        return self._by(lambda outcome: min(int(outcome.depth * bins), bins - 1) / bins)

    def _by(self, key: Callable[[Outcome], float]) -> dict:
        groups: dict = {}
        for outcome in self.outcomes:
            groups.setdefault(key(outcome), []).append(outcome)
        return {name: Score(tuple(groups[name])) for name in sorted(groups)}


def exact_match(continuation: str, answer: str) -> bool:
    """Whether the first word of a continuation is the answer, letter by letter."""
    found = _FIRST_WORD.match(continuation)
    return found is not None and found[1] == answer


def score(instances: Iterable[Instance | dict], continuations: Sequence[str]) -> Score:
    """The score of continuations that were made elsewhere, one for each instance.

    Args:
        instances: instances, or their records as `jpmhc-data needle` has written them.
        continuations: texts.

    Raises:
        DataError: no instances, not as many continuations, or a record without a field that is
            needed; it names the record.
    """
    instances = tuple(instances)
    if not instances or len(instances) != len(continuations):
        expected = f"{max(len(instances), 1)} continuations"
        raise DataError("bad continuations", expected=expected, given=len(continuations))
    return Score(
        tuple(
            _outcome(instance, text, f"instance {place}")
            for place, (instance, text) in enumerate(zip(instances, continuations, strict=True))
        )
    )


def _outcome(instance: Instance | dict, continuation: str, where: str) -> Outcome:
    record = instance.record() if isinstance(instance, Instance) else instance
    index, hops = (field(record, name, int, where) for name in ("index", "hops"))
    people = field(record, "candidates", list, where)
    needles = (
        statement["depth"]
        for statement in field(record, "statements", list, where)
        if isinstance(statement, dict)
        and (statement.get("level"), statement.get("chain")) == (0, 0)
        and isinstance(statement.get("depth"), float | int)
    )
    depth = next(needles, None)
    if not people or depth is None:
        expected = "candidates, and a statement of level 0 and chain 0 with its depth"
        raise DataError("bad record", expected=expected, where=where)
    correct = exact_match(continuation, field(record, "answer", str, where))
    return Outcome(index, hops, depth, 1 / len(people), continuation, correct)


def evaluate(model: GeneratingModel, corpus: NeedleCorpus, count: int) -> Score:
    """The score of a model's greedy continuations of the first `count` instances.

    It may say as many tokens as the right completion has.

    Raises:
        DataError: as `NeedleCorpus.instance`, or `count` is not positive.
        ConfigError, ShapeError: as `models.generated`.
    """
    instances = [corpus.instance(index) for index in range(count)]
    texts = [_continue(model, corpus.tokenizer, instance) for instance in instances]
    return score(instances, texts)


def literal_guess(instance: Instance) -> str:
    """What one would answer who only looks for the words of the question.

    The person of the needle that shares most stems with the question; of several the first by
    name, so that where none shares any it is a guess.
    """
    asked = content_stems(instance.question)
    shared = {
        name: len(asked & content_stems(statement.text))
        for statement in instance.statements
        if statement.level == 0
        for name in instance.candidates
        if name in statement.text
    }
    return max(instance.candidates, key=lambda name: shared[name])


def _continue(model: GeneratingModel, tokenizer: Tokenizer, instance: Instance) -> str:
    prompt = instance.tokens[: instance.answer_start]
    limit = len(instance.tokens) - instance.answer_start
    return tokenizer.decode(generated(model, prompt, limit))
